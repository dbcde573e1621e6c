// The whole step of many tensors whose decisions need nothing else.

#pragma once

#include <numeric>

#include "process.h"

namespace {

// The new gn of each tensor, or of its pool, from the norms of the tensors.
inline std::vector<double> scaled_norms(Index n, const UpdateTables &tables, const std::vector<double> &norms) {
    std::vector<double> gn(n);
    const Index *pools = tables.detector.pools;
    const auto gn_of = [](double norm, double numel) { return norm / std::sqrt(std::max(numel, 1.0)); };
    if (!pools) {
        for (Index i = 0; i < n; ++i) gn[i] = gn_of(norms[i], tables.numels[i]);
        return gn;
    }
    const Index count = *std::max_element(pools, pools + n) + 1;
    std::vector<double> squares(count), numels(count);
    for (Index i = 0; i < n; ++i) squares[pools[i]] += norms[i] * norms[i], numels[pools[i]] += tables.numels[i];
    for (Index i = 0; i < n; ++i) gn[i] = gn_of(std::sqrt(squares[pools[i]]), numels[pools[i]]);
    return gn;
}

// Mean and scale of each row, where the gradients are changed, and the norms of the processed gradients.
struct Measured {
    std::vector<double> mean, scale, norms;  // the first two may be empty
};

// The factor of all gradients: their sign, and global clipping as in `gradients.common_factor`.
inline double common_factor(const UpdateTables &tables, const std::vector<double> &squares) {
    const double sign = tables.maximize && *tables.maximize ? -1 : 1;
    if (!tables.max_norm) return sign;
    double total = 0;
    const Index count = squares.size(), part = 1 << 14;
    for (Index from = 0; from < count; from += part)
        total += std::accumulate(&squares[from], &squares[std::min(count, from + part) - 1] + 1, 0.0);
    const double clip = *tables.max_norm / (std::sqrt(total) + 1e-6);
    return clip > 1 ? sign : sign * clip;  // a NaN reaches every tensor
}

template <class T> Measured measure(Index n, unsigned threads, const UpdateTables &tables) {
    const Index count = std::accumulate(tables.units, tables.units + n, Index());
    const bool clips = tables.agc_clip && std::any_of(tables.agc_clip, tables.agc_clip + n, [](double x) { return x > 0; });
    const bool centers = tables.centered && std::any_of(tables.centered, tables.centered + n, [](Index x) { return x; });
    std::vector<double> squares(count), elements(centers ? count : 0), param_squares(clips ? count : 0);
    any_row_sums<T>(
        n, threads, {tables.grads, tables.numels, tables.units, squares.data(), centers ? elements.data() : nullptr});
    if (clips) any_row_sums<T>(n, threads, {tables.params, tables.numels, tables.units, param_squares.data(), nullptr});
    const double factor = common_factor(tables, squares);
    Measured found;
    found.norms.resize(n);
    if (centers) found.mean.resize(count);
    if (clips || factor != 1) found.scale.resize(count);
    const Work work(n, tables.numels, tables.units);
    share(n, work.threads(threads), [&](Index i) {
        const Index length = std::max<Index>(work.length(i), 1);
        const bool centered = centers && tables.centered[i];
        for (Index unit = work.first_unit[i]; unit < work.first_unit[i + 1]; ++unit) {
            const auto row = process(
                squares[unit], centered ? elements[unit] : 0, clips ? param_squares[unit] : 0, length,
                clips ? tables.agc_clip[i] : 0, factor);
            found.norms[i] += row.squares;
            if (centers) found.mean[unit] = row.mean;
            if (!found.scale.empty()) found.scale[unit] = row.scale;
        }
        found.norms[i] = std::sqrt(found.norms[i]);
    });
    return found;
}

// How much each tensor decays.
struct Plan {
    std::vector<double> decay, quantum_rate;
    explicit Plan(Index n) : decay(n), quantum_rate(n) {}
};

template <class T> class Step {
    const Index n;
    const unsigned threads;
    UpdateTables tables;
    Detector<Computed<T>> detector;
    // Not whether a rate is above 0 in this step: loops with and without it may add squares in another order, and a
    // tensor would have other bits next to tensors of another age.
    const bool has_quantum_decay;

    void decide(const std::vector<double> &norms, Plan &plan) {
        const auto gn = scaled_norms(n, tables, norms);
        for (Index i = 0; i < n; ++i) {
            const Decision decision = detector.decide(i, gn[i]);
            plan.decay[i] = decision.decay, plan.quantum_rate[i] = decision.quantum_rate;
        }
    }
    void use(const Plan &plan) {
        tables.decay = plan.decay.data();
        tables.quantum_rate = has_quantum_decay ? plan.quantum_rate.data() : nullptr;
    }
    void update(const Pass &pass) {
        (tables.centered ? any_process_and_update<T> : any_update<T>)(n, threads, tables, pass);
    }

  public:
    Step(Index n, unsigned threads, const UpdateTables &given)
        : n(n),
          threads(threads),
          tables(given),
          detector(n, tables.detector, given.lr, given.weight_decay, given.eps),
          has_quantum_decay(std::any_of(
              given.detector.quantum_decay, given.detector.quantum_decay + n, [](double x) { return x > 0; })) {
        tables.t = detector.t.data();
    }

    // Where all norms must be known before one tensor can be updated: sums, decision, update.
    Index after_norms() {
        Measured found = measure<T>(n, threads, tables);
        Plan plan(n);
        decide(found.norms, plan);
        use(plan);
        tables.mean = found.mean.empty() ? nullptr : found.mean.data();
        tables.scale = found.scale.empty() ? nullptr : found.scale.data();
        any_update<T>(n, threads, tables, {});
        detector.write();
        return 0;
    }

    // In one pass, as if no tensor fired. One that is likely to fire, or whose decay leaves too little to correct, is only
    // measured, and updated after the decision. Another one that fires is corrected then. Returns how many are corrected.
    Index in_one_pass() {
        Plan before(n), after(n);
        std::vector<char> deferred(n), corrected(n);
        std::vector<double> norms(n), lost(n);
        for (Index i = 0; i < n; ++i) {
            before.decay[i] = detector.quiet_decay(i), before.quantum_rate[i] = detector.quiet_rate(i);
            const bool too_large = before.decay[i] >= 0.5 || before.quantum_rate[i] >= 0.5;
            deferred[i] = too_large || detector.is_likely_to_fire(i);
        }
        use(before);
        Pass first;
        first.deferred = deferred.data(), first.norms = norms.data();
        update(first);
        decide(norms, after);
        for (Index i = 0; i < n; ++i) {
            const bool differs = after.decay[i] != before.decay[i] || after.quantum_rate[i] != before.quantum_rate[i];
            corrected[i] = differs && !deferred[i];
            lost[i] = (after.decay[i] - before.decay[i]) / (1 - before.decay[i]);
        }
        Pass second;
        second.number = 1;
        const Index count = std::count(corrected.begin(), corrected.end(), 1);
        if (count) {
            second.chosen = corrected.data();
            tables.decay = lost.data();
            any_cancel<T>(n, threads, tables, second);
        }
        if (std::count(deferred.begin(), deferred.end(), 1)) {
            second.chosen = deferred.data();
            use(after);
            update(second);
        }
        detector.write();
        return count;
    }
};

template <class T> Index step(Index n, unsigned threads, const UpdateTables &given) {
    Step<T> step(n, threads, given);
    return given.max_norm || given.maximize ? step.after_norms() : step.in_one_pass();
}

template <class T> Index decided_update(Index n, unsigned threads, const UpdateTables &given) {
    any_update<T>(n, threads, given, {});
    return 0;
}

}  // namespace
