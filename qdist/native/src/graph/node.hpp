// The fields of a recorded operation. Python's class Node (tensor/autograd.py) adds what is done with them seldom.
#pragma once

#include "graph/objects.hpp"

#if PY_VERSION_HEX < 0x030C0000
#include <structmember.h>
#define Py_T_OBJECT_EX T_OBJECT_EX
#define Py_T_LONGLONG T_LONGLONG
#define Py_READONLY READONLY
#endif

#include <cstddef>

namespace qdist::graph {

struct Node {
    PyObject_HEAD;
    PyObject* rule;
    PyObject* inputs;  // a tuple of edges: the Node that made an input, the input if it is a leaf, or None
    PyObject* attributes;
    PyObject* saved;
    PyObject* guards;
    PyObject* xp;
    PyObject* shape;
    PyObject* dtype;
    PyObject* hooks;
    PyObject* unpack;
    PyObject* digests;
    PyObject* freed;
    long long sequence;  // An output is made after its inputs, so in descending sequence cotangents are complete.

    static Node* of(nb::handle object) { return reinterpret_cast<Node*>(object.ptr()); }
};

constexpr PyObject* Node::* NODE_OBJECTS[] = {&Node::rule,   &Node::inputs, &Node::attributes, &Node::saved,
                                              &Node::guards, &Node::xp,     &Node::shape,      &Node::dtype,
                                              &Node::hooks,  &Node::unpack, &Node::digests,    &Node::freed};

inline void replace(PyObject*& field, nb::handle value) {
    PyObject* before = field;
    field = Py_NewRef(value.ptr());
    Py_XDECREF(before);
}

// A Node whose fields are None, but for its place in the sequence.
inline PyObject* new_node(PyTypeObject* type, PyObject* = nullptr, PyObject* = nullptr) {
    static long long sequence = 0;
    const auto allocate = reinterpret_cast<allocfunc>(PyType_GetSlot(type, Py_tp_alloc));
    PyObject* self = allocate(type, 0);
    if (self == nullptr) return nullptr;
    Node* node = Node::of(self);
    for (const auto field : NODE_OBJECTS) node->*field = Py_NewRef(Py_None);
    replace(node->freed, Py_False);
    node->sequence = ++sequence;
    return self;
}

inline int visit_node(PyObject* self, visitproc visit, void* arg) {
    Py_VISIT(Py_TYPE(self));
    for (const auto field : NODE_OBJECTS) Py_VISIT(Node::of(self)->*field);
    return 0;
}

inline int clear_node(PyObject* self) {
    for (const auto field : NODE_OBJECTS) Py_CLEAR(Node::of(self)->*field);
    return 0;
}

inline void free_node(PyObject* self) {
    PyObject_GC_UnTrack(self);
    clear_node(self);
    PyTypeObject* type = Py_TYPE(self);
    reinterpret_cast<freefunc>(PyType_GetSlot(type, Py_tp_free))(self);
    Py_DECREF(type);
}

// The class NodeFields.
inline nb::object node_type() {
    static PyMemberDef members[] = {
        {"rule", Py_T_OBJECT_EX, offsetof(Node, rule), 0, nullptr},
        {"inputs", Py_T_OBJECT_EX, offsetof(Node, inputs), 0, nullptr},
        {"attributes", Py_T_OBJECT_EX, offsetof(Node, attributes), 0, nullptr},
        {"saved", Py_T_OBJECT_EX, offsetof(Node, saved), 0, nullptr},
        {"guards", Py_T_OBJECT_EX, offsetof(Node, guards), 0, nullptr},
        {"xp", Py_T_OBJECT_EX, offsetof(Node, xp), 0, nullptr},
        {"shape", Py_T_OBJECT_EX, offsetof(Node, shape), 0, nullptr},
        {"dtype", Py_T_OBJECT_EX, offsetof(Node, dtype), 0, nullptr},
        {"hooks", Py_T_OBJECT_EX, offsetof(Node, hooks), 0, nullptr},
        {"unpack", Py_T_OBJECT_EX, offsetof(Node, unpack), 0, nullptr},
        {"digests", Py_T_OBJECT_EX, offsetof(Node, digests), 0, nullptr},
        {"freed", Py_T_OBJECT_EX, offsetof(Node, freed), 0, nullptr},
        {"sequence", Py_T_LONGLONG, offsetof(Node, sequence), Py_READONLY, nullptr},
        {nullptr, 0, 0, 0, nullptr},
    };
    static PyType_Slot slots[] = {
        {Py_tp_new, reinterpret_cast<void*>(new_node)},
        {Py_tp_traverse, reinterpret_cast<void*>(visit_node)},
        {Py_tp_clear, reinterpret_cast<void*>(clear_node)},
        {Py_tp_dealloc, reinterpret_cast<void*>(free_node)},
        {Py_tp_members, members},
        {Py_tp_doc, const_cast<char*>("The fields of a recorded operation.")},
        {0, nullptr},
    };
    static PyType_Spec spec = {"qdist.native.NodeFields", sizeof(Node), 0,
                               Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC, slots};
    return made(PyType_FromSpec(&spec));
}

}  // namespace qdist::graph
