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

// The squares and sums of adjacent rows of n elements; short ones side by side, in the order of `sum`.
template <class T, bool WITH_ELEMENTS>
void sums_of_rows(const T *x, Index rows, Index n, double *squares, double *elements) {
    using Real = std::conditional_t<WITH_ELEMENTS, double, Computed<T>>;
    const int LANES = 8;
    Index row = 0;
    for (; n < 128 / Index(sizeof(Real)) && row + LANES <= rows; row += LANES) {
        double of_squares[LANES] = {}, of_elements[LANES] = {};
        for (Index j = 0; j < n; ++j)
#pragma GCC unroll 8
            for (int l = 0; l < LANES; ++l) {
                const Real wide = widen(x[(row + l) * n + j]);
                of_squares[l] += wide * wide;
                if (WITH_ELEMENTS) of_elements[l] += wide;
            }
        std::copy_n(of_squares, LANES, squares + row);
        if (WITH_ELEMENTS) std::copy_n(of_elements, LANES, elements + row);
    }
    for (; row < rows; ++row) {
        const Sums found = sums<T, WITH_ELEMENTS>(x + row * n, n);
        squares[row] = found.squares;
        if (WITH_ELEMENTS) elements[row] = found.elements;
    }
}

struct RowTables {
    const Index *tensors, *numels, *units;
    double *squares, *elements;  // one of each row; the last may be null

    std::array<const Index *, 1> columns() const { return {tensors}; }
};
const char *const SUM_ENTRIES = "tensors numels units squares elements";  // those of RowTables, in their order

template <class T, bool WITH_ELEMENTS> void row_sums(Index n, unsigned threads, const RowTables &tables) {
    Work work(n, tables.numels, tables.units);
    work.cut_rows();
    const auto row = [&](const Piece &piece) {
        return work.first_unit[piece.tensor] + piece.from / work.length(piece.tensor);
    };
    std::vector<Sums> parts(work.pieces.size());  // of rows that are split
    share(work.pieces.size(), work.threads(threads), [&](Index k) {
        const Piece &piece = work.pieces[k];
        const Index length = work.length(piece.tensor), count = piece.to - piece.from;
        const T *x = at<const T>(tables.tensors, piece.tensor, piece.from);
        if (work.splits(piece.tensor))
            parts[k] = sums<T, WITH_ELEMENTS>(x, count);
        else
            sums_of_rows<T, WITH_ELEMENTS>(
                x, count / length, length, tables.squares + row(piece),
                WITH_ELEMENTS ? tables.elements + row(piece) : nullptr);
    });
    for (std::size_t k = 0; k < parts.size(); ++k)
        if (const Piece &piece = work.pieces[k]; work.splits(piece.tensor)) {
            tables.squares[row(piece)] += parts[k].squares;
            if (WITH_ELEMENTS) tables.elements[row(piece)] += parts[k].elements;
        }
}

template <class T> Index any_row_sums(Index n, unsigned threads, const RowTables &tables) {
    (tables.elements ? row_sums<T, true> : row_sums<T, false>)(n, threads, tables);
    return 0;
}

}  // namespace
