// The table of a group's calls, for Python.
#include "calls/call_table.hpp"

#include "bind/arrays.hpp"

using qdist::CallRecord;
using qdist::CallTable;

namespace {

// dtype: letter << 32 | bytes an element; 0 for none. shape: a tuple of ints or None.
bool enter(CallTable& table, int op, int reduction, std::uint64_t dtype, int flags, int root, nb::handle shape,
           std::uint64_t more) {
    CallRecord call;
    call.op = static_cast<std::uint8_t>(op);
    call.reduction = static_cast<std::uint8_t>(reduction);
    call.flags = static_cast<std::uint8_t>(flags);
    call.kind = static_cast<std::uint8_t>(dtype >> 32);
    call.item_size = static_cast<std::int32_t>(dtype);
    call.root = root;
    call.more = more;
    if (!shape.is_none()) {
        if (!PyTuple_Check(shape.ptr())) throw nb::type_error("a shape is a tuple");
        std::int64_t lengths[64];
        const auto count = static_cast<int>(std::min<Py_ssize_t>(PyTuple_Size(shape.ptr()), 64));
        for (int k = 0; k < count; ++k) {
            lengths[k] = PyLong_AsLongLong(PyTuple_GetItem(shape.ptr(), k));
            if (lengths[k] == -1 && PyErr_Occurred()) throw nb::python_error();
        }
        call.add_shape(lengths, count);
    }
    return table.enter(call);
}

nb::list calls(const CallTable& table, int rank, int size) {
    if (rank < 0 || rank >= size) throw nb::value_error("no such rank");
    nb::list found;
    for (const auto& [number, call] : table.calls(rank))
        found.append(nb::make_tuple(number, nb::bytes(reinterpret_cast<const char*>(&call), sizeof call)));
    return found;
}

}  // namespace

void bind_calls(nb::module_& m) {
    nb::class_<CallTable>(m, "CallTable", "The collectives of a group's ranks, in memory that they share.")
        .def(nb::init<CallTable::Memory, int, int, std::vector<int>, bool>(), exact("memory"), "size"_a, "rank"_a, "near"_a,
             "spans"_a)
        .def_static("bytes", &CallTable::bytes, "size"_a, "Bytes of memory for a group of this size.")
        .def("enter", &enter, "op"_a, "reduction"_a, "dtype"_a, "flags"_a, "root"_a, "shape"_a.none(), "more"_a,
             "Notes this rank's next call; False where it differs from another's, or something else is to be seen to.")
        .def(
            "calls", [](const CallTable& t, int rank) { return calls(t, rank, t.size()); }, "rank"_a,
            "(number, record) of a rank's last calls, oldest first.")
        .def("compared", &CallTable::compared, "Notes that all ranks have been asked for their digests.")
        .def("break_group", &CallTable::break_group, "why"_a)
        .def_prop_ro("differs", &CallTable::differs)
        .def_prop_ro("is_due", &CallTable::is_due)
        .def_prop_ro("why_broken", &CallTable::why, "Why the group can no longer be used; empty while it can.")
        .def_prop_ro("count", &CallTable::count)
        .def_prop_ro("digest", &CallTable::digest);
}
