// The graph of operations on tensors, for Python: see tensor/autograd.py.
#include "graph/operations.hpp"
#include "graph/walk.hpp"

#include <memory>

#include "bind/arrays.hpp"

namespace {

using namespace qdist::graph;

// A function of Python that has something of C++ beside it. A plain C function, whose calls cost least.
template <class Library>
nb::object function_with(PyMethodDef& method, nb::dict given) {
    auto library = std::make_unique<Library>(given);
    const nb::object owner = made(PyCapsule_New(library.release(), nullptr, [](PyObject* capsule) {
        delete static_cast<Library*>(PyCapsule_GetPointer(capsule, nullptr));
    }));
    return made(PyCFunction_NewEx(&method, owner.ptr(), nullptr));
}

template <class Run>
PyObject* guarded(Run run) {
    try {
        return run().release().ptr();
    } catch (nb::python_error& error) {
        error.restore();
    } catch (const nb::builtin_exception& error) {
        PyErr_SetString(PyExc_TypeError, error.what());
    } catch (const std::exception& error) {
        PyErr_SetString(PyExc_RuntimeError, error.what());
    }
    return nullptr;
}

PyObject* run_apply(PyObject* capsule, PyObject* const* arguments, Py_ssize_t count, PyObject* keywords) {
    const auto* library = static_cast<Operations*>(PyCapsule_GetPointer(capsule, nullptr));
    return guarded([&] {
        if (count < 1) throw nb::type_error("apply() takes the name of an operation and its inputs");
        return Application(*library, arguments, count, keywords).run();
    });
}

PyObject* run_walk(PyObject* capsule, PyObject* const* arguments, Py_ssize_t count) {
    const auto* library = static_cast<WalkLibrary*>(PyCapsule_GetPointer(capsule, nullptr));
    return guarded([&] {
        if (count != 4) throw nb::type_error("a walk takes (roots, retain_graph, targets, barrier)");
        Walk walk(*library, PyObject_IsTrue(arguments[1]) == 1, arguments[2], PyObject_IsTrue(arguments[3]) == 1);
        return walk.run(arguments[0]);
    });
}

PyMethodDef APPLY = {"apply", reinterpret_cast<PyCFunction>(reinterpret_cast<void*>(run_apply)), METH_FASTCALL | METH_KEYWORDS,
                     R"(apply(op, *inputs, **attributes)
--

Run one operation: the only way from tensors to tensors.

Args:
    op: a name in the table of rules, or a Rule of one's own.
    inputs: Tensors, Python or NumPy scalars; anything else is made a Tensor first.
    attributes: passed to the rule's forward and vjp.

Returns:
    A Tensor, or a tuple of them when the rule has several outputs.

Raises:
    TypeError: for tensors of different precision or on different devices.)"};

PyMethodDef WALK = {"walk", reinterpret_cast<PyCFunction>(reinterpret_cast<void*>(run_walk)), METH_FASTCALL,
                    "Carries cotangents back through the graph: see tensor/autograd.py."};

}  // namespace

void bind_graph(nb::module_& m) {
    const nb::object fields = node_type();
    m.attr("NodeFields") = fields;
    m.def(
        "make_apply", [](nb::dict library) { return function_with<Operations>(APPLY, library); }, "library"_a,
        "The function apply() of tensors, with the classes and functions of Python that it needs, by name.");
    m.def(
        "make_walk", [](nb::dict library) { return function_with<WalkLibrary>(WALK, library); }, "library"_a,
        "The function walk(roots, retain_graph, targets, barrier) of graphs, with what it needs of Python.");
    m.def(
        "watch_saved",
        [fields](nb::object node) {
            if (PyObject_IsInstance(node.ptr(), fields.ptr()) != 1) throw nb::type_error("a Node is wanted");
            watch(node);
        },
        "node"_a, "Has the versions of what a Node has saved tell when it is shown to others, or digests it at once.");
}
