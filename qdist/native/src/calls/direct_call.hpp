// A collective of two NumPy arrays in one step: check them, note the call for the guard and for the other ranks, call
// the transport.
//
// After a large array has moved, nothing of Python is left in the caches, and checks written in Python cost several
// times what they do in a loop of their own. Here they are a few loads.
#pragma once

#include <nanobind/nanobind.h>

#define NPY_NO_DEPRECATED_API NPY_1_7_API_VERSION
#include <numpy/arrayobject.h>  // For the fields of an array alone: no function of NumPy is called.

#include <cstring>

#include "calls/call_table.hpp"

namespace qdist {

namespace nb = nanobind;

// Bytes an element of the dtypes that every transport knows, in the order of NumPy's type numbers: bool, integers from
// 8 bits up (signed, unsigned), float, double, long double (not one of them), complex of float and of double.
constexpr unsigned char ITEM_SIZES[NPY_CDOUBLE + 1] = {
    1, 1, 1, 2, 2, 4, 4, sizeof(long), sizeof(long), 8, 8, 4, 8, 0, 8, 16,
};

// Their letters.
constexpr char KINDS[NPY_CDOUBLE + 2] = "biuiuiuiuiufffcc";

// Two arrays of one shape and plain dtype, contiguous, apart, out writeable; `rows` of them, or any number for 0.
inline bool fit(PyObject* x, PyObject* out, PyTypeObject* array_type, Py_ssize_t rows, bool bools) {
    if (Py_TYPE(x) != array_type || Py_TYPE(out) != array_type) return false;
    auto* from = reinterpret_cast<PyArrayObject*>(x);
    auto* to = reinterpret_cast<PyArrayObject*>(out);
    const int dims = PyArray_NDIM(from);
    // Arrays of a plain dtype share the one description of it; other byte orders have another.
    if (PyArray_DESCR(from) != PyArray_DESCR(to) || dims == 0 || dims != PyArray_NDIM(to)) return false;
    const int type = PyArray_TYPE(from);
    if (type > NPY_CDOUBLE || ITEM_SIZES[type] == 0 || (type == NPY_BOOL && !bools)) return false;
    if (!PyArray_IS_C_CONTIGUOUS(from) || !PyArray_CHKFLAGS(to, NPY_ARRAY_CARRAY)) return false;
    const npy_intp* shape = PyArray_DIMS(from);
    if (std::memcmp(shape, PyArray_DIMS(to), dims * sizeof(npy_intp)) != 0) return false;
    if (rows != 0 && shape[0] != rows) return false;
    npy_intp bytes = ITEM_SIZES[type];
    for (int k = 0; k < dims; ++k) bytes *= shape[k];
    const char *a = PyArray_BYTES(from), *b = PyArray_BYTES(to);
    return bytes > 0 && (a + bytes <= b || b + bytes <= a);
}

// Takes this very entry off the list.
inline void forget(PyObject* list, PyObject* entry) {
    for (Py_ssize_t i = PyList_Size(list); i-- > 0;) {
        if (PyList_GetItem(list, i) == entry) {
            PyList_SetSlice(list, i, i + 1, nullptr);
            return;
        }
    }
}

// What a direct call needs beside its arrays, in the order of the tuple.
enum Context {
    OP,
    COMM,
    PRIMITIVE,
    ACTIVE,
    COUNT,
    ARRAY_TYPE,
    ROWS,
    BOOLS,
    TABLE,
    OP_CODE,
    REDUCTION_CODE,
    SETTLE,
    CONTEXT_SIZE
};

// Notes the call in the group's table, if it has one; false where it is not the others' call, or may not be.
inline bool note(PyObject* context, PyObject* x) {
    PyObject* table = PyTuple_GetItem(context, TABLE);
    if (table == Py_None) return true;
    auto* array = reinterpret_cast<PyArrayObject*>(x);
    const int type = PyArray_TYPE(array);
    CallRecord call;
    call.op = static_cast<std::uint8_t>(PyLong_AsLong(PyTuple_GetItem(context, OP_CODE)));
    call.reduction = static_cast<std::uint8_t>(PyLong_AsLong(PyTuple_GetItem(context, REDUCTION_CODE)));
    call.kind = static_cast<std::uint8_t>(KINDS[type]);
    call.item_size = ITEM_SIZES[type];
    std::int64_t lengths[NPY_MAXDIMS];
    std::copy_n(PyArray_DIMS(array), PyArray_NDIM(array), lengths);
    call.add_shape(lengths, PyArray_NDIM(array));
    return nb::inst_ptr<CallTable>(table)->enter(call);
}

// primitive(x, out), with (op, comm, x, number of the call, thread) on the list of active calls meanwhile. The count is
// a list of one number: the calls so far. Where the table of calls has something against it, settle() is asked first,
// which raises or returns. Returns out, or None if the arrays are no plain case; then nothing was done.
inline PyObject* run_direct(PyObject* context, PyObject* const* arrays, Py_ssize_t num_arrays) {
    if (num_arrays != 2) {
        PyErr_SetString(PyExc_TypeError, "a direct call takes two arrays");
        return nullptr;
    }
    const auto field = [context](int which) { return PyTuple_GetItem(context, which); };
    PyObject *x = arrays[0], *out = arrays[1];
    if (!fit(x, out, reinterpret_cast<PyTypeObject*>(field(ARRAY_TYPE)), PyLong_AsSsize_t(field(ROWS)), field(BOOLS) == Py_True))
        Py_RETURN_NONE;
    PyObject *count = field(COUNT), *active = field(ACTIVE);
    PyObject* number = PyLong_FromLongLong(PyLong_AsLongLong(PyList_GetItem(count, 0)) + 1);
    PyObject* thread = PyLong_FromUnsignedLong(PyThread_get_thread_ident());
    PyObject* entry = number && thread ? PyTuple_Pack(5, field(OP), field(COMM), x, number, thread) : nullptr;
    Py_XDECREF(thread);
    if (entry == nullptr || PyList_Append(active, entry) != 0) {
        Py_XDECREF(number);
        Py_XDECREF(entry);
        return nullptr;
    }
    PyList_SetItem(count, 0, number);
    PyObject* settled = note(context, x) ? Py_NewRef(Py_None) : PyObject_CallNoArgs(field(SETTLE));
    PyObject* result = settled ? PyObject_Vectorcall(field(PRIMITIVE), arrays, 2, nullptr) : nullptr;
    Py_XDECREF(settled);
    // The exception, if there is one, is not to be seen by what follows.
    PyObject *type, *value, *trace;
    PyErr_Fetch(&type, &value, &trace);
    forget(active, entry);
    Py_DECREF(entry);
    PyErr_Restore(type, value, trace);
    if (result == nullptr) return nullptr;
    Py_DECREF(result);
    return Py_NewRef(out);
}

// A function of (x, out). A plain C function of Python, whose calls cost least.
inline nb::object direct_call(nb::tuple context) {
    static PyMethodDef method = {"direct_call", reinterpret_cast<PyCFunction>(reinterpret_cast<void*>(run_direct)), METH_FASTCALL,
                                 "Runs a collective of (x, out), or gives None: see direct_call.hpp."};
    const auto is_list = [&](int which) { return PyList_Check(PyTuple_GetItem(context.ptr(), which)); };
    if (context.size() != CONTEXT_SIZE || !is_list(ACTIVE) || !is_list(COUNT) ||
        PyList_Size(PyTuple_GetItem(context.ptr(), COUNT)) != 1)
        throw nb::type_error(
            "direct_call takes (op, comm, primitive, active, count, array_type, rows, bools, table, op_code, "
            "reduction_code, settle)");
    nb::handle table(PyTuple_GetItem(context.ptr(), TABLE));
    if (!table.is_none() && !nb::isinstance<CallTable>(table)) throw nb::type_error("table: a CallTable or None");
    return nb::steal(PyCFunction_NewEx(&method, context.ptr(), nullptr));
}

}  // namespace qdist
