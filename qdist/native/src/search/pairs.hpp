// Runs of gates on the same two qubits that take less as one matrix: plan/rewrites/pairs.py says why.
#pragma once
#include <algorithm>
#include <bit>
#include <map>
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "base/bits.hpp"
#include "search/commute.hpp"

namespace qdist {

// What a gate is as a pass of its own: a row of one qubit's matrices, a part of a pass of all phases or all changes of the index,
// a matrix under conditions, a Pauli rotation, another matrix; or nothing that may become part of a matrix on two qubits.
enum class PassKind : int { alone, shared, controlled, rotation, matrix, apart };
inline constexpr int pass_kinds = 6;

struct PairGate {
    Mask qubits;
    PassKind kind;
    Mask flips = 0;        // of a rotation, with whether its Ys are odd: with the same two they are one pass
    bool odd_ys = false;
    bool is_simple = false;  // alone: each entry is real or imaginary
};

class PairRuns {
public:
    // close: qubits from there on cannot be mixed.
    PairRuns(const std::vector<PairGate>& gates, int close) : gates_(gates), close_(close) {}

    // The numbers of each run's gates, in order. A gate of one qubit is part of the run before it, or of the next where that is not
    // worth joining.
    std::vector<std::vector<int>> worth_joining() {
        for (int k = 0; k < int(gates_.size()); ++k) {
            const Mask qubits = gates_[k].qubits;
            if (!qubits) continue;  // A phase of all amplitudes.
            if (std::popcount(qubits) > 2 || (close_ < 64 && qubits >> close_) || gates_[k].kind == PassKind::apart) {
                end_on(qubits);
                each_bit(qubits, [&](int q) { open_.erase(q); });
                continue;
            }
            const auto found = open_.find(std::bit_width(qubits) - 1);
            std::shared_ptr<Run> run = found == open_.end() ? nullptr : found->second;
            if (!run || qubits & ~run->qubits) run = begin(qubits);
            run->numbers.push_back(k);
        }
        end_on(~Mask(0));
        return std::move(found_);
    }

private:
    // Gates on one qubit or two, by their numbers, between which nothing else acts on these qubits.
    struct Run {
        Mask qubits;
        std::vector<int> numbers;
    };

    // In units of a matrix on two qubits. Between those of Neoverse-N1 and of a Xeon (benchmarks/cpu_notes.md).
    static constexpr double one = 0.45, real = 0.3, rotation = 0.33, controlled = 0.25, shared = 0.1;

    // A new run, with the gates of one qubit before it.
    std::shared_ptr<Run> begin(Mask qubits) {
        end_on(qubits);
        auto run = std::make_shared<Run>(Run{qubits, {}});
        each_bit(qubits, [&](int q) {
            if (const auto before = open_.find(q); before != open_.end())
                run->numbers.insert(run->numbers.end(), before->second->numbers.begin(), before->second->numbers.end());
            open_[q] = run;
        });
        std::sort(run->numbers.begin(), run->numbers.end());
        return run;
    }

    // Ends the runs on two qubits of which one is among these. Of those that stay as they are, what comes after the last gate of two
    // may be part of another.
    void end_on(Mask qubits) {
        std::vector<std::shared_ptr<Run>> ending;
        for (const auto& [q, run] : open_)
            if (qubits >> q & 1 && std::popcount(run->qubits) == 2 && std::find(ending.begin(), ending.end(), run) == ending.end())
                ending.push_back(run);
        for (const auto& run : ending) {
            each_bit(run->qubits, [&](int q) { open_.erase(q); });
            if (cost(run->numbers) > 1) {
                found_.push_back(run->numbers);
                continue;
            }
            for (auto k = run->numbers.rbegin(); k != run->numbers.rend() && gates_[*k].qubits != run->qubits; ++k) {
                std::shared_ptr<Run>& alone = open_[std::bit_width(gates_[*k].qubits) - 1];
                if (!alone) alone = std::make_shared<Run>(Run{gates_[*k].qubits, {}});
                alone->numbers.insert(alone->numbers.begin(), *k);
            }
        }
    }

    // Of gates on two qubits as they are; 0 where all are of one qubit but a matrix that takes these in anyway (search/fuse.hpp).
    double cost(const std::vector<int>& numbers) const {
        double sum = 0;
        int twos = 0, matrices = 0;
        std::map<int, std::pair<int, bool>> rows;  // of matrices on one qubit: how many, and whether the first is simple
        std::set<std::pair<Mask, bool>> flips;
        // What the rows cost that nothing can be added to any more.
        const auto ended = [&](Mask qubits) {
            double over = 0;
            std::erase_if(rows, [&](const auto& row) {
                const bool ends = qubits >> row.first & 1;
                if (ends) over += row.second.first > 1 || !row.second.second ? one : real;
                return ends;
            });
            return over;
        };
        for (int k : numbers) {
            const PairGate& gate = gates_[k];
            const int count = std::popcount(gate.qubits);
            if (gate.kind == PassKind::alone) {
                auto& row = rows.try_emplace(std::bit_width(gate.qubits) - 1, 0, gate.is_simple).first->second;
                ++row.first;
                flips.clear();
                continue;
            }
            twos += count == 2;
            sum += ended(gate.qubits);
            switch (gate.kind) {
                case PassKind::shared: sum += shared * count / 2; break;
                case PassKind::controlled: sum += controlled; break;
                case PassKind::rotation: sum += flips.emplace(gate.flips, gate.odd_ys).second ? rotation : 0; break;
                case PassKind::matrix: sum += 1, ++matrices; break;
                case PassKind::alone:
                case PassKind::apart: break;
            }
        }
        return twos == 1 && matrices == 1 ? 0 : sum + ended(~Mask(0));
    }

    const std::vector<PairGate>& gates_;
    int close_;
    std::map<int, std::shared_ptr<Run>> open_;  // by qubit
    std::vector<std::vector<int>> found_;
};

}  // namespace qdist
