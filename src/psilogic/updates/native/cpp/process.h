// AGC and centralization in the pass of the update: a row is summed while the update will find it in cache.

#pragma once

#include <limits>

#include "sums.h"
#include "update.h"

namespace {

// The processing of a row's gradients: g <- scale (g - mean), and the sum of |g|^2 after that.
struct Processed {
    double mean = 0, scale = 1, squares = 0;
};

const double AGC_FLOOR = 1e-3, NOISE = 1000 * std::numeric_limits<double>::epsilon();

// AGC, then centralization, as in `gradients.Statistics.to_processing`.
Processed process(const Sums &grads, double param_squares, Index n, bool centered, double agc_clip) {
    Processed row;
    row.squares = grads.squares;
    const double norm = std::sqrt(grads.squares), largest = agc_clip * std::max(std::sqrt(param_squares), AGC_FLOOR);
    if (agc_clip > 0 && norm > largest && std::isfinite(norm)) row.scale = largest / norm;
    if (centered) {
        const double mean = grads.elements / n;
        if (std::isfinite(mean)) row.mean = mean;
        row.squares -= n * row.mean * row.mean;
        if (row.squares < NOISE * grads.squares) row.squares = 0;
    }
    row.squares *= row.scale * row.scale;
    return row;
}

struct RowSums {
    Sums grads;
    double param_squares = 0;
};

template <class T> RowSums measure(const UpdateTables &tables, const Hyperparameters &h, const Piece &piece) {
    const Index i = piece.tensor, n = piece.to - piece.from;
    const T *g = at<T>(tables.grads, i, piece.from), *p = at<T>(tables.params, i, piece.from);
    RowSums found;
    found.grads = (tables.centered[i] ? sums<T, true> : sums<T, false>)(g, n);
    if (h.agc_clip > 0) found.param_squares = sums<T, false>(p, n).squares;
    return found;
}

// For each piece the processing of its row if that is split over several pieces; otherwise empty.
template <class T>
std::vector<Processed> process_split(
    const Work &work, unsigned threads, const UpdateTables &tables, const Hyperparameters &h) {
    std::vector<Index> split;
    for (std::size_t k = 0; k < work.pieces.size(); ++k)
        if (work.splits(work.pieces[k].tensor)) split.push_back(k);
    std::vector<RowSums> parts(split.size());
    share(split.size(), threads, [&](Index j) { parts[j] = measure<T>(tables, h, work.pieces[split[j]]); });
    std::vector<Processed> rows(work.pieces.size());
    for (std::size_t first = 0, j = 0; j < split.size(); first = j) {
        const Index i = work.pieces[split[first]].tensor, length = work.length(i);
        RowSums row;
        do {
            row.grads.squares += parts[j].grads.squares;
            row.grads.elements += parts[j].grads.elements;
            row.param_squares += parts[j].param_squares;
        } while (work.pieces[split[j++]].to % length);
        const Processed whole = process(row.grads, row.param_squares, length, tables.centered[i], h.agc_clip);
        for (std::size_t k = first; k < j; ++k) rows[split[k]] = {whole.mean, whole.scale, k == first ? whole.squares : 0};
    }
    return rows;
}

// The next row is fetched into cache while this one is updated, in blocks of elements.
const Index STRETCH = 256, LINE = 64;  // bytes in a line of cache

template <class T> void fetch(const UpdateTables &tables, const Hyperparameters &h, Index i, Index from, Index to) {
    for (; from < to; from += LINE / sizeof(T)) {
        __builtin_prefetch(at<T>(tables.grads, i, from), 0, 2);
        if (h.agc_clip > 0) __builtin_prefetch(at<T>(tables.params, i, from), 0, 2);
    }
}

template <class T, bool QUANTUM>
void process_and_update(Index n, unsigned threads, const UpdateTables &tables, const Hyperparameters &h) {
    using Real = Computed<T>;
    const auto elements = update_of_elements<T, true, QUANTUM>(h);
    Work work(n, tables.numels, tables.units);
    work.cut_rows();
    threads = work.threads(threads);
    const auto of_split = process_split<T>(work, threads, tables, h);
    std::vector<double> squares(work.pieces.size());
    share(work.pieces.size(), threads, [&](Index k) {
        auto [i, from, end] = work.pieces[k];
        const Index length = work.length(i);
        auto x = numbers<Real>(tables, h, i);
        while (from < end) {
            const Index to = std::min(end, from + length);
            Processed row = of_split[k];
            if (!work.splits(i)) {
                const RowSums found = measure<T>(tables, h, {i, from, to});
                row = process(found.grads, found.param_squares, length, tables.centered[i], h.agc_clip);
            }
            const Index unit = work.first_unit[i] + from / length;
            if (tables.mean && from % length == 0) tables.mean[unit] = row.mean;
            if (tables.scale && from % length == 0) tables.scale[unit] = row.scale;
            x.mean = static_cast<Real>(row.mean), x.scale = static_cast<Real>(row.scale);
            squares[k] += row.squares;
            const bool waits = tables.waits && tables.waits[i];
            for (Index here = from, next; here < to && !waits; here = next) {
                next = std::min(to, here + STRETCH);
                fetch<T>(tables, h, i, here + length, std::min(end, next + length));
                elements(
                    at<T>(tables.params, i, here), at<T>(tables.grads, i, here), at<T>(tables.exp_avgs, i, here),
                    at<T>(tables.exp_avg_sqs, i, here), next - here, x);
            }
            from = to;
        }
    });
    for (std::size_t k = 0; k < squares.size(); ++k) tables.squares[work.pieces[k].tensor] += squares[k];
}

template <class T>
void any_process_and_update(Index n, unsigned threads, const UpdateTables &tables, const Hyperparameters &h) {
    (tables.quantum_rate ? process_and_update<T, true> : process_and_update<T, false>)(n, threads, tables, h);
}

}  // namespace
