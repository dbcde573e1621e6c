// The chaos detector, as in `decision.equations`: from the norms of gradients to the decay of each tensor.

#pragma once

#include <cmath>
#include <limits>

#include "work.h"

namespace {

struct DetectorTables {  // of each tensor
    // The addresses of five or four scalars of each tensor, one after the other: step, chaos_start, chaos_fast,
    // chaos_slow, chaos_ref, the last one with a relative signal. The first two are float, others as in computations.
    const Index *scalars;
    const double *relative, *gamma, *p_ext, *max_cancel, *quantum_decay, *T_max, *t_warm;
    const double *tau, *adaptive;  // tau_scale, by which chaos_slow is multiplied, or without that chaos_tau
    const Index *pools;            // the pool of each tensor, whose norms count together; null without pools
    double *decisions;             // a result, one row for each quantity of Decision; may be null
};
#define DETECTOR_ENTRIES "scalars relative gamma p_ext max_cancel quantum_decay T_max t_warm tau adaptive pools decisions"

// Those of `Decision` in step.py, in the order of DECISION_ROWS in whole_step.py.
struct Decision {
    double decay, quantum_rate, gn, fast, slow, reference, ratio, chaos, gate, warmup, cancellation;
};

template <class Real> class Detector {
    const DetectorTables &tables;
    const double *lr, *weight_decay, *eps;
    const Index n;

  public:
    std::vector<double> t, fast, slow, reference;  // after the step

    Detector(Index n, const DetectorTables &tables, const double *lr, const double *weight_decay, const double *eps)
        : tables(tables), lr(lr), weight_decay(weight_decay), eps(eps), n(n), t(n), fast(n), slow(n), reference(n) {
        for (Index i = 0; i < n; ++i) {
            t[i] = *scalar<float>(0, i) + 1;
            fast[i] = *scalar<Real>(2, i), slow[i] = *scalar<Real>(3, i);
            if (tables.relative[i]) reference[i] = *scalar<Real>(4, i);
        }
    }

    // Whether the tensor will spike if its memory stays as it is: the fast average, once above the gate, needs several
    // steps to fall below it.
    bool is_likely_to_fire(Index i) const {
        const bool acts = tables.gamma[i] > 0 || tables.quantum_decay[i] > 0;
        return acts && warmup(i) > 0 && spikes(i);
    }
    double quiet_decay(Index i) const { return lr[i] * weight_decay[i]; }
    double quiet_rate(Index i) const {  // equation 4, where the tensor does not spike
        return lr[i] * (tables.quantum_decay[i] * schedule(i)) * warmup(i);
    }

    // The effect of this step on a tensor whose gradients have the norm gn sqrt(numel); gn is remembered.
    Decision decide(Index i, double gn) {
        const bool known = gn < std::numeric_limits<double>::infinity();
        if (known) observe(i, gn);
        Decision x;
        x.gn = gn, x.fast = fast[i], x.slow = slow[i], x.reference = reference[i];
        x.ratio = fast[i] / (slow[i] + eps[i]);
        const double excess = x.ratio > 1 ? x.ratio - 1 : 0;
        x.chaos = std::tanh(slow[i]) * (1 + 0.5 * std::tanh(excess));
        x.gate = spikes(i);
        x.warmup = known ? warmup(i) : 0;
        const double strength = lr[i] * (tables.gamma[i] * schedule(i)) * tables.p_ext[i] * x.chaos;  // equation 2
        const double bounded = strength > tables.max_cancel[i] ? tables.max_cancel[i] : strength;
        x.cancellation = x.warmup * (x.gate ? bounded : 0);
        x.decay = quiet_decay(i) + x.cancellation;  // equation 3
        x.quantum_rate = x.gate || !known ? 0 : quiet_rate(i);
        if (tables.decisions) std::memcpy(rows.data(), &x, sizeof x);
        for (std::size_t k = 0; tables.decisions && k < rows.size(); ++k) tables.decisions[k * n + i] = rows[k];
        return x;
    }

    void write() const {
        for (Index i = 0; i < n; ++i) {
            *scalar<float>(0, i) = t[i];
            *scalar<Real>(2, i) = fast[i], *scalar<Real>(3, i) = slow[i];
            if (tables.relative[i]) *scalar<Real>(4, i) = reference[i];
        }
    }

  private:
    std::array<double, sizeof(Decision) / sizeof(double)> rows;

    template <class T> T *scalar(Index k, Index i) const { return at<T>(tables.scalars, k * n + i, 0); }

    bool spikes(Index i) const {
        if (!tables.adaptive[i]) return slow[i] >= tables.tau[i];
        const double margin = tables.relative[i] ? eps[i] : 0;
        return fast[i] > tables.tau[i] * slow[i] + margin;
    }
    double warmup(Index i) const {
        const double t_warm = tables.t_warm[i], age = t[i] - *scalar<float>(1, i);
        return t_warm == 0 ? 1 : std::clamp((age - t_warm) / (t_warm / 4), 0.0, 1.0);
    }
    double schedule(Index i) const {
        const double T_max = tables.T_max[i];
        return T_max == 0 ? 1 : 0.5 * (1 + std::cos(3.14159265358979323846 * std::min(t[i] / T_max, 1.0)));
    }
    void observe(Index i, double gn) {
        const bool starts = tables.relative[i] && reference[i] == 0;
        if (tables.relative[i]) {
            reference[i] = starts ? gn : 0.99 * reference[i] + 0.01 * gn;
            gn /= reference[i] + eps[i];
        }
        fast[i] = starts ? 1 : 0.90 * fast[i] + 0.10 * gn;
        slow[i] = starts ? 1 : 0.99 * slow[i] + 0.01 * gn;
    }
};

}  // namespace
