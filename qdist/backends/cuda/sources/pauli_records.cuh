// What the passes over tiles for observables read.
//
// Generated from qdist/backends/cuda/lowering/records/paulis.py: do not edit. __init__.py there explains the words.
#pragma once

#include "types.cuh"

// A Pauli string of a pass over tiles.
struct __align__(8) String {
    Index far;  // mask of Z and Y at far bits
    unsigned near;  // mask of Z and Y at thread bits
    unsigned unused;
    double factor;  // its coefficient, in which every Y counts
};
static_assert(sizeof(String) == 24, "size of String");

// Pauli strings that flip the same bits of a tile.
struct __align__(16) Group {
    unsigned x;  // the flips, in the tile's index
    unsigned short word;  // register mask: amplitudes with the opposite sign in the strings from middle on
    unsigned short imaginary;  // whether their factors lack an i
    int middle;  // strings before it have one sign for all of a thread's amplitudes
    int end;  // the string after the last
};
static_assert(sizeof(Group) == 16, "size of Group");

#ifdef CHECK_OFFSETS
static_assert(OFFSET(String, far) == 0, "far");
static_assert(OFFSET(String, near) == 8, "near");
static_assert(OFFSET(String, unused) == 12, "unused");
static_assert(OFFSET(String, factor) == 16, "factor");
static_assert(OFFSET(Group, x) == 0, "x");
static_assert(OFFSET(Group, word) == 4, "word");
static_assert(OFFSET(Group, imaginary) == 6, "imaginary");
static_assert(OFFSET(Group, middle) == 8, "middle");
static_assert(OFFSET(Group, end) == 12, "end");
#endif
