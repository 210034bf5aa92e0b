// The walk back through the graph: cotangents from the roots to the leaves.
#pragma once

#include <algorithm>
#include <queue>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "graph/node.hpp"

namespace qdist::graph {

// What a walk needs of Python.
struct WalkLibrary {
    nb::object mode, numpy, node, array;
    nb::object fit_to, add, run_hooks, check_saved, several_gpus, run_on, place_of;

    explicit WalkLibrary(nb::dict given)
        : mode(given["mode"]),
          numpy(given["numpy"]),
          node(given["Node"]),
          array(given["ndarray"]),
          fit_to(given["fit_to"]),
          add(given["add"]),
          run_hooks(given["run_hooks"]),
          check_saved(given["check_saved"]),
          several_gpus(given["several_gpus"]),
          run_on(given["run_on"]),
          place_of(given["place_of"]) {
        if (!PyType_Check(node.ptr()) || !PyType_Check(array.ptr())) throw nb::type_error("Node and ndarray are classes");
    }
};

class Walk {
public:
    Walk(const WalkLibrary& library, bool retain_graph, nb::handle targets, bool barrier)
        : library_(library), retain_graph_(retain_graph), accumulates_(targets.is_none()), barrier_(barrier) {
        if (accumulates_) return;
        for (nb::handle edge : nb::iter(targets))
            if (wanted_.insert(edge.ptr()).second) held_.push_back(nb::borrow(edge));
    }

    // roots: (edge, cotangent) pairs. Gives {edge: cotangent} of the targets that were reached.
    nb::object run(nb::handle roots) {
        std::vector<Arrival> arriving;
        for (nb::handle root : nb::iter(roots)) {
            if (!PyTuple_Check(root.ptr()) || PyTuple_Size(root.ptr()) != 2) throw nb::type_error("a root is (edge, cotangent)");
            arriving.push_back({nb::borrow(PyTuple_GetItem(root.ptr(), 0)), nb::borrow(PyTuple_GetItem(root.ptr(), 1)), false});
        }
        survey(arriving);
        tell();
        if (!accumulates_) find_useful();
        result_ = made(PyDict_New());
        while (true) {
            for (Arrival& arrival : arriving) receive(arrival);
            if (waiting_.empty()) return result_;
            const nb::handle node = waiting_.top().second;
            waiting_.pop();
            arriving.clear();
            go_through(node, arriving);
        }
    }

private:
    // A cotangent on its way to an edge; owned: nobody else has it.
    struct Arrival {
        nb::object edge, cotangent;
        bool owned;
    };
    struct Gathered {
        nb::object cotangent;
        bool owned;
    };

    bool is_node(nb::handle edge) const { return Py_TYPE(edge.ptr()) == reinterpret_cast<PyTypeObject*>(library_.node.ptr()); }
    bool is_plain_array(nb::handle a) const { return Py_TYPE(a.ptr()) == reinterpret_cast<PyTypeObject*>(library_.array.ptr()); }
    bool is_useful(nb::handle edge) const { return accumulates_ || useful_.contains(edge.ptr()); }

    static nb::handle inputs_of(nb::handle node) {
        const nb::handle inputs = Node::of(node)->inputs;
        if (!inputs.is_valid() || !PyTuple_Check(inputs.ptr())) throw nb::type_error("a Node's inputs are a tuple");
        return inputs;
    }

    // Whether an input is on a path to a target.
    bool leads_on(nb::handle node) const {
        const nb::handle inputs = inputs_of(node);
        for (Py_ssize_t i = 0; i < PyTuple_Size(inputs.ptr()); ++i)
            if (useful_.contains(PyTuple_GetItem(inputs.ptr(), i))) return true;
        return false;
    }

    // All nodes that the roots lead to, without passing the targets where they are a barrier, and how often leaves are used.
    void survey(const std::vector<Arrival>& roots) {
        std::unordered_set<PyObject*> seen;
        if (barrier_) seen = wanted_;
        std::vector<nb::object> stack;
        const auto meet = [&](nb::handle edge) {
            if (edge.is_none()) return;
            if (is_node(edge)) {
                if (seen.insert(edge.ptr()).second) stack.push_back(nb::borrow(edge));
            } else if (++uses_[edge.ptr()] == 1) {
                leaves_.push_back(nb::borrow(edge));
            }
        };
        for (const Arrival& root : roots) meet(root.edge);
        while (!stack.empty()) {
            nodes_.push_back(std::move(stack.back()));
            stack.pop_back();
            const nb::handle inputs = inputs_of(nodes_.back());
            for (Py_ssize_t i = 0; i < PyTuple_Size(inputs.ptr()); ++i) meet(PyTuple_GetItem(inputs.ptr(), i));
        }
    }

    // Tells hooks what the outermost walk has to reach.
    void tell() const {
        if (PyLong_AsLong(names().walks.of(library_.mode).ptr()) != 1) return;
        const nb::object leaves = made(PyTuple_New(static_cast<Py_ssize_t>(leaves_.size())));
        for (std::size_t i = 0; i < leaves_.size(); ++i)
            PyTuple_SetItem(leaves.ptr(), static_cast<Py_ssize_t>(i), Py_NewRef(leaves_[i].ptr()));
        names().leaves.set(library_.mode, leaves);
        names().counts.set(library_.mode, made(PyTuple_New(0)));
        names().accumulates.set(library_.mode, nb::bool_(accumulates_));
    }

    void find_useful() {
        useful_ = wanted_;
        std::vector<nb::handle> in_sequence(nodes_.begin(), nodes_.end());
        std::sort(in_sequence.begin(), in_sequence.end(),
                  [](nb::handle a, nb::handle b) { return Node::of(a)->sequence < Node::of(b)->sequence; });
        for (nb::handle node : in_sequence)
            if (leads_on(node)) useful_.insert(node.ptr());
    }

    void receive(Arrival& arrival) {
        const nb::handle edge = arrival.edge;
        const bool is_a_node = is_node(edge);
        if (!arrival.cotangent.is_none() && is_useful(edge)) {
            const auto [place, is_first] = gathered_.try_emplace(edge.ptr());
            Gathered& gathered = place->second;
            if (is_first) {
                gathered = {std::move(arrival.cotangent), arrival.owned};
                if (is_a_node) waiting_.emplace(Node::of(edge)->sequence, edge.ptr());
            } else {
                gathered.cotangent = call(library_.add, gathered.cotangent, arrival.cotangent, nb::bool_(gathered.owned),
                                          nb::bool_(arrival.owned));
                gathered.owned = true;
            }
        }
        // Where nothing arrives, that counts as a use of a leaf too.
        if (!is_a_node && --uses_[edge.ptr()] == 0) complete(edge);
    }

    void complete(nb::handle leaf) {
        const auto found = gathered_.find(leaf.ptr());
        if (found == gathered_.end()) return;
        Gathered gathered = std::move(found->second);
        gathered_.erase(found);
        // Behind a barrier another walk goes on with this cotangent, and runs the hooks when it is complete.
        if (!barrier_) {
            const nb::object hooks = names().hooks.of(leaf);
            if (!hooks.is_none()) gathered.cotangent = call(library_.run_hooks, hooks, gathered.cotangent);
        }
        if (accumulates_)
            call(names().accumulate.of(leaf), gathered.cotangent, nb::bool_(gathered.owned));
        else
            check(PyDict_SetItem(result_.ptr(), leaf.ptr(), gathered.cotangent.ptr()));
    }

    void go_through(nb::handle object, std::vector<Arrival>& arriving) {
        Node* node = Node::of(object);
        const auto found = gathered_.find(object.ptr());
        nb::object g = std::move(found->second.cotangent);
        gathered_.erase(found);
        const bool is_wanted = !wanted_.empty() && wanted_.contains(object.ptr());
        if (node->hooks != Py_None && !(barrier_ && is_wanted)) g = call(library_.run_hooks, nb::handle(node->hooks), g);
        if (is_wanted) {
            check(PyDict_SetItem(result_.ptr(), object.ptr(), g.ptr()));
            if (barrier_ || !leads_on(object)) return;
        }
        check_saved(object);
        const nb::object inputs = nb::borrow(inputs_of(object)), xp = nb::borrow(node->xp);
        const nb::object cotangents = derivative(object, inputs, xp, g);
        if (!retain_graph_) {
            const nb::object nothing = made(PyTuple_New(0));
            replace(node->saved, nothing);
            replace(node->guards, nothing);
            replace(node->inputs, nothing);
            replace(node->freed, Py_True);
        }
        const Py_ssize_t count = std::min(PyTuple_Size(inputs.ptr()), PyTuple_Size(cotangents.ptr()));
        for (Py_ssize_t i = 0; i < count; ++i) {
            const nb::handle edge = PyTuple_GetItem(inputs.ptr(), i);
            if (edge.is_none()) continue;
            nb::object c = nb::borrow(PyTuple_GetItem(cotangents.ptr(), i));
            bool owned = false;
            if (!c.is_none() && has_shape_of_its_own(edge)) {
                const bool alone = is_only(c, cotangents);
                fit(c, edge, xp);
                owned = alone && !c.is(g) && is_fresh(c);
            }
            arriving.push_back({nb::borrow(edge), std::move(c), owned});
        }
    }

    // The vjp's cotangents, as a tuple.
    nb::object derivative(nb::handle object, nb::handle inputs, nb::handle xp, nb::handle g) {
        Node* node = Node::of(object);
        const nb::object rule = nb::borrow(node->rule), attributes = nb::borrow(node->attributes);
        const nb::object saved = node->unpack == Py_None ? nb::borrow(node->saved) : nb::object(object.attr("unpacked")());
        const nb::object count = names().count.of(rule);
        if (!count.is_none() && PyTuple_Check(node->shape) && PyTuple_Size(node->shape) == 0) {
            const nb::object one = made(PyTuple_Pack(1, call(count, saved).ptr()));
            names().counts.set(library_.mode, made(PySequence_Concat(names().counts.of(library_.mode).ptr(), one.ptr())));
        }
        const Py_ssize_t size = PyTuple_Size(inputs.ptr());
        const nb::object needs = made(PyTuple_New(size));
        for (Py_ssize_t i = 0; i < size; ++i)
            PyTuple_SetItem(needs.ptr(), i, Py_NewRef(PyTuple_GetItem(inputs.ptr(), i) == Py_None ? Py_False : Py_True));
        const nb::object vjp = names().vjp.of(rule);
        nb::object place = nb::none();
        if (!xp.is(library_.numpy) && nb::cast<bool>(call(library_.several_gpus))) place = call(library_.place_of, g);
        nb::object cotangents;
        if (place.is_none() && PyDict_Size(attributes.ptr()) == 0) {
            cotangents = call(vjp, xp, g, saved, needs);
        } else {
            const nb::object arguments = made(PyTuple_Pack(4, xp.ptr(), g.ptr(), saved.ptr(), needs.ptr()));
            cotangents = place.is_none() ? made(PyObject_Call(vjp.ptr(), arguments.ptr(), attributes.ptr()))
                                         : call(library_.run_on, place, vjp, arguments, attributes);
        }
        return made(PySequence_Tuple(cotangents.ptr()));
    }

    // That what was saved is as it was; Python looks closer, and raises.
    void check_saved(nb::handle object) const {
        const Node* node = Node::of(object);
        bool is_plain = node->freed == Py_False && node->digests == Py_None;
        const nb::object guards = nb::borrow(node->guards);
        const Py_ssize_t count = PySequence_Size(guards.ptr());
        check(static_cast<int>(count));
        for (Py_ssize_t k = 0; k < count && is_plain; ++k) {
            const nb::object guard = made(PySequence_GetItem(guards.ptr(), k));
            const nb::object now = names().count.of(made(PySequence_GetItem(guard.ptr(), 0)));
            const int same = PyObject_RichCompareBool(now.ptr(), made(PySequence_GetItem(guard.ptr(), 1)).ptr(), Py_EQ);
            check(same);
            is_plain = same == 1;
        }
        if (!is_plain) call(library_.check_saved, object);
    }

    // Of several outputs at once a Node has no shape.
    bool has_shape_of_its_own(nb::handle edge) const { return !is_node(edge) || Node::of(edge)->shape != Py_None; }

    // Whether no other input gets this one: what several get is nobody's own.
    static bool is_only(nb::handle c, nb::handle cotangents) {
        int found = 0;
        for (Py_ssize_t i = 0; i < PyTuple_Size(cotangents.ptr()); ++i) found += PyTuple_GetItem(cotangents.ptr(), i) == c.ptr();
        return found == 1;
    }

    // A cotangent in its input's shape and dtype.
    void fit(nb::object& c, nb::handle edge, nb::handle xp) const {
        if (is_node(edge) && is_plain_array(c) && array_dtype(c).is(Node::of(edge)->dtype) && has_shape(c, Node::of(edge)->shape))
            return;
        c = call(library_.fit_to, xp, c, edge);
    }

    // Whether a vjp has made this array, or what it is a view of, and nobody else has that: vjps hand out fresh arrays, also as
    // the only view of one, the cotangent that they were given, or views of what others have.
    bool is_fresh(nb::handle c) const {
        if (!is_plain_array(c)) return names().base.of(c).is_none();
        const nb::handle base = PyArray_BASE(fields(c));
        if (!base.is_valid()) return true;
        return is_plain_array(base) && PyArray_BASE(fields(base)) == nullptr && size_of(base) == size_of(c) &&
               PyArray_ISWRITEABLE(fields(c)) && Py_REFCNT(base.ptr()) == 1;
    }

    const WalkLibrary& library_;
    bool retain_graph_, accumulates_, barrier_;
    std::vector<nb::object> held_, nodes_, leaves_;
    std::unordered_set<PyObject*> wanted_, useful_;
    std::unordered_map<PyObject*, long> uses_;
    std::unordered_map<PyObject*, Gathered> gathered_;
    std::priority_queue<std::pair<long long, PyObject*>> waiting_;
    nb::object result_;
};

}  // namespace qdist::graph
