// A function for XLA (jax.ffi) that hands its buffers to Python as NumPy arrays, without copies.
#include "xla/call_frame.hpp"

#include <string>
#include <string_view>
#include <utility>

#include "bind/arrays.hpp"

namespace {

using namespace qdist::xla;

PyObject* receiver = nullptr;  // Never released: XLA may call until the process ends.

Error* error(const CallFrame* frame, const std::string& message) {
    ErrorRequest request{sizeof(ErrorRequest), nullptr, message.c_str(), INTERNAL};
    return frame->api->create_error(&request);
}

// XLA asks for the version that a function was written for. What is read here is the same in all versions 0.x, so the
// answer is XLA's own, or for another major version one that it refuses. Version 0.1 does not say yet which it is.
void describe(const CallFrame* frame, Metadata& metadata) {
    int minor = 1;
    if (frame->api != nullptr) minor = frame->api->version.major == 0 ? frame->api->version.minor : 0;
    metadata.version = {sizeof(Version), nullptr, 0, minor};
    metadata.traits = 0;
    if (metadata.struct_size >= sizeof(Metadata)) metadata.state_type = 0;
}

nb::object array_of(const Buffer& buffer, bool is_result) {
    const auto rank = static_cast<std::size_t>(buffer.rank);
    std::vector<std::size_t> shape(buffer.dims, buffer.dims + rank);
    if (buffer.dtype != F32 && buffer.dtype != F64)
        throw std::invalid_argument("a buffer is float32 or float64; its type in XLA has number " + std::to_string(buffer.dtype));
    const nb::dlpack::dtype dtype = buffer.dtype == F32 ? nb::dtype<float>() : nb::dtype<double>();
    constexpr auto in_place = nb::rv_policy::reference;
    if (is_result) return nb::ndarray<nb::numpy>(buffer.data, rank, shape.data(), {}, nullptr, dtype).cast(in_place);
    return nb::ndarray<nb::numpy, nb::ro>(buffer.data, rank, shape.data(), {}, nullptr, dtype).cast(in_place);
}

nb::list arrays_of(const Operands& operands, bool are_results) {
    nb::list found;
    for (std::int64_t k = 0; k < operands.size; ++k) {
        if (operands.types[k] != BUFFER) throw std::invalid_argument("an operand is no buffer");
        found.append(array_of(*static_cast<const Buffer*>(operands.values[k]), are_results));
    }
    return found;
}

nb::str call_of(const Attributes& attributes) {
    for (std::int64_t k = 0; k < attributes.size; ++k) {
        const Text& name = *attributes.names[k];
        if (std::string_view(name.data, name.size) != "call" || attributes.types[k] != STRING) continue;
        const Text& value = *static_cast<const Text*>(attributes.values[k]);
        return nb::str(value.data, value.size);
    }
    throw std::invalid_argument("the attribute `call`, a string, is missing");
}

// XLA uses the memory for something else afterwards.
void check_released(const nb::list& arrays) {
    for (std::size_t k = 0; k < arrays.size(); ++k)
        if (Py_REFCNT(PyList_GetItem(arrays.ptr(), static_cast<Py_ssize_t>(k))) > 1)
            throw std::runtime_error("an array over XLA's memory was kept beyond its call");
}

Error* run(CallFrame* frame) {
    for (const Extension* extension = frame->extensions; extension != nullptr; extension = extension->next) {
        if (extension->type != METADATA) continue;
        describe(frame, *reinterpret_cast<const MetadataExtension*>(extension)->metadata);
        return nullptr;
    }
    if (frame->struct_size < sizeof(CallFrame)) return error(frame, "qdist: the call frame of this XLA has too few fields");
    if (frame->stage != EXECUTE) return nullptr;
    nb::gil_scoped_acquire lock;
    try {
        const nb::list arguments = arrays_of(frame->arguments, false), results = arrays_of(frame->results, true);
        const nb::handle function(receiver);
        function(call_of(frame->attributes), arguments, results);
        check_released(arguments);
        check_released(results);
        return nullptr;
    } catch (const nb::python_error& raised) {  // Without the trace, which is long where it leads through JAX.
        const nb::object name = raised.type().attr("__name__");
        return error(frame, std::string(nb::str(name).c_str()) + ": " + nb::str(raised.value()).c_str());
    } catch (const std::exception& raised) {
        return error(frame, raised.what());
    }
}

nb::object xla_function(nb::object function) {
    if (!PyCallable_Check(function.ptr())) throw nb::type_error("receiver: a function of (call, arguments, results)");
    PyObject* before = std::exchange(receiver, function.release().ptr());
    Py_XDECREF(before);
    return nb::capsule(reinterpret_cast<void*>(&run));
}

}  // namespace

void bind_xla(nb::module_& m) {
    m.def("xla_function", &xla_function, "receiver"_a,
          "The function of this process to register with XLA on the CPU, in a capsule. A call of it has the string attribute "
          "`call`, and runs receiver(call, arguments, results): lists of arrays over XLA's memory, float32 or float64, of which "
          "the results are to be written. They are not to be kept. What it raises is the computation's error.");
}
