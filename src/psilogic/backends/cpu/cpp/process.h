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

// AGC, then centralization, as in `gradients.process`; without branches, since rows are processed side by side.
inline Processed process(
    double squares, double elements, double param_squares, Index n, double agc_clip, double factor = 1) {
    const double inf = std::numeric_limits<double>::infinity();
    const double norm = std::sqrt(squares * (factor * factor));
    const double largest = agc_clip * std::max(std::sqrt(param_squares), AGC_FLOOR);
    const double scale = factor * ((agc_clip > 0) & (norm > largest) & (norm < inf) ? largest / norm : 1);
    const double mean = std::abs(elements) < inf ? elements / n : 0;
    const double rest = squares - n * mean * mean;
    return {mean, scale, (rest < NOISE * squares ? 0 : rest) * (scale * scale)};
}

// For each piece of a row that is split over several the processing of that row; otherwise empty.
template <class T>
std::vector<Processed> process_split(
    const Work &work, unsigned threads, const UpdateTables &tables) {
    struct RowSums {
        Sums grads;
        double param_squares = 0;
    };
    std::vector<Index> split;
    for (std::size_t k = 0; k < work.pieces.size(); ++k)
        if (work.splits(work.pieces[k].tensor)) split.push_back(k);
    std::vector<RowSums> parts(split.size());
    share(split.size(), threads, [&](Index j) {
        const auto [i, from, to] = work.pieces[split[j]];
        const T *g = at<T>(tables.grads, i, from), *p = at<T>(tables.params, i, from);
        parts[j].grads = (tables.centered[i] ? sums<T, true> : sums<T, false>)(g, to - from);
        if (!tables.centered[i]) parts[j].grads.elements = 0;
        if (tables.agc_clip[i] > 0) parts[j].param_squares = sums<T, false>(p, to - from).squares;
    });
    std::vector<Processed> rows(work.pieces.size());
    for (std::size_t first = 0, j = 0; j < split.size(); first = j) {
        const Index i = work.pieces[split[first]].tensor, length = work.length(i);
        RowSums row;
        do {
            row.grads.squares += parts[j].grads.squares;
            row.grads.elements += parts[j].grads.elements;
            row.param_squares += parts[j].param_squares;
        } while (work.pieces[split[j++]].to % length);
        const auto whole = process(row.grads.squares, row.grads.elements, row.param_squares, length, tables.agc_clip[i]);
        for (std::size_t k = first; k < j; ++k) rows[split[k]] = {whole.mean, whole.scale, k == first ? whole.squares : 0};
    }
    return rows;
}

// The next rows are fetched into cache while some are updated, in lines; long ones are updated in parts of BLOCK elements.
const Index LINE = 64;

struct Rows {
    double mean[BLOCK], scale[BLOCK], squares[BLOCK];
    void set(Index r, const Processed &row) { mean[r] = row.mean, scale[r] = row.scale, squares[r] = row.squares; }
};

// The processing of the rows between two elements of a tensor.
template <class T>
void process_rows(const UpdateTables &tables, const Piece &piece, Index length, Rows &rows) {
    const Index i = piece.tensor, count = (piece.to - piece.from) / length;
    const T *g = at<T>(tables.grads, i, piece.from), *p = at<T>(tables.params, i, piece.from);
    double squares[BLOCK], elements[BLOCK], param_squares[BLOCK];
    std::fill_n(elements, count, 0), std::fill_n(param_squares, count, 0);
    (tables.centered[i] ? sums_of_rows<T, true> : sums_of_rows<T, false>)(g, count, length, squares, elements);
    const double agc_clip = tables.agc_clip[i];
    if (agc_clip > 0) sums_of_rows<T, false>(p, count, length, param_squares, nullptr);
#pragma omp simd
    for (Index r = 0; r < count; ++r)
        rows.set(r, process(squares[r], elements[r], param_squares[r], length, agc_clip));
}

template <class T> void fetch(const UpdateTables &tables, Index i, Index from, Index to) {
    const bool with_params = tables.agc_clip[i] > 0;
    for (; from < to; from += LINE / sizeof(T)) {
        __builtin_prefetch(at<T>(tables.grads, i, from), 0, 2);
        if (with_params) __builtin_prefetch(at<T>(tables.params, i, from), 0, 2);
    }
}

template <class T, bool QUANTUM, Rounding ROUNDING>
void process_and_update(Index n, unsigned threads, const UpdateTables &tables, const Pass &pass) {
    using Real = Computed<T>;
    Work work(n, tables.numels, tables.units, pass.chosen);
    work.cut_rows();
    threads = work.threads(threads);
    const auto of_split = process_split<T>(work, threads, tables);
    std::vector<double> squares(work.pieces.size());
    share(work.pieces.size(), threads, [&](Index k) {
        auto [i, from, end] = work.pieces[k];
        const Index length = work.length(i), span = length < SHORT ? BLOCK / length * length : length;
        auto x = numbers<Real>(tables, i);
        const bool deferred = pass.defers(i);
        Rows rows;
        Real grads[BLOCK];
        for (Index to; from < end; from = to) {
            to = std::min(end, from + span);
            if (work.splits(i))
                rows.set(0, of_split[k]);
            else
                process_rows<T>(tables, {i, from, to}, length, rows);
            const Index unit = work.first_unit[i] + from / length, count = std::max<Index>(1, (to - from) / length);
            for (Index r = 0; r < count; ++r) squares[k] += rows.squares[r];
            if (tables.mean && from % length == 0) {  // one piece of a split row writes
                std::copy_n(rows.mean, count, tables.mean + unit);
                std::copy_n(rows.scale, count, tables.scale + unit);
            }
            for (Index here = from, next; here < to && !deferred; here = next) {
                next = std::min(to, here + BLOCK);
                fetch<T>(tables, i, here + span, std::min(end, next + span));
                const auto p = params<T, ROUNDING>(tables, i, here, pass.number);
                const T *g = at<T>(tables.grads, i, here);
                T *m = at<T>(tables.exp_avgs, i, here), *v = at<T>(tables.exp_avg_sqs, i, here);
                if (length < SHORT) {
                    process_short(g, 0, next - here, length, rows.mean, rows.scale, grads);
                    update_elements<T, false, QUANTUM>(p, grads, m, v, next - here, x);
                    continue;
                }
                x.mean = static_cast<Real>(rows.mean[0]), x.scale = static_cast<Real>(rows.scale[0]);
                update_elements<T, true, QUANTUM>(p, g, m, v, next - here, x);
            }
        }
    });
    if (pass.norms) write_norms(work, squares, pass.norms);
}

template <class T> void any_process_and_update(Index n, unsigned threads, const UpdateTables &tables, const Pass &pass) {
    with_rounding<T>(tables, [&](auto kind) {
        (tables.quantum_rate ? process_and_update<T, true, kind> : process_and_update<T, false, kind>)(
            n, threads, tables, pass);
    });
}

}  // namespace
