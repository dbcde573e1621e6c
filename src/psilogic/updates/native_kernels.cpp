// The kernels of updates/native.py: sums over the rows of many tensors, and the update of many tensors, one call each.
//
// Of tensors they get addresses, so that nothing of torch is needed to build them; they run on the threads that torch
// runs its own operations on. Elements are computed in float, those of double tensors in double. Which thread does what
// is left to chance, the order of additions is not.

#define PY_SSIZE_T_CLEAN
#define Py_LIMITED_API 0x030A0000
#include <Python.h>
#include <dlfcn.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <new>
#include <type_traits>
#include <vector>

namespace {

using Index = std::int64_t;

// Numbers as they lie in memory, and as they are computed with

struct bfloat16 {
    std::uint16_t bits;
};

template <class T> using Computed = std::conditional_t<std::is_same_v<T, bfloat16>, float, T>;

inline float widen(float x) { return x; }
inline double widen(double x) { return x; }
inline float widen(bfloat16 x) {
    const std::uint32_t bits = static_cast<std::uint32_t>(x.bits) << 16;
    float wide;
    std::memcpy(&wide, &bits, sizeof wide);
    return wide;
}

inline void narrow(float x, float &to) { to = x; }
inline void narrow(double x, double &to) { to = x; }
inline void narrow(float x, bfloat16 &to) {  // to nearest, ties to even
    std::uint32_t bits;
    std::memcpy(&bits, &x, sizeof bits);
    to.bits = static_cast<std::uint16_t>(x != x ? 0x7FC0 : (bits + 0x7FFF + ((bits >> 16) & 1)) >> 16);
}

// Work and threads

using Parallel = void (*)(void (*)(void *), void *, unsigned, unsigned);
Parallel parallel = nullptr;  // how OpenMP starts threads for GNU's compilers, from the library that torch has loaded

// Calls work(i) for each i below count.
template <class Work> void share(Index count, unsigned threads, const Work &work) {
    struct Shared {
        const Work &work;
        const Index count;
        std::atomic<Index> next;
    } shared{work, count, {0}};
    const auto run = [](void *argument) {
        auto &mine = *static_cast<Shared *>(argument);
        for (Index i; (i = mine.next.fetch_add(1, std::memory_order_relaxed)) < mine.count;) mine.work(i);
    };
    if (threads > 1 && count > 1)
        parallel(run, &shared, threads, 0);
    else
        run(&shared);
}

const Index SERIAL = 1 << 15;  // so few elements are not worth a second thread
const Index PIECES = 64, SHORTEST = 1 << 14, LONGEST = 1 << 21;  // about so many pieces, of so many elements
const Index TILE = 1 << 11;  // as many squares as float can add without a loss

struct Piece {
    Index tensor, from, to;  // elements of the tensor
};

// N tensors with numels[i] elements in units[i] rows each, cut into pieces.
struct Work {
    Index n, total = 0, size;
    const Index *numels, *units;
    std::vector<Index> first_unit;  // the number of rows in all tensors before this one
    std::vector<Piece> pieces;

    Work(Index n, const Index *numels, const Index *units) : n(n), numels(numels), units(units), first_unit(n + 1) {
        for (Index i = 0; i < n; ++i) total += numels[i], first_unit[i + 1] = first_unit[i] + units[i];
        size = std::clamp(total / PIECES, SHORTEST, LONGEST);
    }
    Index length(Index i) const { return units[i] ? numels[i] / units[i] : 0; }
    bool splits(Index i) const { return length(i) > size; }
    unsigned threads(unsigned wanted) const { return total < SERIAL ? 1 : wanted; }

    void cut(Index i, Index from, Index to, Index step) {
        for (; from < to; from += step) pieces.push_back({i, from, std::min(to, from + step)});
    }
    void cut_anywhere() {
        for (Index i = 0; i < n; ++i) cut(i, 0, numels[i], size);
    }
    // So that a piece holds whole rows, or a part of one row.
    void cut_rows() {
        for (Index i = 0; i < n; ++i)
            if (const Index row = length(i); !splits(i))
                cut(i, 0, numels[i], row ? size / row * row : 1);
            else
                for (Index from = 0; from < numels[i]; from += row) cut(i, from, from + row, size);
    }
};

template <class T> T *at(const Index *tensors, Index i, Index element) {
    return reinterpret_cast<T *>(tensors[i]) + element;
}

// Sums over rows

struct Sums {
    double squares = 0, elements = 0;
};

// Sums in Real, of four vectors at once: side by side, or of a long row from four stretches, since memory delivers
// several streams faster than one.
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

struct RowTables {
    const Index *tensors, *numels, *units;
    double *squares, *elements;  // one of each row; the last may be null
};

template <class T, bool WITH_ELEMENTS> void row_sums(Index n, unsigned threads, const RowTables &tables) {
    using Real = std::conditional_t<WITH_ELEMENTS, double, Computed<T>>;  // a difference of the two sums is wanted
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
            parts[k] = sum<Real, WITH_ELEMENTS>(x + from, to - from);
        else
            for (const Index length = work.length(i); from < to; from += length)
                add(i, from, sum<Real, WITH_ELEMENTS>(x + from, length));
    });
    for (std::size_t k = 0; k < parts.size(); ++k)
        if (const Piece &piece = work.pieces[k]; work.splits(piece.tensor)) add(piece.tensor, piece.from, parts[k]);
}

template <class T> void any_row_sums(Index n, unsigned threads, const RowTables &tables) {
    (tables.elements ? row_sums<T, true> : row_sums<T, false>)(n, threads, tables);
}

// The update

// exp(-2x) for x >= 0. In float 2^y, by a polynomial around the nearest whole number: off by less than 2e-7.
inline double decaying(double x) { return std::exp(-2 * x); }
inline float decaying(float x) {
    const float y = std::max(-126.0f, x * -2.8853900817779268f);  // -2 / log(2); -126 for NaN
    const float whole = std::rint(y), z = (y - whole) * 0.69314718056f;
    const float high = std::fma(std::fma(std::fma(1 / 720.f, z, 1 / 120.f), z, 1 / 24.f), z, 1 / 6.f);
    const float fraction = std::fma(std::fma(std::fma(high, z, 0.5f), z, 1.0f), z, 1.0f);
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

// What all elements of a tensor share, or of a row.
template <class Real> struct Numbers {
    Real keep, quantum_rate, weight1, beta2, weight2, step_size, root2, eps, mean = 0, scale = 1;
};

// lr m_hat / (sqrt(v_hat) + eps)
template <class Real> inline Real descent(Real exp_avg, Real exp_avg_sq, const Numbers<Real> &x) {
    return x.step_size * exp_avg / (std::sqrt(exp_avg_sq) / x.root2 + x.eps);
}

// Returns the sum of the squares of the gradients as they were. Multiplications and additions are fused where torch's
// kernel fuses them, and lerp starts from the nearer end (FAR: the gradient), so that elements come out as AdamW's.
template <class T, bool PROCESSED, bool QUANTUM, bool FAR, class Real = Computed<T>>
Real update_elements(T *p, const T *g, T *m, T *v, Index n, const Numbers<Real> x) {
    Real squares = 0;
#pragma omp simd reduction(+ : squares)
    for (Index j = 0; j < n; ++j) {
        Real grad = widen(g[j]), theta = widen(p[j]) * x.keep;
        squares += grad * grad;
        if (PROCESSED) grad = (grad - x.mean) * x.scale;
        if (QUANTUM) theta *= 1 - x.quantum_rate * tanh_of_size(grad);
        const Real before = widen(m[j]), change = grad - before;
        const Real exp_avg = FAR ? std::fma(x.weight1 - 1, change, grad) : std::fma(x.weight1, change, before);
        const Real exp_avg_sq = std::fma(x.weight2 * grad, grad, widen(v[j]) * x.beta2);
        narrow(theta - descent(exp_avg, exp_avg_sq, x), p[j]);
        narrow(exp_avg, m[j]);
        narrow(exp_avg_sq, v[j]);
    }
    return squares;
}

// After an update that took a parameter to p: with what it descended by, it is what decay and quantum decay had left.
// Of that it loses a share, and gets back what quantum decay took, 1 - (1 - lost) / (1 - rate tanh|g|).
template <class T, bool QUANTUM, class Real = Computed<T>>
void cancel_elements(T *p, const T *g, const T *m, const T *v, Index n, Real lost, const Numbers<Real> x) {
#pragma omp simd
    for (Index j = 0; j < n; ++j) {
        Real theta = widen(p[j]), share = lost;
        if (QUANTUM) {
            const Real taken = x.quantum_rate * tanh_of_size((widen(g[j]) - x.mean) * x.scale);
            share = (lost - taken) / (1 - taken);
        }
        narrow(theta - share * (theta + descent<Real>(widen(m[j]), widen(v[j]), x)), p[j]);
    }
}

struct UpdateTables {
    const Index *params, *grads, *exp_avgs, *exp_avg_sqs, *numels, *units, *centered;
    const double *t, *decay, *quantum_rate;  // of each tensor
    double *mean, *scale;                    // of each row; these two and the rate may be null
    double *squares;                         // of each tensor
};

struct Hyperparameters {
    double lr, beta1, beta2, eps, agc_clip;
};

template <class Real> Numbers<Real> numbers(const UpdateTables &tables, const Hyperparameters &h, Index i) {
    Numbers<Real> x;
    x.keep = static_cast<Real>(1 - tables.decay[i]);
    x.quantum_rate = tables.quantum_rate ? static_cast<Real>(tables.quantum_rate[i]) : 0;
    x.weight1 = static_cast<Real>(1 - h.beta1);
    x.beta2 = static_cast<Real>(h.beta2);
    x.weight2 = static_cast<Real>(1 - h.beta2);
    x.step_size = static_cast<Real>(h.lr / (1 - std::pow(h.beta1, tables.t[i])));
    x.root2 = static_cast<Real>(std::sqrt(1 - std::pow(h.beta2, tables.t[i])));
    x.eps = static_cast<Real>(h.eps);
    return x;
}

// Where a stretch of at most TILE elements ends of which all are in one row, and what these share.
template <class Real>
Index stretch(const Work &work, const UpdateTables &tables, Index i, Index from, Index end, Numbers<Real> &x) {
    const Index to = std::min(end, from + TILE);
    if (!tables.mean && !tables.scale) return to;
    const Index row = from / work.length(i), unit = work.first_unit[i] + row;
    if (tables.mean) x.mean = static_cast<Real>(tables.mean[unit]);
    if (tables.scale) x.scale = static_cast<Real>(tables.scale[unit]);
    return std::min(to, (row + 1) * work.length(i));
}

template <class T, bool PROCESSED, bool QUANTUM>
void update(Index n, unsigned threads, const UpdateTables &tables, const Hyperparameters &h) {
    using Real = Computed<T>;
    const auto elements = 1 - h.beta1 < 0.5 ? update_elements<T, PROCESSED, QUANTUM, false>
                                            : update_elements<T, PROCESSED, QUANTUM, true>;
    Work work(n, tables.numels, tables.units);
    work.cut_anywhere();
    std::vector<double> squares(work.pieces.size());
    share(work.pieces.size(), work.threads(threads), [&](Index k) {
        auto [i, from, end] = work.pieces[k];
        auto x = numbers<Real>(tables, h, i);
        for (Index to; from < end; from = to) {
            to = stretch(work, tables, i, from, end, x);
            squares[k] += elements(
                at<T>(tables.params, i, from), at<T>(tables.grads, i, from), at<T>(tables.exp_avgs, i, from),
                at<T>(tables.exp_avg_sqs, i, from), to - from, x);
        }
    });
    for (std::size_t k = 0; k < squares.size(); ++k) tables.squares[work.pieces[k].tensor] += squares[k];
}

// Processing and update in one pass: the sums of a row are formed while the update will find it in cache.

// What becomes of a row's gradients: g <- scale (g - mean), and the sum of |g|^2 after that.
struct Processed {
    double mean = 0, scale = 1, squares;
};

const double AGC_FLOOR = 1e-3, NOISE = 1000 * std::numeric_limits<double>::epsilon();

// AGC, then centralization, as `gradients.plan` has them.
Processed process(const Sums &grads, double param_squares, Index n, bool centered, double agc_clip) {
    Processed row{0, 1, grads.squares};
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
    found.grads = tables.centered[i] ? sum<double, true>(g, n) : sum<Computed<T>, false>(g, n);
    if (h.agc_clip > 0) found.param_squares = sum<Computed<T>, false>(p, n).squares;
    return found;
}

// The processing of rows that are split over pieces, for each of these; of others nothing.
template <class T>
std::vector<Processed> process_split(
    const Work &work, unsigned threads, const UpdateTables &tables, const Hyperparameters &h) {
    const auto &pieces = work.pieces;
    std::vector<RowSums> sums(pieces.size());
    std::vector<Processed> rows(pieces.size());
    share(pieces.size(), threads, [&](Index k) {
        if (work.splits(pieces[k].tensor)) sums[k] = measure<T>(tables, h, pieces[k]);
    });
    for (std::size_t first = 0, end; first < pieces.size(); first = end) {
        end = first + 1;
        const Index i = pieces[first].tensor, length = work.length(i);
        if (!work.splits(i)) continue;
        RowSums total = sums[first];
        for (; pieces[end - 1].to % length; ++end) {
            total.grads.squares += sums[end].grads.squares;
            total.grads.elements += sums[end].grads.elements;
            total.param_squares += sums[end].param_squares;
        }
        rows[first] = process(total.grads, total.param_squares, length, tables.centered[i], h.agc_clip);
        std::fill(rows.begin() + first + 1, rows.begin() + end, Processed{rows[first].mean, rows[first].scale, 0});
    }
    return rows;
}

template <class T, bool QUANTUM>
void process_and_update(Index n, unsigned threads, const UpdateTables &tables, const Hyperparameters &h) {
    using Real = Computed<T>;
    const auto elements = 1 - h.beta1 < 0.5 ? update_elements<T, true, QUANTUM, false>
                                            : update_elements<T, true, QUANTUM, true>;
    Work work(n, tables.numels, tables.units);
    work.cut_rows();
    threads = work.threads(threads);
    const auto split = process_split<T>(work, threads, tables, h);
    std::vector<double> squares(work.pieces.size());
    share(work.pieces.size(), threads, [&](Index k) {
        auto [i, from, end] = work.pieces[k];
        const Index length = work.length(i);
        auto x = numbers<Real>(tables, h, i);
        for (Index to; from < end; from = to) {
            to = std::min(end, from + length);
            Processed row = split[k];
            if (!work.splits(i)) {
                const RowSums found = measure<T>(tables, h, {i, from, to});
                row = process(found.grads, found.param_squares, length, tables.centered[i], h.agc_clip);
            }
            const Index unit = work.first_unit[i] + from / length;
            if (tables.mean && from % length == 0) tables.mean[unit] = row.mean;
            if (tables.scale && from % length == 0) tables.scale[unit] = row.scale;
            x.mean = static_cast<Real>(row.mean), x.scale = static_cast<Real>(row.scale);
            elements(
                at<T>(tables.params, i, from), at<T>(tables.grads, i, from), at<T>(tables.exp_avgs, i, from),
                at<T>(tables.exp_avg_sqs, i, from), to - from, x);
            squares[k] += row.squares;
        }
    });
    for (std::size_t k = 0; k < squares.size(); ++k) tables.squares[work.pieces[k].tensor] += squares[k];
}

template <class T>
void any_process_and_update(Index n, unsigned threads, const UpdateTables &tables, const Hyperparameters &h) {
    (tables.quantum_rate ? process_and_update<T, true> : process_and_update<T, false>)(n, threads, tables, h);
}

template <class T> void any_update(Index n, unsigned threads, const UpdateTables &tables, const Hyperparameters &h) {
    if (tables.mean || tables.scale)
        (tables.quantum_rate ? update<T, true, true> : update<T, true, false>)(n, threads, tables, h);
    else
        (tables.quantum_rate ? update<T, false, true> : update<T, false, false>)(n, threads, tables, h);
}

template <class T> void cancel(Index n, unsigned threads, const UpdateTables &tables, const Hyperparameters &h) {
    using Real = Computed<T>;
    const auto elements = tables.quantum_rate ? cancel_elements<T, true> : cancel_elements<T, false>;
    Work work(n, tables.numels, tables.units);
    work.cut_anywhere();
    share(work.pieces.size(), work.threads(threads), [&](Index k) {
        auto [i, from, end] = work.pieces[k];
        auto x = numbers<Real>(tables, h, i);
        for (Index to; from < end; from = to) {
            to = stretch(work, tables, i, from, end, x);
            elements(
                at<T>(tables.params, i, from), at<T>(tables.grads, i, from), at<T>(tables.exp_avgs, i, from),
                at<T>(tables.exp_avg_sqs, i, from), to - from, static_cast<Real>(tables.decay[i]), x);
        }
    });
}

// The module: each function gets the size of an element (2 is bfloat16), threads, tensors, and a table's addresses

template <class Tables> bool unpack(const char *bytes, Py_ssize_t size, Tables &tables) {
    if (size != sizeof tables) {
        PyErr_Format(PyExc_ValueError, "a table of %zd bytes, not %zd", sizeof tables, size);
        return false;
    }
    std::memcpy(&tables, bytes, sizeof tables);
    return true;
}

// A tensor whose memory was given back, as libraries do that keep it elsewhere, has elements but no address.
bool in_memory(Index n, const Index *tensors, const Index *numels) {
    for (Index i = 0; i < n; ++i)
        if (!tensors[i] && numels[i]) {
            const auto count = static_cast<long long>(numels[i]);
            PyErr_Format(PyExc_RuntimeError, "a tensor of %lld elements has no memory", count);
            return false;
        }
    return true;
}

// Runs without Python's lock.
template <class Run> PyObject *run_freely(const Run &run) {
    bool out_of_memory = false;
    Py_BEGIN_ALLOW_THREADS;
    try {
        run();
    } catch (const std::bad_alloc &) {
        out_of_memory = true;
    }
    Py_END_ALLOW_THREADS;
    if (out_of_memory) return PyErr_NoMemory();
    Py_RETURN_NONE;
}

PyObject *py_row_sums(PyObject *, PyObject *arguments) {
    int itemsize, threads;
    long long n;
    const char *bytes;
    Py_ssize_t size;
    RowTables tables;
    if (!PyArg_ParseTuple(arguments, "iiLy#", &itemsize, &threads, &n, &bytes, &size) || !unpack(bytes, size, tables))
        return nullptr;
    if (!in_memory(n, tables.tensors, tables.numels)) return nullptr;
    const auto run = itemsize == 2   ? any_row_sums<bfloat16>
                     : itemsize == 4 ? any_row_sums<float>
                                     : any_row_sums<double>;
    return run_freely([&] { run(n, threads, tables); });
}

using Update = void (*)(Index, unsigned, const UpdateTables &, const Hyperparameters &);

PyObject *run_update(PyObject *arguments, Update of_bfloat16, Update of_float, Update of_double) {
    int itemsize, threads;
    long long n;
    const char *bytes;
    Py_ssize_t size;
    UpdateTables tables;
    Hyperparameters h;
    if (!PyArg_ParseTuple(
            arguments, "iiLy#ddddd", &itemsize, &threads, &n, &bytes, &size, &h.lr, &h.beta1, &h.beta2, &h.eps,
            &h.agc_clip) ||
        !unpack(bytes, size, tables))
        return nullptr;
    for (const Index *tensors : {tables.params, tables.grads, tables.exp_avgs, tables.exp_avg_sqs})
        if (!in_memory(n, tensors, tables.numels)) return nullptr;
    const Update run = itemsize == 2 ? of_bfloat16 : itemsize == 4 ? of_float : of_double;
    return run_freely([&] { run(n, threads, tables, h); });
}

PyObject *py_update(PyObject *, PyObject *arguments) {
    return run_update(arguments, any_update<bfloat16>, any_update<float>, any_update<double>);
}

PyObject *py_process_and_update(PyObject *, PyObject *arguments) {
    return run_update(
        arguments, any_process_and_update<bfloat16>, any_process_and_update<float>, any_process_and_update<double>);
}

PyObject *py_cancel(PyObject *, PyObject *arguments) {
    return run_update(arguments, cancel<bfloat16>, cancel<float>, cancel<double>);
}

PyMethodDef methods[] = {
    {"row_sums", py_row_sums, METH_VARARGS, nullptr},
    {"update_", py_update, METH_VARARGS, nullptr},
    {"process_and_update_", py_process_and_update, METH_VARARGS, nullptr},
    {"cancel_", py_cancel, METH_VARARGS, nullptr},
    {nullptr, nullptr, 0, nullptr},
};
PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, "native_kernels", nullptr, -1, methods, nullptr, nullptr, nullptr, nullptr};

}  // namespace

PyMODINIT_FUNC INIT() {  // PyInit_ and the name of the module, as which setup.py compiles this
    parallel = reinterpret_cast<Parallel>(dlsym(RTLD_DEFAULT, "GOMP_parallel"));
    if (parallel) return PyModule_Create(&definition);
    PyErr_SetString(PyExc_ImportError, "torch has loaded no OpenMP that serves code of GNU's compilers");
    return nullptr;
}
