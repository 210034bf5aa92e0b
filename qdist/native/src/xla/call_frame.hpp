// What XLA's foreign function interface hands to a function on the CPU: the structs of its C ABI, versions 0.x.
//
// Declared here instead of including jaxlib's header, so that the module has its function whichever jaxlib it will meet.
// XLA adds fields at the end of structs only, whose sizes it says; everything else changes the major version.
// tests/native/test_xla_call_frame.py compares them with the header.
#pragma once

#include <cstddef>
#include <cstdint>

namespace qdist::xla {

struct Extension {
    std::size_t struct_size;
    int type;
    Extension* next;
};
constexpr int METADATA = 1;  // Extension::type

struct Version {
    std::size_t struct_size;
    Extension* extensions;
    int major, minor;
};

// What a function says of itself when it is registered.
struct Metadata {
    std::size_t struct_size;
    Version version;
    std::uint32_t traits;
    std::int64_t state_type;  // Not in the first versions.
};

struct MetadataExtension {
    Extension base;
    Metadata* metadata;
};

struct Error;  // XLA's own.

struct ErrorRequest {
    std::size_t struct_size;
    Extension* extensions;
    const char* message;
    int code;
};
constexpr int INTERNAL = 13;  // ErrorRequest::code

struct Api {
    std::size_t struct_size;
    Extension* extensions;
    Version version;
    const void* internal;
    Error* (*create_error)(ErrorRequest*);
};

struct Buffer {
    std::size_t struct_size;
    Extension* extensions;
    int dtype;
    void* data;
    std::int64_t rank;
    std::int64_t* dims;
};
constexpr int F32 = 11, F64 = 12;  // Buffer::dtype

// Arguments, or results.
struct Operands {
    std::size_t struct_size;
    Extension* extensions;
    std::int64_t size;
    int* types;
    void** values;  // Buffer* where the type is BUFFER.
};
constexpr int BUFFER = 1;

struct Text {
    const char* data;
    std::size_t size;
};

struct Attributes {
    std::size_t struct_size;
    Extension* extensions;
    std::int64_t size;
    int* types;
    Text** names;
    void** values;  // Text* where the type is STRING.
};
constexpr int STRING = 4;

struct CallFrame {
    std::size_t struct_size;
    Extension* extensions;
    const Api* api;
    void* context;
    int stage;
    Operands arguments, results;
    Attributes attributes;
};
constexpr int EXECUTE = 3;  // CallFrame::stage

}  // namespace qdist::xla
