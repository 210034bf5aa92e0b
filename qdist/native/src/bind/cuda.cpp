// Launches of CUDA kernels, for small work of which the host's time counts: the driver is called with arguments as they are, where
// CuPy first finds out what each of them is. The driver is loaded with the first launch.
#include <dlfcn.h>

#include <array>

#include "base/checks.hpp"
#include "bind/arrays.hpp"

namespace {

using Word = std::uint64_t;
using Launch = int (*)(void* function, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void* stream,
                       void** arguments, void** more);

constexpr int most_arguments = 8, no_driver = -1;

Launch driver() {
    static const Launch found = [] {
        void* const library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
        return library ? reinterpret_cast<Launch>(dlsym(library, "cuLaunchKernel")) : nullptr;
    }();
    return found;
}

int launch(Word function, unsigned blocks, unsigned threads, Word stream, std::vector<Word> numbers) {
    qdist::check_range(int(numbers.size()), 0, most_arguments, "the number of arguments");
    std::array<void*, most_arguments> places;
    for (std::size_t k = 0; k < numbers.size(); ++k) places[k] = &numbers[k];
    nb::gil_scoped_release release;
    const Launch call = driver();
    if (!call) return no_driver;
    return call(reinterpret_cast<void*>(function), blocks, 1, 1, threads, 1, 1, 0, reinterpret_cast<void*>(stream), places.data(),
                nullptr);
}

}  // namespace

void bind_cuda(nb::module_& m) {
    m.def("launch", &launch, "function"_a, "blocks"_a, "threads"_a, "stream"_a, "numbers"_a,
          "Launches a CUDA kernel of 64-bit arguments, addresses and counts. function: a CUfunction; stream: a CUstream. Gives the "
          "driver's error, 0 if there is none, and -1 where there is no driver.");
}
