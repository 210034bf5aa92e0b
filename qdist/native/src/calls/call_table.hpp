// The collectives that the ranks of a group enter, side by side in memory that they share: who calls something else is
// found before it sends anything, and without a message.
//
// Each rank has a ring of slots. For its call number n it writes to slot n % RING the number, the record of the call,
// and a digest of all its calls up to n; then it looks at slot n % RING of the others. Of two ranks that differ in call
// n at least one sees the other: each writes before it reads, with a sequentially consistent fence in between (Dekker).
// The digest covers all calls so far, so a difference that a ring has already lost shows at the next common call.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstdint>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "base/bits.hpp"

namespace qdist {

namespace nb = nanobind;

// What must be equal on all ranks of a group.
struct CallRecord {
    std::uint8_t op = 0, reduction = 0, kind = 0, flags = 0;  // kind: of the dtype, NumPy's letter
    std::int32_t item_size = 0, root = -1, dims = -1;         // -1: the call has none
    std::int64_t shape[8] = {};
    std::uint64_t more = 0;  // A digest of whatever else must be equal, such as the dimensions after the eighth.

    void add_shape(const std::int64_t* lengths, int count) {
        dims = count;
        for (int k = 0; k < count; ++k) {
            if (k < 8)
                shape[k] = lengths[k];
            else
                more = splitmix(more ^ static_cast<std::uint64_t>(lengths[k]));
        }
    }
};

class CallTable {
public:
    static constexpr int RING = 256, WORDS = sizeof(CallRecord) / 8, TEXT = 960;
    static constexpr std::uint64_t FIRST = 32, EVERY = 32;
    using Memory = nb::ndarray<std::uint8_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

    // memory: bytes(size) of zeros, but for the first 8, which are the caller's. near: the ranks that share it, `rank`
    // among them. spans: whether the group has other ranks too, so that digests must be compared by messages.
    CallTable(Memory memory, int size, int rank, std::vector<int> near, bool spans)
        : memory_(memory), size_(size), rank_(rank), near_(std::move(near)), spans_(spans) {
        const auto inside = [size](int r) { return 0 <= r && r < size; };
        if (size < 1 || !inside(rank) || !std::all_of(near_.begin(), near_.end(), inside))
            throw nb::value_error("a call table needs ranks in 0..size-1");
        if (memory.size() < bytes(size) || reinterpret_cast<std::uintptr_t>(memory.data()) % 64 != 0)
            throw nb::value_error("a call table needs bytes(size) of memory, aligned to 64");
        header_ = reinterpret_cast<Header*>(memory.data());
        std::erase(near_, rank);
    }

    static std::size_t bytes(int size) { return sizeof(Header) + static_cast<std::size_t>(size) * sizeof(Ring); }

    // Notes this rank's next call. False where something is to be seen to: another rank has called something else, the
    // group is broken, or it is time to compare by messages.
    bool enter(const CallRecord& call) {
        std::uint64_t words[WORDS];
        std::memcpy(words, &call, sizeof call);
        for (const std::uint64_t word : words) digest_ = splitmix(digest_ ^ word);
        const std::uint64_t n = ++count_;
        Slot& own = slot(rank_, n);
        own.number.store(0, std::memory_order_relaxed);
        std::atomic_thread_fence(std::memory_order_release);
        for (int k = 0; k < WORDS; ++k) record(rank_, n)[k].store(words[k], std::memory_order_relaxed);
        own.digest.store(digest_, std::memory_order_relaxed);
        own.number.store(n, std::memory_order_release);
        std::atomic_thread_fence(std::memory_order_seq_cst);
        return !differs() && !is_broken() && !is_due();
    }

    // Whether a rank that has come to this call has called differently, now or before.
    bool differs() const {
        return std::any_of(near_.begin(), near_.end(), [&](int other) {
            const Slot& theirs = slot(other, count_);
            if (theirs.number.load(std::memory_order_acquire) != count_) return false;
            if (theirs.digest.load(std::memory_order_relaxed) == digest_) return false;
            std::atomic_thread_fence(std::memory_order_acquire);
            // A slot that was written anew meanwhile says nothing of this call.
            return theirs.number.load(std::memory_order_relaxed) == count_;
        });
    }

    // Whether it is time to compare digests by messages: at each of the first calls, then after every so many.
    bool is_due() const { return spans_ && (count_ <= FIRST || count_ - compared_ >= EVERY); }
    void compared() { compared_ = count_; }

    int size() const { return size_; }
    std::uint64_t count() const { return count_; }
    std::uint64_t digest() const { return digest_; }

    // (number, record) of the calls that a rank's ring still holds, oldest first.
    std::vector<std::pair<std::uint64_t, CallRecord>> calls(int rank) const {
        std::vector<std::pair<std::uint64_t, CallRecord>> found;
        for (std::uint64_t k = 0; k < RING; ++k) {
            const std::uint64_t number = slot(rank, k).number.load(std::memory_order_acquire);
            std::uint64_t words[WORDS];
            for (int w = 0; w < WORDS; ++w) words[w] = record(rank, k)[w].load(std::memory_order_relaxed);
            std::atomic_thread_fence(std::memory_order_acquire);
            if (number == 0 || slot(rank, k).number.load(std::memory_order_relaxed) != number) continue;
            CallRecord call;
            std::memcpy(static_cast<void*>(&call), words, sizeof call);
            found.emplace_back(number, call);
        }
        std::sort(found.begin(), found.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
        return found;
    }

    // Says why the group can no longer be used, to all ranks that share the memory. The first text stays.
    void break_group(const std::string& why) {
        std::uint32_t whole = 0;
        if (!header_->state.compare_exchange_strong(whole, 1)) return;
        const std::size_t length = std::min<std::size_t>(why.size(), TEXT - 1);
        std::memcpy(header_->text, why.data(), length);
        header_->state.store(2, std::memory_order_release);
    }

    bool is_broken() const { return header_->state.load(std::memory_order_acquire) == 2; }
    std::string why() const { return is_broken() ? std::string(header_->text) : std::string(); }

private:
    struct Slot {
        std::atomic<std::uint64_t> number, digest;
    };
    struct alignas(64) Ring {
        Slot slots[RING];
        std::atomic<std::uint64_t> records[RING][WORDS];
    };
    struct alignas(64) Header {
        std::uint64_t of_the_caller;
        std::atomic<std::uint32_t> state;  // 0: whole, 1: being broken, 2: broken, and the text says why
        char text[TEXT];
    };
    static_assert(sizeof(CallRecord) == 88 && std::atomic<std::uint64_t>::is_always_lock_free);

    Ring* rings() const { return reinterpret_cast<Ring*>(header_ + 1); }
    Slot& slot(int rank, std::uint64_t n) const { return rings()[rank].slots[n % RING]; }
    std::atomic<std::uint64_t>* record(int rank, std::uint64_t n) const { return rings()[rank].records[n % RING]; }

    Memory memory_;  // Keeps the memory.
    Header* header_ = nullptr;
    int size_, rank_;
    std::vector<int> near_;
    bool spans_;
    std::uint64_t count_ = 0, digest_ = 0, compared_ = 0;
};

}  // namespace qdist
