// The chaos detector of tensors that do not fire, as in `decision.observe`.

#pragma once

#include <cmath>
#include <limits>

#include "work.h"

namespace {

struct DetectorTables {  // of each tensor
    const Index *step;   // the address of a float in its state; null where the kernel knows nothing of the detector
    const Index *chaos_start;            // likewise
    const Index *fast, *slow, *reference;  // of numbers as in computations; the last one is null with a raw signal
    const double *gamma, *t_warm;
    const double *tau, *adaptive;  // tau_scale, by which chaos_slow is multiplied, or without that chaos_tau
};

template <class Real> struct Detector {
    const DetectorTables &tables;
    std::vector<double> t, fast, slow, reference;  // after the step

    Detector(Index n, const DetectorTables &tables)
        : tables(tables), t(n), fast(n), slow(n), reference(tables.reference ? n : 0) {
        for (Index i = 0; i < n; ++i) {
            t[i] = *at<float>(tables.step, i, 0) + 1;
            fast[i] = *at<Real>(tables.fast, i, 0), slow[i] = *at<Real>(tables.slow, i, 0);
            if (tables.reference) reference[i] = *at<Real>(tables.reference, i, 0);
        }
    }

    // Without the margin of a relative signal: torch's operations decide about a tensor that may fire.
    bool may_fire(Index i) const {
        const bool spikes = tables.adaptive[i] ? fast[i] > tables.tau[i] * slow[i] : slow[i] >= tables.tau[i];
        return spikes && t[i] - *at<float>(tables.chaos_start, i, 0) > tables.t_warm[i];
    }

    // Returns whether gn is finite; otherwise nothing is remembered of it.
    bool observe(Index i, double gn, double eps) {
        if (!(gn < std::numeric_limits<double>::infinity())) return false;
        const bool starts = tables.reference && reference[i] == 0;
        if (tables.reference) {
            reference[i] = starts ? gn : 0.99 * reference[i] + 0.01 * gn;
            gn /= reference[i] + eps;
        }
        fast[i] = starts ? 1 : 0.90 * fast[i] + 0.10 * gn;
        slow[i] = starts ? 1 : 0.99 * slow[i] + 0.01 * gn;
        return true;
    }

    void write() const {
        for (Index i = 0; i < static_cast<Index>(t.size()); ++i) {
            *at<float>(tables.step, i, 0) = t[i];
            *at<Real>(tables.fast, i, 0) = fast[i], *at<Real>(tables.slow, i, 0) = slow[i];
            if (tables.reference) *at<Real>(tables.reference, i, 0) = reference[i];
        }
    }
};

}  // namespace
