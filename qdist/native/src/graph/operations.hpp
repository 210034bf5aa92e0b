// One operation on tensors: its inputs' arrays, the rule's forward function, a Tensor around the result, and the Node that
// remembers it. Everything that is not a plain case is left to functions of tensor/tensor.py.
#pragma once

#include <vector>

#include "graph/node.hpp"

namespace qdist::graph {

// What apply() needs of Python.
struct Operations {
    nb::object rules, mode, numpy, modules;
    nb::object tensor, node, rule, version, array, dtype;  // classes
    nb::object operand, promote, shared_module, in_half, held_elsewhere, run_on, is_array, is_inexact, owner_of, pick;

    explicit Operations(nb::dict given)
        : rules(given["rules"]),
          mode(given["mode"]),
          numpy(given["numpy"]),
          modules(given["modules"]),
          tensor(given["Tensor"]),
          node(given["Node"]),
          rule(given["Rule"]),
          version(given["Version"]),
          array(given["ndarray"]),
          dtype(given["dtype"]),
          operand(given["operand"]),
          promote(given["promote"]),
          shared_module(given["shared_module"]),
          in_half(given["in_half"]),
          held_elsewhere(given["held_elsewhere"]),
          run_on(given["run_on"]),
          is_array(given["is_array"]),
          is_inexact(given["is_inexact"]),
          owner_of(given["owner_of"]),
          pick(given["pick"]) {
        for (const nb::object* a_class : {&tensor, &node, &rule, &version, &array, &dtype})
            if (!PyType_Check(a_class->ptr())) throw nb::type_error("Tensor, Node, Rule, Version, ndarray and dtype are classes");
    }

    bool is_tensor(nb::handle x) const {
        if (Py_TYPE(x.ptr()) == reinterpret_cast<PyTypeObject*>(tensor.ptr())) return true;
        const int is = PyObject_IsInstance(x.ptr(), tensor.ptr());
        check(is);
        return is == 1;
    }
    nb::object dtype_of(nb::handle a) const {
        if (is_plain_array(a)) return nb::borrow(array_dtype(a));
        nb::object found = names().dtype.of(a);
        if (PyObject_IsInstance(found.ptr(), dtype.ptr()) != 1) throw nb::type_error("an array has a dtype of NumPy's");
        return found;
    }
    bool is_plain_array(nb::handle a) const { return Py_TYPE(a.ptr()) == reinterpret_cast<PyTypeObject*>(array.ptr()); }
    bool holds_array(nb::handle a) const {
        if (is_plain_array(a)) return true;
        return !PyTuple_Check(a.ptr()) && !PyFloat_Check(a.ptr()) && !PyLong_Check(a.ptr()) && nb::cast<bool>(call(is_array, a));
    }
    static nb::object instance_of(nb::handle a_class) {
        auto* type = reinterpret_cast<PyTypeObject*>(a_class.ptr());
        return made(reinterpret_cast<allocfunc>(PyType_GetSlot(type, Py_tp_alloc))(type, 0));
    }
};

// A Node has saved arrays: what others than Tensors may write is digested now, the rest when it is shown to others.
inline void watch(nb::handle node) {
    const nb::object guards = nb::borrow(Node::of(node)->guards), itself = made(PyWeakref_NewRef(node.ptr(), nullptr));
    const Py_ssize_t count = PySequence_Size(guards.ptr());
    check(static_cast<int>(count));
    for (Py_ssize_t k = 0; k < count; ++k) {
        const nb::object guard = made(PySequence_GetItem(guards.ptr(), k)), version = made(PySequence_GetItem(guard.ptr(), 0));
        if (names().outside.is_true(version)) {
            call(names().seal.of(node), version);
            continue;
        }
        const nb::object savers = names().savers.of(version);
        if (savers.is_none()) {
            const nb::object list = made(PyList_New(0));
            check(PyList_Append(list.ptr(), itself.ptr()));
            names().savers.set(version, list);
        } else {
            check(PyList_Append(savers.ptr(), itself.ptr()));
            if (PyList_Size(savers.ptr()) > PyLong_AsSsize_t(names().limit.of(version).ptr()))
                call(names().drop_savers.of(version));
        }
    }
}

// The arguments of one call.
class Application {
public:
    // arguments: op, inputs, and the values of attributes that keywords (a tuple, or null) names.
    Application(const Operations& library, PyObject* const* arguments, Py_ssize_t count, PyObject* keywords)
        : library_(library),
          inputs_(arguments + 1, arguments + count),
          keywords_(keywords),
          attribute_values_(arguments + count) {
        const nb::handle op(arguments[0]);
        rule_ = Py_TYPE(op.ptr()) == reinterpret_cast<PyTypeObject*>(library.rule.ptr())
                    ? nb::borrow(op)
                    : made(PyObject_GetItem(library.rules.ptr(), op.ptr()));
    }

    nb::object run() {
        if (gather()) return made_;
        const nb::object precision = names().precision.of(library_.mode);
        const bool narrow_mode = !precision.is_none();
        if (mixed_ || (!is_floating(dtype_) && names().floating.is_true(rule_)))
            values_ = call(library_.promote, rule_, values_, nb::bool_(narrow_mode));
        nb::object running = rule_;
        if (narrow_ || narrow_mode) running = call(library_.in_half, rule_, values_, precision);
        const bool is_view = names().view.is_true(rule_);
        nb::object version;
        if (is_view) {
            version = names().version.of(inputs_[0]);
            // Of a view it could not be told whether others hold the memory.
            if (names().outside.is_true(version))
                names().outside.set(version, call(library_.held_elsewhere, inputs_[0], values_));
        }
        choose_module();
        const nb::object result = forward(running);
        if (!PyTuple_Check(result.ptr()) || PyTuple_Size(result.ptr()) != 2)
            throw nb::type_error("a rule's forward function gives (output, saved)");
        wrap_outputs(PyTuple_GetItem(result.ptr(), 0), version);
        const nb::handle saved = PyTuple_GetItem(result.ptr(), 1);
        if (wants_ && names().grad.is_true(library_.mode) && !names().vjp.of(rule_).is_none()) record(running, saved);
        const nb::object tracer = names().tracer.of(library_.mode);
        if (!tracer.is_none()) call(tracer, rule_, input_tuple(), attributes(), made_);
        return made_;
    }

private:
    // The inputs' arrays, and what they have in common. True where a sub-class of Tensor has run the operation itself.
    bool gather() {
        values_ = made(PyList_New(static_cast<Py_ssize_t>(inputs_.size())));
        wants_ = narrow_ = mixed_ = apart_ = false;
        dtype_.reset();
        kind_ = nullptr;
        bool whole = true;
        for (std::size_t i = 0; i < inputs_.size() && whole; ++i) {
            const nb::handle x = inputs_[i];
            if (library_.is_tensor(x)) {
                const nb::object dispatch = names().dispatch.of(x);
                if (!dispatch.is_none()) {
                    convert(library_.operand);
                    made_ = call(dispatch, rule_, input_tuple(), attributes());
                    return true;
                }
                nb::object a = names().data.of(x);
                const nb::object dtype = library_.dtype_of(a);
                if (!dtype.is(dtype_)) {
                    mixed_ = mixed_ || dtype_.is_valid();
                    dtype_ = dtype;
                    narrow_ = narrow_ || is_narrow(dtype);
                }
                wants_ = wants_ || names().requires_grad.is_true(x);
                if (Py_TYPE(a.ptr()) != kind_) {
                    apart_ = apart_ || kind_ != nullptr;
                    kind_ = Py_TYPE(a.ptr());
                }
                PyList_SetItem(values_.ptr(), static_cast<Py_ssize_t>(i), a.release().ptr());
            } else if (is_scalar(x)) {
                mixed_ = mixed_ || !dtype_.is_valid() || !is_floating(dtype_) || PyComplex_CheckExact(x.ptr());
                PyList_SetItem(values_.ptr(), static_cast<Py_ssize_t>(i), Py_NewRef(x.ptr()));
            } else {
                whole = false;
            }
        }
        if (whole && dtype_.is_valid()) return false;
        if (inputs_.empty()) throw nb::type_error("an operation has at least one input");
        // Anything else is made a Tensor first, and so are numbers where there is no Tensor among them.
        convert(whole ? library_.tensor : library_.operand);
        return gather();
    }

    static bool is_scalar(nb::handle x) {
        PyObject* p = x.ptr();
        return PyFloat_CheckExact(p) || PyLong_CheckExact(p) || PyBool_Check(p) || PyComplex_CheckExact(p);
    }

    void convert(nb::handle function) {
        for (PyObject*& x : inputs_) {
            converted_.push_back(call(function, nb::handle(x)));
            x = converted_.back().ptr();
        }
    }

    void choose_module() {
        module_ = library_.numpy;
        if (!apart_ && kind_ == reinterpret_cast<PyTypeObject*>(library_.array.ptr())) return;
        nb::handle kind = apart_ ? Py_None : reinterpret_cast<PyObject*>(kind_);
        PyObject* known = apart_ ? nullptr : PyDict_GetItemWithError(library_.modules.ptr(), kind.ptr());
        if (known != nullptr) {
            module_ = nb::borrow(known);
            return;
        }
        const nb::object found = call(library_.shared_module, rule_, values_, kind);
        module_ = nb::borrow(PyTuple_GetItem(found.ptr(), 0));
        gpu_ = nb::borrow(PyTuple_GetItem(found.ptr(), 1));
    }

    nb::object forward(nb::handle running) {
        const nb::object function = names().forward.of(running);
        if (gpu_.is_valid() && !gpu_.is_none()) {
            const nb::object first = made(PyList_New(0));
            check(PyList_Append(first.ptr(), module_.ptr()));
            return call(library_.run_on, gpu_, function, made(PySequence_Concat(first.ptr(), values_.ptr())), attributes());
        }
        const Py_ssize_t inputs = PyList_Size(values_.ptr()), more = keywords_ == nullptr ? 0 : PyTuple_Size(keywords_);
        std::vector<PyObject*> arguments{module_.ptr()};
        arguments.reserve(1 + inputs + more);
        for (Py_ssize_t i = 0; i < inputs; ++i) arguments.push_back(PyList_GetItem(values_.ptr(), i));
        arguments.insert(arguments.end(), attribute_values_, attribute_values_ + more);
        return made(PyObject_Vectorcall(function.ptr(), arguments.data(), 1 + inputs, keywords_));
    }

    void wrap_outputs(nb::handle output, nb::handle version) {
        if (!PyList_Check(output.ptr())) {
            made_ = tensor_around(output, version);
            return;
        }
        const Py_ssize_t count = PyList_Size(output.ptr());
        made_ = made(PyTuple_New(count));
        for (Py_ssize_t i = 0; i < count; ++i)
            PyTuple_SetItem(made_.ptr(), i, tensor_around(PyList_GetItem(output.ptr(), i), version).release().ptr());
    }

    // NumPy may have made a scalar of a result.
    nb::object tensor_around(nb::handle output, nb::handle version) const {
        nb::object tensor = Operations::instance_of(library_.tensor);
        const bool is_array = Py_TYPE(output.ptr()) == kind_ || library_.holds_array(output);
        names().data.set(tensor, is_array ? nb::borrow(output) : call(names().asarray.of(module_), output));
        names().version.set(tensor, version.is_valid() ? nb::borrow(version) : Operations::instance_of(library_.version));
        return tensor;
    }

    // Gives the outputs the Node that made them.
    void record(nb::handle running, nb::handle saved) {
        const bool several = PyTuple_Check(made_.ptr());
        nb::object array, dtype;
        if (!several) {
            array = names().data.of(made_);
            dtype = library_.dtype_of(array);
            if (!is_floating(dtype) && !nb::cast<bool>(call(library_.is_inexact, dtype))) return;
        }
        const nb::object edges = made(PyTuple_New(static_cast<Py_ssize_t>(inputs_.size())));
        for (std::size_t i = 0; i < inputs_.size(); ++i)
            PyTuple_SetItem(edges.ptr(), static_cast<Py_ssize_t>(i), edge_of(inputs_[i]).release().ptr());
        const nb::object guards = guards_of(saved, array);
        if (!names().packing.of(library_.mode).is_none() || several) {
            const nb::object shown = several ? nb::none() : array;
            node_ = call(library_.node, running, edges, attributes(), saved, guards, module_, shown);
        } else {
            node_ = made(new_node(reinterpret_cast<PyTypeObject*>(library_.node.ptr())));
            Node* fields = Node::of(node_);
            replace(fields->rule, running);
            replace(fields->inputs, edges);
            replace(fields->attributes, attributes());
            replace(fields->saved, saved);
            replace(fields->guards, guards);
            replace(fields->xp, module_);
            replace(fields->shape, names().shape.of(array));
            replace(fields->dtype, dtype);
        }
        if (several) {
            call(library_.pick, node_, made_, module_);
        } else {
            names().node.set(made_, node_);
            names().requires_grad.set(made_, Py_True);
        }
        watch(node_);
    }

    nb::object edge_of(nb::handle x) const {
        if (!library_.is_tensor(x) || !names().requires_grad.is_true(x)) return nb::none();
        nb::object node = names().node.of(x);
        return node.is_none() ? nb::borrow(x) : node;
    }

    // (version, its count, the array) of each saved array that belongs to a tensor.
    nb::object guards_of(nb::handle saved, nb::handle output) {
        nb::object guards = made(PyList_New(0));
        std::vector<nb::object> outside;
        const nb::object all = made(PySequence_Tuple(saved.ptr()));
        for (Py_ssize_t k = 0; k < PyTuple_Size(all.ptr()); ++k) {
            const nb::handle s = PyTuple_GetItem(all.ptr(), k);
            if (!library_.holds_array(s)) continue;
            const nb::object owner = owner_of(s, output);
            if (owner.is_none()) continue;
            const nb::object version = names().version.of(owner);
            const nb::object guard = made(PyTuple_Pack(3, version.ptr(), names().count.of(version).ptr(), s.ptr()));
            check(PyList_Append(guards.ptr(), guard.ptr()));
            if (names().outside.is_true(version)) outside.push_back(owner);
        }
        for (const nb::object& owner : outside) {
            const nb::object version = names().version.of(owner);
            if (names().outside.is_true(version)) names().outside.set(version, is_held_elsewhere(owner, saved, guards));
        }
        return guards;
    }

    // By anything but the tensor, this operation and its Node.
    nb::object is_held_elsewhere(nb::handle owner, nb::handle saved, nb::handle guards) const {
        std::vector<PyObject*> known{owner.ptr(), values_.ptr(), saved.ptr()};
        for (Py_ssize_t k = 0; k < PyList_Size(guards.ptr()); ++k) known.push_back(PyList_GetItem(guards.ptr(), k));
        return made(PyObject_Vectorcall(library_.held_elsewhere.ptr(), known.data(), known.size(), nullptr));
    }

    nb::object owner_of(nb::handle saved, nb::handle output) const {
        for (std::size_t i = 0; i < inputs_.size(); ++i) {
            if (PyList_GetItem(values_.ptr(), static_cast<Py_ssize_t>(i)) != saved.ptr()) continue;
            // What was converted for this operation nobody else has.
            return library_.is_tensor(inputs_[i]) && names().data.of(inputs_[i]).is(saved) ? nb::borrow(inputs_[i]) : nb::none();
        }
        if (output.is_valid() && output.is(saved)) return made_;
        return call(library_.owner_of, saved, input_tuple(), made_);
    }

    nb::object input_tuple() const {
        nb::object all = made(PyTuple_New(static_cast<Py_ssize_t>(inputs_.size())));
        for (std::size_t i = 0; i < inputs_.size(); ++i)
            PyTuple_SetItem(all.ptr(), static_cast<Py_ssize_t>(i), Py_NewRef(inputs_[i]));
        return all;
    }

    nb::object attributes() {
        if (attributes_.is_valid()) return attributes_;
        attributes_ = made(PyDict_New());
        for (Py_ssize_t k = 0; keywords_ != nullptr && k < PyTuple_Size(keywords_); ++k)
            check(PyDict_SetItem(attributes_.ptr(), PyTuple_GetItem(keywords_, k), attribute_values_[k]));
        return attributes_;
    }

    const Operations& library_;
    nb::object rule_;
    std::vector<PyObject*> inputs_;
    std::vector<nb::object> converted_;
    PyObject* keywords_;
    PyObject* const* attribute_values_;
    nb::object attributes_, values_, dtype_, module_, gpu_, made_, node_;
    PyTypeObject* kind_ = nullptr;
    bool wants_ = false, narrow_ = false, mixed_ = false, apart_ = false;
};

}  // namespace qdist::graph
