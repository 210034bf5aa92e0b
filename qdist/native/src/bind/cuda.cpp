// Launches of CUDA kernels, for small work of which the host's time counts: the driver is called with arguments as they are, where
// CuPy first finds out what each of them is. The driver is loaded with the first launch. And numbers that kernels write to the host.
#include <dlfcn.h>

#include <array>
#include <atomic>
#include <bit>
#include <chrono>

#include "base/checks.hpp"
#include "bind/arrays.hpp"
#include "bind/unlocked.hpp"

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
    const Unlocked unlocked;
    const Launch call = driver();
    if (!call) return no_driver;
    return call(reinterpret_cast<void*>(function), blocks, 1, 1, threads, 1, 1, 0, reinterpret_cast<void*>(stream), places.data(),
                nullptr);
}

// The word at an address once its upper half is the ticket: a kernel's store of 64 bits, so that the number in its lower half is there
// too. Nothing if that takes longer than so many seconds.
std::optional<float> landed(Word address, std::uint32_t ticket, double seconds) {
    if (address == 0 || address % sizeof(Word)) qdist::refuse("a word's address must be a multiple of 8; got ", address);
    const Unlocked unlocked;
    const std::atomic_ref<Word> word(*reinterpret_cast<Word*>(address));
    const auto begin = std::chrono::steady_clock::now();
    for (;;) {
        for (int k = 0; k < 64; ++k) {
            const Word found = word.load(std::memory_order_acquire);
            if (found >> 32 == ticket) return std::bit_cast<float>(static_cast<std::uint32_t>(found));
        }
        if (std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count() > seconds) return std::nullopt;
    }
}

}  // namespace

void bind_cuda(nb::module_& m) {
    m.def("launch", &launch, "function"_a, "blocks"_a, "threads"_a, "stream"_a, "numbers"_a,
          "Launches a CUDA kernel of 64-bit arguments, addresses and counts. function: a CUfunction; stream: a CUstream. Gives the "
          "driver's error, 0 if there is none, and -1 where there is no driver.");
    m.def("landed", &landed, "address"_a, "ticket"_a, "seconds"_a,
          "Waits for a kernel's number: a word on the host whose upper half becomes the ticket, and whose lower half is then a float32. "
          "None if it does not come within so many seconds.");
}
