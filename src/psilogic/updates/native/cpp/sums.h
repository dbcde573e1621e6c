// Sums over the rows of many tensors.

#pragma once

#include "work.h"

namespace {

struct Sums {
    double squares = 0, elements = 0;
};

// Sums in Real, of four vectors at once: adjacent ones, or from four parts of a long row, since several streams are read
// faster than one.
template <class Real, bool WITH_ELEMENTS, class T> Sums sum(const T *x, Index n) {
    const int WIDTH = 32 / sizeof(Real), STREAMS = 4;
    typedef Real Vector __attribute__((vector_size(32)));
    const Index rounds = n / (STREAMS * WIDTH), apart = n < SHORTEST ? WIDTH : rounds * WIDTH;
    const Index step = n < SHORTEST ? STREAMS * WIDTH : WIDTH, together = TILE / (STREAMS * WIDTH);
    Sums total;
    for (Index from = 0; from < rounds; from += together) {
        const Index to = std::min(rounds, from + together);
        Vector squares[STREAMS] = {}, elements[STREAMS] = {};
        for (Index j = from; j < to; ++j)
#pragma GCC unroll 4
            for (int k = 0; k < STREAMS; ++k) {
                Vector wide;
                for (int l = 0; l < WIDTH; ++l) wide[l] = widen(x[j * step + k * apart + l]);
                squares[k] += wide * wide;
                if (WITH_ELEMENTS) elements[k] += wide;
            }
        const Vector all_squares = (squares[0] + squares[1]) + (squares[2] + squares[3]);
        const Vector all_elements = (elements[0] + elements[1]) + (elements[2] + elements[3]);
        for (int l = 0; l < WIDTH; ++l) {
            total.squares += all_squares[l];
            if (WITH_ELEMENTS) total.elements += all_elements[l];
        }
    }
    for (Index j = rounds * STREAMS * WIDTH; j < n; ++j) {
        const Real wide = widen(x[j]);
        total.squares += wide * wide;
        total.elements += wide;
    }
    return total;
}

// If both sums are computed, their difference is needed, and float is not precise enough for it.
template <class T, bool WITH_ELEMENTS> Sums sums(const T *x, Index n) {
    return sum<std::conditional_t<WITH_ELEMENTS, double, Computed<T>>, WITH_ELEMENTS>(x, n);
}

struct RowTables {
    const Index *tensors, *numels, *units;
    double *squares, *elements;  // one of each row; the last may be null
};

template <class T, bool WITH_ELEMENTS> void row_sums(Index n, unsigned threads, const RowTables &tables) {
    Work work(n, tables.numels, tables.units);
    work.cut_rows();
    const auto add = [&](Index i, Index element, const Sums &found) {
        const Index row = work.first_unit[i] + element / work.length(i);
        tables.squares[row] += found.squares;
        if (WITH_ELEMENTS) tables.elements[row] += found.elements;
    };
    std::vector<Sums> parts(work.pieces.size());  // of rows that are split
    share(work.pieces.size(), work.threads(threads), [&](Index k) {
        auto [i, from, to] = work.pieces[k];
        const T *x = at<const T>(tables.tensors, i, 0);
        if (work.splits(i))
            parts[k] = sums<T, WITH_ELEMENTS>(x + from, to - from);
        else
            for (const Index length = work.length(i); from < to; from += length)
                add(i, from, sums<T, WITH_ELEMENTS>(x + from, length));
    });
    for (std::size_t k = 0; k < parts.size(); ++k)
        if (const Piece &piece = work.pieces[k]; work.splits(piece.tensor)) add(piece.tensor, piece.from, parts[k]);
}

template <class T> void any_row_sums(Index n, unsigned threads, const RowTables &tables) {
    (tables.elements ? row_sums<T, true> : row_sums<T, false>)(n, threads, tables);
}

}  // namespace
