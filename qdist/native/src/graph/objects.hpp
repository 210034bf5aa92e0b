// Tensors, arrays and rules as the graph of operations sees them: Python's objects, by their attributes and the fields of
// NumPy's arrays. Only functions of the stable ABI are called.
#pragma once

#include <nanobind/nanobind.h>

#define NPY_NO_DEPRECATED_API NPY_1_7_API_VERSION
#include <numpy/arrayobject.h>  // For the fields of an array alone: no function of NumPy is called.

namespace qdist::graph {

namespace nb = nanobind;

// What a function of Python has made, or its exception.
inline nb::object made(PyObject* object) {
    if (object == nullptr) throw nb::python_error();
    return nb::steal(object);
}

inline void check(int status) {
    if (status < 0) throw nb::python_error();
}

// A name of an attribute, made once.
class Name {
public:
    explicit Name(const char* text) : object_(PyUnicode_InternFromString(text)) {}
    nb::object of(nb::handle owner) const { return made(PyObject_GetAttr(owner.ptr(), object_)); }
    bool is_true(nb::handle owner) const {
        const int truth = PyObject_IsTrue(of(owner).ptr());
        check(truth);
        return truth == 1;
    }
    void set(nb::handle owner, nb::handle value) const { check(PyObject_SetAttr(owner.ptr(), object_, value.ptr())); }

private:
    PyObject* object_;
};

struct Names {
    Name accumulate{"_accumulate"}, accumulates{"accumulates"}, asarray{"asarray"}, base{"base"}, count{"count"},
        counts{"counts"}, data{"_data"}, dispatch{"dispatch"}, drop_savers{"_drop_savers"}, dtype{"dtype"}, floating{"floating"},
        forward{"forward"}, grad{"grad"}, hooks{"_hooks"}, itemsize{"itemsize"}, leaves{"leaves"}, limit{"_limit"}, node{"_node"},
        outside{"outside"}, packing{"packing"}, precision{"precision"}, requires_grad{"requires_grad"}, savers{"_savers"},
        seal{"seal"}, shape{"shape"}, tracer{"tracer"}, version{"_version"}, view{"view"}, vjp{"vjp"}, walks{"walks"};
};

inline const Names& names() {
    static const Names all;
    return all;
}

template <class... Arguments>
nb::object call(nb::handle function, const Arguments&... arguments) {
    // The first place is the callee's to use: methods put their object there.
    PyObject* given[] = {nullptr, nb::handle(arguments).ptr()...};
    constexpr std::size_t count = sizeof...(arguments) | PY_VECTORCALL_ARGUMENTS_OFFSET;
    return made(PyObject_Vectorcall(function.ptr(), given + 1, count, nullptr));
}

inline PyArrayObject* fields(nb::handle array) { return reinterpret_cast<PyArrayObject*>(array.ptr()); }

inline nb::handle array_dtype(nb::handle array) { return reinterpret_cast<PyObject*>(PyArray_DESCR(fields(array))); }

// The letter of NumPy's kinds: f and c are real and complex floating numbers. Of other modules' dtypes, too, which are NumPy's.
inline char kind_of(nb::handle dtype) { return reinterpret_cast<PyArray_Descr*>(dtype.ptr())->kind; }

inline bool is_floating(nb::handle dtype) { return kind_of(dtype) == 'f' || kind_of(dtype) == 'c'; }

// Two bytes a number.
inline bool is_narrow(nb::handle dtype) {
    const int type = reinterpret_cast<PyArray_Descr*>(dtype.ptr())->type_num;
    if (type <= NPY_CDOUBLE) return type == NPY_SHORT || type == NPY_USHORT;
    return type == NPY_HALF || PyLong_AsLong(names().itemsize.of(dtype).ptr()) == 2;
}

inline Py_ssize_t size_of(nb::handle array) {
    Py_ssize_t size = 1;
    for (int k = 0; k < PyArray_NDIM(fields(array)); ++k) size *= PyArray_DIM(fields(array), k);
    return size;
}

inline bool has_shape(nb::handle array, nb::handle shape) {
    const int dims = PyArray_NDIM(fields(array));
    if (PyTuple_Size(shape.ptr()) != dims) return false;
    for (int k = 0; k < dims; ++k)
        if (PyLong_AsSsize_t(PyTuple_GetItem(shape.ptr(), k)) != PyArray_DIM(fields(array), k)) return false;
    return true;
}

}  // namespace qdist::graph
