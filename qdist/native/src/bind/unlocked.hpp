// The interpreter, free for other threads while a kernel computes.
#pragma once
#include <Python.h>

#include <unistd.h>

// Before Python 3.14 the interpreter ends a daemon thread that comes back to it at exit by unwinding its stack, which no
// destructor lets through: the whole process would abort. Such a thread sleeps here until the process is gone, as it does since.
class Unlocked {
public:
    Unlocked() : state_(PyEval_SaveThread()) {}
    ~Unlocked() {
        try {
            PyEval_RestoreThread(state_);
        } catch (...) {
            for (;;) pause();
        }
    }
    Unlocked(const Unlocked&) = delete;
    Unlocked& operator=(const Unlocked&) = delete;

private:
    PyThreadState* state_;
};
