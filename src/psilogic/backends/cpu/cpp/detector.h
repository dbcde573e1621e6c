// The chaos detector of tensors that do not fire, as in `decision.observe`.

#pragma once

#include <cmath>
#include <limits>

#include "work.h"

namespace {

struct DetectorTables {
    // The addresses of five or four scalars of each tensor, one after the other: step, chaos_start, chaos_fast,
    // chaos_slow, chaos_ref, the last one with a relative signal. The first two are float, others as in computations.
    const Index *scalars;  // null without a detector
    const double *relative, *gamma, *t_warm;  // of each tensor
    const double *tau, *adaptive;  // tau_scale, by which chaos_slow is multiplied, or without that chaos_tau
};
#define DETECTOR_ENTRIES "scalars relative gamma t_warm tau adaptive"

template <class Real> struct Detector {
    const DetectorTables &tables;
    const Index n;
    std::vector<double> t, fast, slow, reference;  // after the step

    Detector(Index n, const DetectorTables &tables) : tables(tables), n(n), t(n), fast(n), slow(n), reference(n) {
        for (Index i = 0; i < n; ++i) {
            t[i] = *scalar<float>(0, i) + 1;
            fast[i] = *scalar<Real>(2, i), slow[i] = *scalar<Real>(3, i);
            if (tables.relative[i]) reference[i] = *scalar<Real>(4, i);
        }
    }

    template <class T> T *scalar(Index k, Index i) const { return at<T>(tables.scalars, k * n + i, 0); }

    // Without the margin of a relative signal: torch's operations decide about a tensor that may fire.
    bool may_fire(Index i) const {
        const bool spikes = tables.adaptive[i] ? fast[i] > tables.tau[i] * slow[i] : slow[i] >= tables.tau[i];
        return spikes && t[i] - *scalar<float>(1, i) > tables.t_warm[i];
    }

    // Returns whether gn is finite; otherwise nothing is remembered of it.
    bool observe(Index i, double gn, double eps) {
        if (!(gn < std::numeric_limits<double>::infinity())) return false;
        const bool starts = tables.relative[i] && reference[i] == 0;
        if (tables.relative[i]) {
            reference[i] = starts ? gn : 0.99 * reference[i] + 0.01 * gn;
            gn /= reference[i] + eps;
        }
        fast[i] = starts ? 1 : 0.90 * fast[i] + 0.10 * gn;
        slow[i] = starts ? 1 : 0.99 * slow[i] + 0.01 * gn;
        return true;
    }

    void write() const {
        for (Index i = 0; i < n; ++i) {
            *scalar<float>(0, i) = t[i];
            *scalar<Real>(2, i) = fast[i], *scalar<Real>(3, i) = slow[i];
            if (tables.relative[i]) *scalar<Real>(4, i) = reference[i];
        }
    }
};

}  // namespace
