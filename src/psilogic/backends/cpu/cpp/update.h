// The update of many tensors, and the cancellation that an early update left out.

#pragma once

#include <cmath>

#include "detector.h"
#include "rounding.h"
#include "sums.h"
#include "work.h"

namespace {

// a b + c, with one rounding where the processor has such an instruction. Torch's kernels round twice elsewhere.
template <class Real> inline Real multiply_add(Real a, Real b, Real c) {
#if defined(__FMA__) || defined(__aarch64__)
    return std::fma(a, b, c);
#else
    return a * b + c;
#endif
}

// exp(-2x) for x >= 0. In float 2^y, by a polynomial around the nearest whole number: off by less than 2e-7.
inline double decaying(double x) { return std::exp(-2 * x); }
inline float decaying(float x) {
    const float y = std::max(-126.0f, x * -2.8853900817779268f);  // -2 / log(2); -126 for NaN
    const float whole = (y + 0x1.8p23f) - 0x1.8p23f, z = (y - whole) * 0.69314718056f;  // rint, which some processors lack
    const float high = multiply_add(multiply_add(multiply_add(1 / 720.f, z, 1 / 120.f), z, 1 / 24.f), z, 1 / 6.f);
    const float fraction = multiply_add(multiply_add(multiply_add(high, z, 0.5f), z, 1.0f), z, 1.0f);
    const std::int32_t bits = (static_cast<std::int32_t>(whole) + 127) << 23;
    float power;
    std::memcpy(&power, &bits, sizeof power);
    return fraction * power;
}

// tanh|g|, exactly 0 for 0; digits of a small one are lost, which the factor 1 - rate tanh|g| would not have.
template <class Real> inline Real tanh_of_size(Real g) {
    const Real e = decaying(std::abs(g));
    return (1 - e) / (1 + e);
}

// Rows shorter than SHORT, of which two or more have BLOCK elements together, are processed side by side.
const Index BLOCK = 256, SHORT = BLOCK / 2 + 1;

// The numbers that all elements of a tensor, or of a row, share.
template <class Real> struct Numbers {
    Real keep, quantum_rate, weight1, beta2, weight2, step_size, root2, eps, mean = 0, scale = 1;
    bool far;  // whether the first moment is nearer to the gradient than to its value before
};

// lr m_hat / (sqrt(v_hat) + eps)
template <class Real> inline Real descent(Real exp_avg, Real exp_avg_sq, const Numbers<Real> &x) {
    return x.step_size * exp_avg / (std::sqrt(exp_avg_sq) / x.root2 + x.eps);
}

template <bool PROCESSED, bool QUANTUM, class P, class G>
float update_converted(const P &p, const G *g, float16 *m, float16 *v, Index n, const Numbers<float> &x);

// Returns the sum of the squares of the unprocessed gradients. Multiplications and additions are fused where torch's
// kernel fuses them, and lerp starts from the nearer end (FAR: the gradient), so that elements equal AdamW's.
template <class T, bool PROCESSED, bool QUANTUM, bool FAR, class P, class G, class Real = Computed<T>>
Real update_by_lerp(const P p, const G *g, T *m, T *v, Index n, const Numbers<Real> x) {
    Real squares = 0;
#pragma omp simd reduction(+ : squares)
    for (Index j = 0; j < n; ++j) {
        Real grad = widen(g[j]), theta = p.get(j) * x.keep;
        squares += grad * grad;
        if (PROCESSED) grad = (grad - x.mean) * x.scale;
        if (QUANTUM) theta *= 1 - x.quantum_rate * tanh_of_size(grad);
        const Real before = widen(m[j]), change = grad - before;
        const Real exp_avg = FAR ? multiply_add(x.weight1 - 1, change, grad) : multiply_add(x.weight1, change, before);
        const Real exp_avg_sq = multiply_add(x.weight2 * grad, grad, widen(v[j]) * x.beta2);
        p.set(j, theta - descent(exp_avg, exp_avg_sq, x));
        narrow(exp_avg, m[j]);
        narrow(exp_avg_sq, v[j]);
    }
    return squares;
}

template <class T, bool PROCESSED, bool QUANTUM, class P, class G, class Real = Computed<T>>
Real update_elements(const P &p, const G *g, T *m, T *v, Index n, const Numbers<Real> &x) {
    if constexpr (std::is_same_v<T, float16>) return update_converted<PROCESSED, QUANTUM>(p, g, m, v, n, x);
    return x.far ? update_by_lerp<T, PROCESSED, QUANTUM, true>(p, g, m, v, n, x)
                 : update_by_lerp<T, PROCESSED, QUANTUM, false>(p, g, m, v, n, x);
}

// Blocks of float16 are converted before and after: one element after the other would take four times as long.
template <bool PROCESSED, bool QUANTUM, class P, class G>
float update_converted(const P &p, const G *g, float16 *m, float16 *v, Index n, const Numbers<float> &x) {
    float squares = 0, params[BLOCK], grads[BLOCK], exp_avgs[BLOCK], exp_avg_sqs[BLOCK];
    for (Index from = 0; from < n; from += BLOCK) {
        const Index count = std::min(BLOCK, n - from);
        convert(p.values + from, params, count);
        convert(g + from, grads, count);
        convert(m + from, exp_avgs, count);
        convert(v + from, exp_avg_sqs, count);
        const Params<float, NEAREST> in_float(params, nullptr, 0);
        squares += update_elements<float, PROCESSED, QUANTUM>(in_float, grads, exp_avgs, exp_avg_sqs, count, x);
        convert(params, p.values + from, count);
        convert(exp_avgs, m + from, count);
        convert(exp_avg_sqs, v + from, count);
    }
    return squares;
}

// After an update to p: p plus the descent is the parameter after decay and quantum decay. It loses a share of that, and
// quantum decay is undone: the share is 1 - (1 - lost) / (1 - rate tanh|g|).
template <class T, bool QUANTUM, class P, class G, class Real = Computed<T>>
void cancel_elements(const P p, const G *g, const T *m, const T *v, Index n, Real lost, const Numbers<Real> x) {
#pragma omp simd
    for (Index j = 0; j < n; ++j) {
        Real theta = p.get(j), share = lost;
        if (QUANTUM) {
            const Real taken = x.quantum_rate * tanh_of_size((widen(g[j]) - x.mean) * x.scale);
            share = (lost - taken) / (1 - taken);
        }
        p.set(j, theta - share * (theta + descent<Real>(widen(m[j]), widen(v[j]), x)));
    }
}

struct UpdateTables {  // of each tensor, but for mean and scale, which are of each row
    const Index *params, *grads, *exp_avgs, *exp_avg_sqs;
    const Index *errors;    // the compensations of rounding; null without them
    const Index *rounding;  // two numbers for all tensors: a Rounding, and what it draws from; null for NEAREST
    const Index *numels, *units;
    const double *t, *decay;     // to cancel, decay is the additional loss
    const double *quantum_rate;  // may be null
    const double *lr, *weight_decay, *eps, *beta1, *beta2;
    const Index *centered;   // whether each row loses its mean; may be null
    const double *agc_clip;  // may be null
    double *mean, *scale;    // may be null; results if the pass of the update computes them
    // Of a whole step only.
    const double *max_norm, *maximize;  // of all tensors; may be null
    DetectorTables detector;

    std::array<const Index *, 5> columns() const { return {params, grads, exp_avgs, exp_avg_sqs, errors}; }
    Index kind_of_rounding() const { return rounding ? rounding[0] : NEAREST; }
};

// The entries of UpdateTables, in their order: kernels.py fills the table by these names.
const char *const UPDATE_ENTRIES =
    "params grads exp_avgs exp_avg_sqs errors rounding numels units t decay quantum_rate lr weight_decay eps beta1 beta2 "
    "centered agc_clip mean scale max_norm maximize " DETECTOR_ENTRIES;

// Parameters of one tensor from one element, for a pass that draws other numbers than other passes.
template <class T, Rounding ROUNDING>
Params<T, ROUNDING> params(const UpdateTables &tables, Index i, Index from, std::uint64_t pass) {
    const std::uint64_t seed = ROUNDING == STOCHASTIC ? mixed(mixed(tables.rounding[1] + pass) + i) + from : 0;
    return {at<T>(tables.params, i, from), ROUNDING == KAHAN ? at<T>(tables.errors, i, from) : nullptr, mixed(seed)};
}

// Calls run with a constant for each of the kinds of rounding that a dtype has.
template <class T, class Run> void with_rounding(const UpdateTables &tables, const Run &run) {
    if constexpr (std::is_same_v<T, bfloat16>) {
        if (tables.kind_of_rounding() == KAHAN) return run(std::integral_constant<Rounding, KAHAN>());
        if (tables.kind_of_rounding() == STOCHASTIC) return run(std::integral_constant<Rounding, STOCHASTIC>());
    }
    run(std::integral_constant<Rounding, NEAREST>());
}

template <class Real> Numbers<Real> numbers(const UpdateTables &tables, Index i) {
    const double beta1 = tables.beta1[i], beta2 = tables.beta2[i];
    Numbers<Real> x;
    x.keep = static_cast<Real>(1 - tables.decay[i]);
    x.quantum_rate = tables.quantum_rate ? static_cast<Real>(tables.quantum_rate[i]) : 0;
    x.weight1 = static_cast<Real>(1 - beta1);
    x.far = 1 - beta1 >= 0.5;
    x.beta2 = static_cast<Real>(beta2);
    x.weight2 = static_cast<Real>(1 - beta2);
    x.step_size = static_cast<Real>(tables.lr[i] / (1 - std::pow(beta1, tables.t[i])));
    x.root2 = static_cast<Real>(std::sqrt(1 - std::pow(beta2, tables.t[i])));
    x.eps = static_cast<Real>(tables.eps[i]);
    return x;
}

// The processed gradients of at most BLOCK elements from one element of a tensor, whose rows are short. Mean and scale
// are those of the row of the first element and of the next ones; null for 0 and 1.
template <class T, class Real = Computed<T>>
void process_short(
    const T *gradients, Index from, Index to, Index length, const double *mean, const double *scale, Real *processed) {
    for (Index row = 0, end = (from / length + 1) * length, j = from; j < to; ++row, end += length) {
        const Real of_mean = mean ? static_cast<Real>(mean[row]) : 0;
        const Real of_scale = scale ? static_cast<Real>(scale[row]) : 1;
        for (const Index last = std::min(to, end); j < last; ++j)
            processed[j - from] = (widen(gradients[j]) - of_mean) * of_scale;
    }
}

// Calls run(gradients, from, to, numbers) for stretches of a piece whose elements share the numbers. Gradients of short
// rows are processed before; those of others, at most TILE elements of one row, are not.
template <class T, class Run>
void for_stretches(const Work &work, const UpdateTables &tables, const Piece &piece, const Run &run) {
    using Real = Computed<T>;
    const auto [i, begin, end] = piece;
    const Index length = work.length(i);
    const bool by_rows = tables.mean || tables.scale;
    auto x = numbers<Real>(tables, i);
    Real processed[BLOCK];
    for (Index from = begin, to; from < end; from = to) {
        const Index row = by_rows ? from / length : 0, unit = work.first_unit[i] + row;
        const double *mean = tables.mean ? tables.mean + unit : nullptr;
        const double *scale = tables.scale ? tables.scale + unit : nullptr;
        if (by_rows && length < SHORT) {
            to = std::min(end, from + BLOCK);
            process_short(at<T>(tables.grads, i, 0), from, to, length, mean, scale, processed);
            run(processed, from, to, x);
            continue;
        }
        if (mean) x.mean = static_cast<Real>(*mean);
        if (scale) x.scale = static_cast<Real>(*scale);
        to = std::min(from + TILE, by_rows ? std::min(end, (row + 1) * length) : end);
        run(at<T>(tables.grads, i, from), from, to, x);
    }
}

// The norm of each tensor from the squares of its pieces. Torch's sqrt may round to another number.
inline void write_norms(const Work &work, const std::vector<double> &squares, double *norms) {
    for (std::size_t k = 0; k < squares.size(); ++k) norms[work.pieces[k].tensor] += squares[k];
    for (Index i = 0; i < work.n; ++i) norms[i] = std::sqrt(norms[i]);
}

// What a pass does: to which tensors, of which it only sums the gradients, and where it writes their norms.
struct Pass {
    Chosen chosen = nullptr, deferred = nullptr;
    double *norms = nullptr;  // they are 0 before; may be null
    Index number = 0;         // of the pass in its step, for what rounding draws

    bool defers(Index i) const { return deferred && deferred[i]; }
};

template <class T, bool PROCESSED, bool QUANTUM, Rounding ROUNDING>
void update(Index n, unsigned threads, const UpdateTables &tables, const Pass &pass) {
    Work work(n, tables.numels, tables.units, pass.chosen);
    work.cut_anywhere();
    std::vector<double> squares(work.pieces.size());
    share(work.pieces.size(), work.threads(threads), [&](Index k) {
        const auto [i, begin, end] = work.pieces[k];
        if (pass.defers(i)) {
            squares[k] = sums<T, false>(at<T>(tables.grads, i, begin), end - begin).squares;
            return;
        }
        for_stretches<T>(work, tables, work.pieces[k], [&, i = i](const auto *g, Index from, Index to, const auto &x) {
            T *m = at<T>(tables.exp_avgs, i, from), *v = at<T>(tables.exp_avg_sqs, i, from);
            const auto p = params<T, ROUNDING>(tables, i, from, pass.number);
            squares[k] += update_elements<T, PROCESSED, QUANTUM>(p, g, m, v, to - from, x);
        });
    });
    if (pass.norms) write_norms(work, squares, pass.norms);
}

template <class T> void any_update(Index n, unsigned threads, const UpdateTables &tables, const Pass &pass) {
    with_rounding<T>(tables, [&](auto kind) {
        if (tables.mean || tables.scale)
            (tables.quantum_rate ? update<T, true, true, kind> : update<T, true, false, kind>)(n, threads, tables, pass);
        else
            (tables.quantum_rate ? update<T, false, true, kind> : update<T, false, false, kind>)(n, threads, tables, pass);
    });
}

template <class T, bool QUANTUM, Rounding ROUNDING>
void cancel(Index n, unsigned threads, const UpdateTables &tables, const Pass &pass) {
    Work work(n, tables.numels, tables.units, pass.chosen);
    work.cut_anywhere();
    share(work.pieces.size(), work.threads(threads), [&](Index k) {
        const Index i = work.pieces[k].tensor;
        const auto lost = static_cast<Computed<T>>(tables.decay[i]);
        for_stretches<T>(work, tables, work.pieces[k], [&](const auto *g, Index from, Index to, const auto &x) {
            const T *m = at<T>(tables.exp_avgs, i, from), *v = at<T>(tables.exp_avg_sqs, i, from);
            cancel_elements<T, QUANTUM>(params<T, ROUNDING>(tables, i, from, pass.number), g, m, v, to - from, lost, x);
        });
    });
}

template <class T> void any_cancel(Index n, unsigned threads, const UpdateTables &tables, const Pass &pass) {
    with_rounding<T>(tables, [&](auto kind) {
        (tables.quantum_rate ? cancel<T, true, kind> : cancel<T, false, kind>)(n, threads, tables, pass);
    });
}

}  // namespace
