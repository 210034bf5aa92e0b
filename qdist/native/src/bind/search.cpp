// Bindings of the planners: stages of one level, few exchanges, and what prepares the search for them.
#include "search/search.hpp"
#include "base/checks.hpp"
#include "bind/arrays.hpp"
#include "bind/unlocked.hpp"
#include "search/alternations.hpp"
#include "search/commute.hpp"
#include "search/fuse.hpp"
#include "search/moving.hpp"
#include "search/narrow.hpp"
#include "search/pairs.hpp"
#include "search/schedule.hpp"
#include "search/tries.hpp"

namespace {

using namespace qdist;

using Masks = Array<const std::uint64_t>;
using Found = std::tuple<std::vector<Mask>, std::vector<int>, std::int64_t>;

std::vector<Action> actions(Masks mixes, Masks x_like, Masks z_like) {
    check_size(x_like.size(), mixes.size(), "x_like");
    check_size(z_like.size(), mixes.size(), "z_like");
    std::vector<Action> gates(mixes.size());
    for (std::size_t g = 0; g < gates.size(); ++g) gates[g] = {mixes.data()[g], x_like.data()[g], z_like.data()[g], 0};
    return gates;
}

// What is mixed is among the qubits; a gate may act like Z elsewhere: on several ranks, far controls and diagonals.
void check_actions(const std::vector<Action>& gates, int num_qubits, int close) {
    check_range(num_qubits, 0, 64, "the number of qubits");
    check_range(close, 0, 64, "the number of close qubits");
    for (const Action& a : gates) check_mask(a.mixes, num_qubits, "a gate's qubits");
}

Found search(Masks mixes, Masks x_like, Masks z_like, int num_qubits, int close, std::optional<Mask> start, std::int64_t limit) {
    const std::vector<Action> gates = actions(mixes, x_like, z_like);
    check_actions(gates, num_qubits, close);
    for (const Action& a : gates) check_mask(a.x_like | a.z_like, num_qubits, "a gate's qubits");
    if (start) check_mask(*start, num_qubits, "start");
    check_range(limit, 0, std::int64_t(1) << 60, "limit");
    for (const Action& a : gates)
        if (std::popcount(a.mixes) > close) throw nb::value_error("a gate mixes more qubits than are close");
    const Unlocked unlocked;
    // Most of the work goes into fewer exchanges, the rest into smaller ones.
    Search search(gates, close, start, limit - limit / 4);
    const std::vector<std::vector<Mask>> plans = search.run();
    std::int64_t work = search.work();
    std::optional<Stages> best;
    for (std::vector<Mask> sets : plans) {
        if (start) sets.insert(sets.begin(), *start);
        Stages stages(gates, num_qubits, close, std::move(sets), start.has_value());
        stages.narrow(limit / 4 / std::int64_t(plans.size()));
        work += stages.work();
        if (!best || stages.swaps() < best->swaps()) best.emplace(std::move(stages));
    }
    return {best->sets(), best->when(), work};
}

using StageList = std::vector<std::pair<Mask, std::vector<int>>>;

std::vector<Action> weighted(Masks mixes, Masks x_like, Masks z_like, Array<const double> weight, int num_qubits, int close) {
    std::vector<Action> gates = actions(mixes, x_like, z_like);
    check_actions(gates, num_qubits, close);
    check_size(weight.size(), mixes.size(), "weight");
    for (std::size_t g = 0; g < gates.size(); ++g) gates[g].weight = weight.data()[g];
    return gates;
}

StageList as_list(std::vector<Scheduled> found) {
    StageList stages;
    for (auto& stage : found) stages.emplace_back(stage.close, std::move(stage.gates));
    return stages;
}

StageList schedule(Masks mixes, Masks x_like, Masks z_like, Array<const double> weight, int num_qubits, int close, Mask forced) {
    const std::vector<Action> gates = weighted(mixes, x_like, z_like, weight, num_qubits, close);
    check_mask(forced, num_qubits, "forced");
    const Unlocked unlocked;
    return as_list(Scheduler(gates, num_qubits, close, forced).run());
}

StageList schedule_cheapest(Masks mixes, Masks x_like, Masks z_like, Array<const double> weight, int num_qubits, int close,
                            Mask forced, Mask support, int tries, double work) {
    const std::vector<Action> gates = weighted(mixes, x_like, z_like, weight, num_qubits, close);
    check_mask(forced, num_qubits, "forced");
    check_mask(support, num_qubits, "support");
    check_range(tries, 1, 1 << 20, "tries");
    const Unlocked unlocked;
    return as_list(cheapest(
        tries, [&](int number) { return Scheduler(reweighted(gates, number), num_qubits, close, forced).run(); },
        [&](const std::vector<Scheduled>& found) { return cost_of(found, gates, num_qubits, support, work); }));
}

StageList schedule_moving(Masks mixes, Masks x_like, Masks z_like, Array<const double> weight, int num_qubits, int close, Mask low,
                          Mask support, int tries, double work) {
    const std::vector<Action> gates = weighted(mixes, x_like, z_like, weight, num_qubits, close);
    check_mask(low, num_qubits, "low");
    check_mask(support, num_qubits, "support");
    check_range(tries, 1, 1 << 20, "tries");
    for (const Action& a : gates)
        if (std::popcount(a.mixes) + std::popcount(low) > close) throw nb::value_error("a gate mixes more qubits than find room");
    const Unlocked unlocked;
    return as_list(MovingScheduler(gates, num_qubits, close, low, support).run(tries, work));
}

std::vector<int> count_alternations(Masks mixes, Masks x_like, Masks z_like, const std::vector<bool>& kinds) {
    if (kinds.size() != mixes.size()) throw nb::value_error("there must be one kind a gate");
    return alternations(actions(mixes, x_like, z_like), kinds);
}

BlockKind kind_of(const char* name) {
    const std::string_view kind = name;
    if (kind == "dense") return BlockKind::dense;
    if (kind == "diagonal") return BlockKind::diagonal;
    if (kind == "flip" || kind == "swap") return BlockKind::linear;
    if (kind == "rotation") return BlockKind::rotation;
    if (kind == "table") return BlockKind::table;
    if (kind == "permute") return BlockKind::permute;
    throw nb::value_error("an operation of no known kind");
}

// Attributes of plan.operations.Operation, by names that are made once.
class Attributes {
public:
    template <class T>
    static T get(nb::handle object, const nb::str& name) {
        return nb::cast<T>(nb::object(nb::getattr(object, name)));
    }
    const nb::str kind{"kind"}, mixes{"mixes"}, x_like{"x_like"}, z_like{"z_like"}, controls{"controls"}, targets{"targets"}, wide{"wide"},
        letters{"letters"}, gate{"gate"}, pauli{"pauli"};
};

Mask checked_qubit(int qubit) {
    check_range(qubit, 0, 63, "a qubit");
    return Mask(1) << qubit;
}

// joins_phases: as for plan/fuse.py, where what was planned as a matrix then stays one.
Fusable fusable(nb::handle operation, const Attributes& names, bool joins_phases, int flags) {
    const nb::object kind = nb::getattr(operation, names.kind);
    Fusable o{.action = {Attributes::get<Mask>(operation, names.mixes), Attributes::get<Mask>(operation, names.x_like),
                         Attributes::get<Mask>(operation, names.z_like), 0},
              .kind = kind_of(nb::cast<const char*>(kind)),
              .controls = 0,
              .control_values = 0};
    for (nb::handle control : nb::getattr(operation, names.controls)) {
        const auto [qubit, value] = nb::cast<std::pair<int, int>>(control);
        o.controls |= checked_qubit(qubit);
        if (value) o.control_values |= checked_qubit(qubit);
    }
    nb::object letters;
    if (o.kind == BlockKind::rotation && !(joins_phases && o.controls)) {
        letters = nb::getattr(operation, names.letters);
    } else if (o.kind == BlockKind::dense && !joins_phases && std::popcount(o.action.mixes) > 1) {
        if (const nb::object gate = nb::getattr(operation, names.gate); !gate.is_none()) letters = nb::getattr(gate, names.pauli);
    }
    if (letters.is_valid() && !letters.is_none()) {
        const std::string_view text = nb::cast<const char*>(letters);
        o.as_rotation = !text.empty();
        std::size_t k = 0;
        for (nb::handle target : nb::getattr(operation, names.targets)) {
            if (k == text.size()) break;
            const char letter = text[k++];
            if (letter == 'Y' || letter == 'Z') o.signs |= checked_qubit(nb::cast<int>(target));
            o.odd_ys ^= letter == 'Y';
        }
    }
    o.is_constant = !(flags & 1), o.keeps_parity = flags & 2;
    if (joins_phases && o.kind == BlockKind::diagonal) o.has_wide = nb::len(nb::getattr(operation, names.wide)) > 0;
    return o;
}

std::vector<std::vector<int>> pair_runs(Masks qubits, Array<const std::int32_t> kinds, Masks flips, const std::vector<bool>& odd_ys,
                                        const std::vector<bool>& simple, int close) {
    const std::size_t count = qubits.size();
    for (std::size_t size : {kinds.size(), flips.size(), odd_ys.size(), simple.size()}) check_size(size, count, "an argument of pair_runs");
    check_range(close, 0, 64, "the number of close qubits");
    std::vector<PairGate> gates(count);
    for (std::size_t g = 0; g < count; ++g) {
        check_range(kinds.data()[g], 0, pass_kinds - 1, "the kind of a pass");
        gates[g] = {qubits.data()[g], PassKind(kinds.data()[g]), flips.data()[g], odd_ys[g], simple[g]};
        if (gates[g].kind == PassKind::alone && std::popcount(gates[g].qubits) != 1) throw nb::value_error("a row is of one qubit");
    }
    return PairRuns(gates, close).worth_joining();
}

using FusedList = std::vector<std::tuple<int, std::vector<int>, Mask, Mask, Mask>>;

std::pair<FusedList, std::int64_t> fuse(nb::list operations, int parities, std::optional<std::vector<int>> flags) {
    check_range(parities, 0, 62, "parities");
    if (flags) check_size(flags->size(), nb::len(operations), "flags");
    const Attributes names;
    std::vector<Fusable> given;
    given.reserve(nb::len(operations));
    try {
        for (nb::handle operation : operations)
            given.push_back(fusable(operation, names, flags.has_value(), flags ? (*flags)[given.size()] : 0));
    } catch (const nb::cast_error&) {
        throw nb::type_error("an operation whose attributes are not those of plan.operations.Operation");
    }
    Fusing fusing(given, parities, flags.has_value());
    FusedList found;
    for (Fusing::Block& block : fusing.run())
        found.emplace_back(int(block.kind), std::move(block.operations), block.mixes, block.not_x, block.all);
    return {std::move(found), fusing.steps()};
}

}  // namespace

void bind_search(nb::module_& m) {
    m.def("schedule", &schedule, "mixes"_a, "x_like"_a, "z_like"_a, "weight"_a, "num_qubits"_a, "close"_a, "forced"_a,
          "Stages of gates for a level at which `close` qubits can be mixed: (close qubits as a mask, gates in order).");
    m.def("schedule_cheapest", &schedule_cheapest, "mixes"_a, "x_like"_a, "z_like"_a, "weight"_a, "num_qubits"_a, "close"_a,
          "forced"_a, "support"_a, "tries"_a, "work"_a,
          "The same: the cheapest of so many tries, by the sweeps of amplitudes that may be nonzero and `work` times the weight of "
          "gates. support: what the state depends on before.");
    m.def("schedule_moving", &schedule_moving, "mixes"_a, "x_like"_a, "z_like"_a, "weight"_a, "num_qubits"_a, "close"_a, "low"_a,
          "support"_a, "tries"_a, "work"_a,
          "The same where qubits change places between stages: as many as `low` has are close in a stage and in the next, and "
          "those of `low` in the last one. The best of so many tries, by sweeps and `work` times the weight of gates.");
    m.def("search", &search, "mixes"_a, "x_like"_a, "z_like"_a, "num_qubits"_a, "close"_a, "start"_a.none(), "limit"_a,
          "Few stages in which all gates can run: (close qubits of each as a mask, stage of each gate, work done).");
    m.def("alternations", &count_alternations, "mixes"_a, "x_like"_a, "z_like"_a, "kinds"_a,
          "How often the kind of gate changes on the way to each gate, along gates that may not pass each other.");
    m.def("pair_runs", &pair_runs, "qubits"_a, "kinds"_a, "flips"_a, "odd_ys"_a, "simple"_a, "close"_a,
          "Runs of gates on the same two qubits that take less as one matrix, by their numbers. kinds, flips, odd_ys, simple: what "
          "each gate is as a pass of its own (plan/rewrites/pairs.py).");
    m.def("fuse", &fuse, "operations"_a, "parities"_a, "flags"_a.none(),
          "The blocks of operations (plan/fuse.py), in order, and how many places were looked at: of each block its kind (dense, "
          "diagonal, linear, rotation, table, permute), its operations by number, and three masks of qubits: those that it mixes, those on "
          "which it does not commute with X, all. flags: where phases join matrices, 1 for operations that angles change and 2 for those "
          "that keep parities.");
}
