// Mistakes on purpose, one a function, by which sanitize.py sees that its sanitizers find such, and two functions that
// are right, by which it sees that they keep quiet otherwise.
#include <cstddef>
#include <vector>

extern "C" {

// An address beyond the end of an array.
int overflow(int n) {
    std::vector<int> x(std::size_t(n), 1);
    const volatile int* data = x.data();
    return data[n];
}

// A shift by all bits of a number.
int shift(int by) { return 1 << by; }

// Two threads that add to one number.
long race(int n) {
    volatile long total = 0;
#pragma omp parallel for schedule(static) num_threads(2)
    for (int i = 0; i < n; ++i) total = total + i;
    return total;
}

// Threads that read, after a barrier, what others have written.
long barrier(int n) {
    std::vector<long> x(std::size_t(n), 0), y(std::size_t(n), 0);
#pragma omp parallel num_threads(2)
    {
#pragma omp for schedule(static)
        for (int i = 0; i < n; ++i) x[std::size_t(i)] = i;
#pragma omp for schedule(static)
        for (int i = 0; i < n; ++i) y[std::size_t(i)] = x[std::size_t(n - 1 - i)];
    }
    return y[0];
}

int within(int n) {
    std::vector<int> x(std::size_t(n), 1);
    return x[std::size_t(n - 1)] << 3;
}
}
