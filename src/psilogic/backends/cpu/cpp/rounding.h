// How the new value of a parameter is rounded to its dtype.

#pragma once

#include "work.h"

namespace {

enum Rounding : Index {
    NEAREST = 0,
    KAHAN = 1,       // the error is kept, in a tensor of the parameter's dtype
    STOCHASTIC = 2,  // up in magnitude with a probability equal to the part that is cut off
};

// A well mixed number from each of 2^64 numbers (the finalizer of splitmix64).
inline std::uint64_t mixed(std::uint64_t x) {
    x += 0x9E3779B97F4A7C15;
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9;
    x = (x ^ (x >> 27)) * 0x94D049BB133111EB;
    return x ^ (x >> 31);
}

// 32 random bits for each of the first elements of a stretch, from the two halves of its key: two rounds of a mixing
// function of 32 bits, which processors compute for many elements at once.
inline std::uint32_t drawn(std::uint32_t index, std::uint32_t first_half, std::uint32_t second_half) {
    std::uint32_t x = index * 0x9E3779B9 ^ first_half;
    x = (x ^ (x >> 16)) * 0x21F0AAAD;
    x = (x ^ (x >> 15)) * 0x735A2D97;
    x = (x ^ (x >> 15)) + second_half;
    x = (x ^ (x >> 16)) * 0x7FEB352D;
    x = (x ^ (x >> 15)) * 0x846CA68B;
    return x ^ (x >> 16);
}

// Values that are not finite stay as they are.
inline bfloat16 rounded(float x, std::uint32_t random) {
    std::uint32_t bits;
    std::memcpy(&bits, &x, sizeof bits);
    const bool finite = (bits & 0x7F800000) != 0x7F800000;
    const std::uint32_t not_a_number = x != x ? 0x7FC00000 : bits;
    return {static_cast<std::uint16_t>((finite ? bits + (random >> 16) : not_a_number) >> 16)};
}

// Some parameters of a tensor, which are read and written in float or double.
template <class T, Rounding ROUNDING> struct Params {
    T *values;
    T *errors;                  // of earlier roundings; null without them
    std::uint32_t first_half, second_half;  // of the key of this stretch

    Params(T *values, T *errors, std::uint64_t key)
        : values(values), errors(errors), first_half(key), second_half(key >> 32) {}

    Computed<T> get(Index j) const {
        if constexpr (ROUNDING == KAHAN) return widen(values[j]) + widen(errors[j]);
        return widen(values[j]);
    }
    void set(Index j, Computed<T> x) const {
        if constexpr (ROUNDING == STOCHASTIC) {
            values[j] = rounded(x, drawn(j, first_half, second_half));
            return;
        }
        narrow(x, values[j]);
        if constexpr (ROUNDING == KAHAN) narrow(x - widen(values[j]), errors[j]);
    }
};

}  // namespace
