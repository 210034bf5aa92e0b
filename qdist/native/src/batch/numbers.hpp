// Numbers of a caller in single or double precision, as the double ones that row programs compute with.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

namespace qdist::batch {

struct Numbers {
    void* at = nullptr;
    bool wide = true;  // float64, else float32
};

// Numbers that are read: those of the caller, or converted.
class Read {
public:
    Read(Numbers from, std::size_t count) : data_(static_cast<const double*>(from.at)) {
        if (from.wide) return;
        const auto* const narrow = static_cast<const float*>(from.at);
        converted_.assign(narrow, narrow + count);
        data_ = converted_.data();
    }
    Read(const Read&) = delete;
    const double* data() const { return data_; }

private:
    std::vector<double> converted_;
    const double* data_;
};

// Numbers that are written, from zero or (kept) from what the caller has; converted when this goes out of scope.
class Written {
public:
    Written(Numbers to, std::size_t count, bool kept = false) : to_(to), data_(static_cast<double*>(to.at)) {
        if (!to.at) return;
        if (!to.wide) {
            const auto* const narrow = static_cast<const float*>(to.at);
            kept ? converted_.assign(narrow, narrow + count) : converted_.assign(count, 0.0);
            data_ = converted_.data();
        } else if (!kept)
            std::fill_n(data_, count, 0.0);
    }
    Written(const Written&) = delete;
    ~Written() { std::copy(converted_.begin(), converted_.end(), static_cast<float*>(to_.at)); }
    double* data() { return data_; }  // Null where nothing is wanted.

private:
    Numbers to_;
    std::vector<double> converted_;
    double* data_;
};

}  // namespace qdist::batch
