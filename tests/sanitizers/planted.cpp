// Mistakes on purpose, one a function, by which sanitize.py sees that its sanitizers find such, and two functions that
// are right, by which it sees that they keep quiet otherwise.
#include <atomic>
#include <chrono>
#include <cstddef>
#include <vector>

#include "base/pool.hpp"

static std::chrono::steady_clock::time_point now() { return std::chrono::steady_clock::now(); }

extern "C" {

// An address beyond the end of an array.
int overflow(int n) {
    std::vector<int> x(std::size_t(n), 1);
    const volatile int* data = x.data();
    return data[n];
}

// A shift by all bits of a number.
int shift(int by) { return 1 << by; }

// Two threads that add to one number. Each waits for the other first.
long race(int n) {
    volatile long total = 0;
    std::atomic<int> inside = 0;
    qdist::run_on_threads(2, 2, [&](qdist::Pieces&) {
        inside.fetch_add(1, std::memory_order_relaxed);
        for (const auto end = now() + std::chrono::seconds(20); inside.load(std::memory_order_relaxed) < 2 && now() < end;) {
        }
        for (int i = 0; i < n; ++i) total = total + i;
    });
    return total;
}

// Threads that read, in the next job, what others have written.
long barrier(int n) {
    std::vector<long> x(std::size_t(n), 0), y(std::size_t(n), 0);
    qdist::chosen_threads = 2;
    for (int repeat = 0; repeat < 100; ++repeat) {
        qdist::ranges_on_threads(x.size(), 8, [&](std::size_t first, std::size_t last) {
            for (std::size_t i = first; i < last; ++i) x[i] = long(i) + y[i];
        });
        qdist::ranges_on_threads(x.size(), 8, [&](std::size_t first, std::size_t last) {
            for (std::size_t i = first; i < last; ++i) y[i] = x[x.size() - 1 - i];
        });
    }
    return y[0];
}

int within(int n) {
    std::vector<int> x(std::size_t(n), 1);
    return x[std::size_t(n - 1)] << 3;
}
}
