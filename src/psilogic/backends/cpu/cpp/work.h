// Numbers, threads, and the pieces of tensors that threads work on.

#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <type_traits>
#include <vector>
#ifdef __F16C__
#include <immintrin.h>
#endif

namespace {

using Index = std::int64_t;

// Numbers in memory, and in computations

struct bfloat16 {
    std::uint16_t bits;
};
struct float16 {
    std::uint16_t bits;
};

template <class T> using Computed = std::conditional_t<sizeof(T) == 2, float, T>;

template <class To, class From> inline To bits_as(From from) {
    static_assert(sizeof(To) == sizeof(From));
    To to;
    std::memcpy(&to, &from, sizeof to);
    return to;
}

inline float widen(float x) { return x; }
inline double widen(double x) { return x; }
inline float widen(bfloat16 x) {
    return bits_as<float>(static_cast<std::uint32_t>(x.bits) << 16);
}
// Without denormal numbers in between, which a processor may be told to take for zero. Both ways are computed, and one of
// them is chosen, so that the compiler can do it for many elements at once.
inline float widen(float16 x) {
    const std::uint32_t magnitude = x.bits & 0x7FFF, sign = static_cast<std::uint32_t>(x.bits & 0x8000) << 16;
    const std::uint32_t shifted = magnitude << 13;
    const std::uint32_t usual = shifted + (magnitude < 0x7C00 ? 112u << 23 : 224u << 23);  // infinite and NaN stay so
    const float small = bits_as<float>(magnitude | 126u << 23) - 0.5f;  // a multiple of 2^-24
    const std::uint32_t wide = magnitude < 0x0400 ? bits_as<std::uint32_t>(small) : usual;
    return bits_as<float>(wide | sign);
}

inline void narrow(float x, float &to) { to = x; }
inline void narrow(double x, double &to) { to = x; }
inline void narrow(float x, bfloat16 &to) {  // to nearest, ties to even
    const auto bits = bits_as<std::uint32_t>(x);
    to.bits = static_cast<std::uint16_t>(x != x ? 0x7FC0 : (bits + 0x7FFF + ((bits >> 16) & 1)) >> 16);
}
inline void narrow(float x, float16 &to) {  // likewise
    const auto bits = bits_as<std::uint32_t>(x);
    const std::uint32_t magnitude = bits & 0x7FFFFFFF, sign = (bits >> 16) & 0x8000;
    const std::uint32_t usual = (magnitude - (112u << 23) + 0xFFF + ((magnitude >> 13) & 1)) >> 13;
    const float small = bits_as<float>(magnitude) + 0.5f;  // whose last bits are multiples of 2^-24
    std::uint32_t narrow = magnitude < 113u << 23 ? bits_as<std::uint32_t>(small) - (126u << 23) : usual;
    narrow = magnitude >= 0x477FF000 ? 0x7C00 : narrow;  // from 65520 on it is rounded to infinity
    narrow = magnitude > 0x7F800000 ? 0x7E00 : narrow;   // NaN
    to.bits = static_cast<std::uint16_t>(narrow | sign);
}

inline void convert(const float *from, float *to, Index n) { std::copy_n(from, n, to); }
// Adjacent numbers, by the processor's instructions for eight of them where it has these.
inline void convert(const float16 *from, float *to, Index n) {
    Index j = 0;
#ifdef __F16C__
    for (; j + 8 <= n; j += 8)
        _mm256_storeu_ps(to + j, _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i *>(from + j))));
#endif
    for (; j < n; ++j) to[j] = widen(from[j]);
}
inline void convert(const float *from, float16 *to, Index n) {
    Index j = 0;
#ifdef __F16C__
    for (; j + 8 <= n; j += 8)
        _mm_storeu_si128(
            reinterpret_cast<__m128i *>(to + j), _mm256_cvtps_ph(_mm256_loadu_ps(from + j), _MM_FROUND_TO_NEAREST_INT));
#endif
    for (; j < n; ++j) narrow(from[j], to[j]);
}

// Work and threads

using Parallel = void (*)(void (*)(void *), void *, unsigned, unsigned);
Parallel parallel = nullptr;  // how OpenMP starts threads for GNU's compilers, from the library that torch has loaded

// How a processor rounds, and whether it flushes denormal numbers to zero (torch.set_flush_denormal): of one thread.
class FloatMode {
#if defined(__x86_64__)
    unsigned value;

  public:
    static FloatMode get() { return {__builtin_ia32_stmxcsr()}; }
    void set() const { __builtin_ia32_ldmxcsr(value); }
    FloatMode(unsigned value) : value(value) {}
#elif defined(__aarch64__)
    std::uint64_t value;

  public:
    static FloatMode get() {
        std::uint64_t value;
        __asm__ volatile("mrs %0, fpcr" : "=r"(value));
        return {value};
    }
    void set() const { __asm__ volatile("msr fpcr, %0" : : "r"(value)); }
    FloatMode(std::uint64_t value) : value(value) {}
#else
  public:
    static FloatMode get() { return {}; }
    void set() const {}
#endif
};

// Calls work(i) for each i below count, in the caller's mode: a thread that exists already may have another.
template <class Work> void share(Index count, unsigned threads, const Work &work) {
    struct Shared {
        const Work &work;
        const Index count;
        const FloatMode mode;
        std::atomic<Index> next;
    } shared{work, count, FloatMode::get(), {0}};
    const auto run = [](void *argument) {
        auto &mine = *static_cast<Shared *>(argument);
        const FloatMode before = FloatMode::get();
        mine.mode.set();
        for (Index i; (i = mine.next.fetch_add(1, std::memory_order_relaxed)) < mine.count;) mine.work(i);
        before.set();
    };
    if (threads > 1 && count > 1)
        parallel(run, &shared, threads, 0);
    else
        run(&shared);
}

const Index SERIAL = 1 << 15;  // so few elements are not worth a second thread
const Index PIECES = 64, SHORTEST = 1 << 14, LONGEST = 1 << 21;  // about this number of pieces, of this number of elements
const Index TILE = 1 << 11;  // as many squares as float can add without a loss

struct Piece {
    Index tensor, from, to;  // elements of the tensor
};

// Some of N tensors: whether each is chosen; null for all.
using Chosen = const char *;

// N tensors with numels[i] elements in units[i] rows each; those that are chosen are cut into pieces.
struct Work {
    Index n, total = 0, size;
    const Index *numels, *units;
    Chosen chosen;
    std::vector<Index> first_unit;  // the number of rows in all tensors before this one
    std::vector<Piece> pieces;

    Work(Index n, const Index *numels, const Index *units, Chosen chosen = nullptr)
        : n(n), numels(numels), units(units), chosen(chosen), first_unit(n + 1) {
        for (Index i = 0; i < n; ++i) total += numels[i], first_unit[i + 1] = first_unit[i] + units[i];
        size = std::clamp(total / PIECES, SHORTEST, LONGEST);
    }
    Index length(Index i) const { return units[i] ? numels[i] / units[i] : 0; }
    bool splits(Index i) const { return length(i) > size; }
    unsigned threads(unsigned wanted) const { return total < SERIAL ? 1 : wanted; }

    void cut(Index i, Index from, Index to, Index step) {
        if (chosen && !chosen[i]) return;
        for (; from < to; from += step) pieces.push_back({i, from, std::min(to, from + step)});
    }
    void cut_anywhere() {
        for (Index i = 0; i < n; ++i) cut(i, 0, numels[i], size);
    }
    // A piece then holds whole rows, or a part of one row.
    void cut_rows() {
        for (Index i = 0; i < n; ++i)
            if (const Index row = length(i); !splits(i))
                cut(i, 0, numels[i], row ? size / row * row : 1);
            else
                for (Index from = 0; from < numels[i]; from += row) cut(i, from, from + row, size);
    }
};

template <class T> T *at(const Index *tensors, Index i, Index element) {
    return reinterpret_cast<T *>(tensors[i]) + element;
}

}  // namespace
