// The kernels of updates/native.py: sums over the rows of many tensors, and the update of many tensors, one pass each.
//
// Of tensors they get addresses, so that nothing of torch is needed to build them. They run on the threads that torch
// runs its own operations on. Elements are computed in float, those of double tensors in double; sums always in double,
// in an order that does not depend on the number of threads.

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
#include <vector>

namespace {

using Index = std::int64_t;

struct bfloat16 {
    std::uint16_t bits;
};

template <class T> struct Computed { using type = T; };
template <> struct Computed<bfloat16> { using type = float; };

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
    const std::uint32_t rounded = (bits + 0x7FFF + ((bits >> 16) & 1)) >> 16;
    to.bits = static_cast<std::uint16_t>(x != x ? 0x7FC0 : rounded);
}

// exp(-2x) for x >= 0. In float: 2^y by a polynomial of degree 7 around the nearest whole number, off by less than 2e-7.
inline double decaying(double x) { return std::exp(-2 * x); }
inline float decaying(float x) {
    const float y = std::max(x * -2.8853900817779268f, -126.0f), whole = std::rint(y), z = (y - whole) * 0.69314718056f;
    const float fraction = 1 + z * (1 + z * (1 / 2.f + z * (1 / 6.f + z * (1 / 24.f + z * (1 / 120.f + z * (1 / 720.f + z / 5040))))));
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

using Parallel = void (*)(void (*)(void *), void *, unsigned, unsigned);
Parallel parallel = nullptr;  // OpenMP's entry for GNU C, from the library that torch has loaded

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
    threads = static_cast<unsigned>(std::min<Index>(threads, count));
    if (threads > 1)
        parallel(run, &shared, threads, 0);
    else
        run(&shared);
}

const Index SERIAL = 1 << 15;   // so few elements are not worth a second thread
const Index SEGMENT = 1 << 14;  // elements that one thread takes at a time

// N tensors with numels[i] elements in units[i] rows each, cut into pieces of about SEGMENT elements: of a row, or rows.
struct Pieces {
    const Index *numels, *units;
    std::vector<Index> first, first_unit;  // of each tensor the first piece and the first row; at the end, their number
    Index total = 0;

    Pieces(Index n, const Index *numels, const Index *units, bool rows_kept) : numels(numels), units(units), first(n + 1), first_unit(n + 1) {
        for (Index i = 0; i < n; ++i) {
            const Index length = row_length(i);
            const Index count = !rows_kept ? ceil(numels[i], SEGMENT)
                : length > SEGMENT ? units[i] * ceil(length, SEGMENT) : ceil(units[i], rows_per_piece(i));
            first[i + 1] = first[i] + count;
            first_unit[i + 1] = first_unit[i] + units[i];
            total += numels[i];
        }
    }
    static Index ceil(Index a, Index b) { return (a + b - 1) / b; }
    Index row_length(Index i) const { return units[i] ? numels[i] / units[i] : 0; }
    Index rows_per_piece(Index i) const { return std::max<Index>(1, SEGMENT / std::max<Index>(1, row_length(i))); }
    Index segments(Index i) const { return std::max<Index>(1, ceil(row_length(i), SEGMENT)); }
    Index count() const { return first.back(); }
    Index tensor_of(Index piece) const { return std::upper_bound(first.begin(), first.end(), piece) - first.begin() - 1; }
    unsigned threads(unsigned wanted) const { return total < SERIAL ? 1 : wanted; }
};

struct Sums {
    double squares, elements;
};

typedef double Doubles __attribute__((vector_size(32)));
const int WIDTH = 4, LANES = 4;  // of one vector; vectors that are summed side by side

template <class T> inline Doubles load(const T *x) { return Doubles{widen(x[0]), widen(x[1]), widen(x[2]), widen(x[3])}; }

template <class T> Sums sum(const T *x, Index n) {
    Doubles squares[LANES] = {}, elements[LANES] = {};
    Index j = 0;
    for (; j + WIDTH * LANES <= n; j += WIDTH * LANES)
#pragma GCC unroll 4
        for (int k = 0; k < LANES; ++k) {
            const Doubles wide = load(x + j + WIDTH * k);
            squares[k] += wide * wide;
            elements[k] += wide;
        }
    const Doubles all_squares = (squares[0] + squares[1]) + (squares[2] + squares[3]);
    const Doubles all_elements = (elements[0] + elements[1]) + (elements[2] + elements[3]);
    Sums total{0, 0};
    for (int k = 0; k < WIDTH; ++k) total.squares += all_squares[k], total.elements += all_elements[k];
    for (; j < n; ++j) {
        const double wide = widen(x[j]);
        total.squares += wide * wide, total.elements += wide;
    }
    return total;
}

// For each row the sum of squares into squares[row], and unless it is null the sum of elements into elements[row].
template <class T>
void row_sums(Index n, const Index *addresses, const Index *numels, const Index *units, unsigned threads, double *squares, double *elements) {
    const Pieces pieces(n, numels, units, true);
    std::vector<Sums> parts(pieces.count());
    share(pieces.count(), pieces.threads(threads), [&](Index piece) {
        const Index i = pieces.tensor_of(piece), item = piece - pieces.first[i], length = pieces.row_length(i);
        const T *x = reinterpret_cast<const T *>(addresses[i]);
        const Index segments = pieces.segments(i);
        if (segments > 1) {
            const Index before = item % segments * SEGMENT;
            parts[piece] = sum(x + item / segments * length + before, std::min(SEGMENT, length - before));
            return;
        }
        const Index rows = pieces.rows_per_piece(i), end = std::min(units[i], (item + 1) * rows);
        for (Index row = item * rows; row < end; ++row) {
            const Sums found = sum(x + row * length, length);
            squares[pieces.first_unit[i] + row] = found.squares;
            if (elements) elements[pieces.first_unit[i] + row] = found.elements;
        }
    });
    for (Index i = 0; i < n; ++i) {
        const Index segments = pieces.segments(i);
        for (Index row = 0; segments > 1 && row < units[i]; ++row) {
            Sums total{0, 0};
            for (Index k = 0; k < segments; ++k) {
                const Sums &part = parts[pieces.first[i] + row * segments + k];
                total.squares += part.squares, total.elements += part.elements;
            }
            squares[pieces.first_unit[i] + row] = total.squares;
            if (elements) elements[pieces.first_unit[i] + row] = total.elements;
        }
    }
}

// What all elements of a row share.
template <class Real> struct Numbers {
    Real mean, scale, keep, quantum_rate, weight1, beta2, weight2, step_size, root2, eps;
};

template <class T, bool PROCESSED, bool QUANTUM, class Real = typename Computed<T>::type>
void update_row(T *p, const T *g, T *m, T *v, Index n, const Numbers<Real> x) {
#pragma GCC ivdep
    for (Index j = 0; j < n; ++j) {
        Real grad = widen(g[j]), theta = widen(p[j]) * x.keep;
        if (PROCESSED) grad = (grad - x.mean) * x.scale;
        if (QUANTUM) theta *= 1 - x.quantum_rate * tanh_of_size(grad);
        const Real before = widen(m[j]);
        const Real exp_avg = x.weight1 < Real(0.5) ? std::fma(x.weight1, grad - before, before) : std::fma(x.weight1 - 1, grad - before, grad);
        const Real exp_avg_sq = std::fma(x.weight2 * grad, grad, widen(v[j]) * x.beta2);
        theta += -x.step_size * exp_avg / (std::sqrt(exp_avg_sq) / x.root2 + x.eps);
        narrow(theta, p[j]);
        narrow(exp_avg, m[j]);
        narrow(exp_avg_sq, v[j]);
    }
}

struct Update {
    const Index *params, *grads, *exp_avgs, *exp_avg_sqs, *numels, *units;
    const double *t, *decay, *quantum_rate, *mean, *scale;  // the last three may be null
    double lr, beta1, beta2, eps;
};

template <class T, bool PROCESSED, bool QUANTUM>
void update_all(Index n, unsigned threads, const Update &u) {
    using Real = typename Computed<T>::type;
    const Pieces pieces(n, u.numels, u.units, false);
    share(pieces.count(), pieces.threads(threads), [&](Index piece) {
        const Index i = pieces.tensor_of(piece), length = pieces.row_length(i);
        Index at = (piece - pieces.first[i]) * SEGMENT;
        const Index end = std::min(u.numels[i], at + SEGMENT);
        Numbers<Real> x;
        x.keep = static_cast<Real>(1 - u.decay[i]);
        x.quantum_rate = QUANTUM ? static_cast<Real>(u.quantum_rate[i]) : 0;
        x.weight1 = static_cast<Real>(1 - u.beta1);
        x.beta2 = static_cast<Real>(u.beta2);
        x.weight2 = static_cast<Real>(1 - u.beta2);
        x.step_size = static_cast<Real>(u.lr / (1 - std::pow(u.beta1, u.t[i])));
        x.root2 = static_cast<Real>(std::sqrt(1 - std::pow(u.beta2, u.t[i])));
        x.eps = static_cast<Real>(u.eps);
        const auto base = [](const Index *column, Index i, Index at) { return reinterpret_cast<T *>(column[i]) + at; };
        while (at < end) {
            const Index row = at / length, stop = PROCESSED ? std::min(end, (row + 1) * length) : end;
            if (PROCESSED) {
                x.mean = u.mean ? static_cast<Real>(u.mean[pieces.first_unit[i] + row]) : 0;
                x.scale = u.scale ? static_cast<Real>(u.scale[pieces.first_unit[i] + row]) : 1;
            }
            update_row<T, PROCESSED, QUANTUM>(base(u.params, i, at), base(u.grads, i, at), base(u.exp_avgs, i, at), base(u.exp_avg_sqs, i, at), stop - at, x);
            at = stop;
        }
    });
}

template <class T> void update(Index n, unsigned threads, const Update &u) {
    const bool processed = u.mean || u.scale;
    if (processed)
        u.quantum_rate ? update_all<T, true, true>(n, threads, u) : update_all<T, true, false>(n, threads, u);
    else
        u.quantum_rate ? update_all<T, false, true>(n, threads, u) : update_all<T, false, false>(n, threads, u);
}

template <class T> T *pointer(unsigned long long address) { return reinterpret_cast<T *>(address); }

PyObject *py_row_sums(PyObject *, PyObject *arguments) {
    unsigned long long addresses, numels, units, squares, elements;
    long long n;
    int itemsize, threads;
    if (!PyArg_ParseTuple(arguments, "iiLKKKKK", &itemsize, &threads, &n, &addresses, &numels, &units, &squares, &elements)) return nullptr;
    const auto run = itemsize == 2 ? row_sums<bfloat16> : itemsize == 4 ? row_sums<float> : row_sums<double>;
    Py_BEGIN_ALLOW_THREADS
    run(n, pointer<Index>(addresses), pointer<Index>(numels), pointer<Index>(units), threads, pointer<double>(squares), pointer<double>(elements));
    Py_END_ALLOW_THREADS
    Py_RETURN_NONE;
}

PyObject *py_update(PyObject *, PyObject *arguments) {
    unsigned long long a[11];
    long long n;
    int itemsize, threads;
    Update u;
    if (!PyArg_ParseTuple(arguments, "iiLKKKKKKKKKKKdddd", &itemsize, &threads, &n, a, a + 1, a + 2, a + 3, a + 4, a + 5, a + 6, a + 7, a + 8, a + 9, a + 10, &u.lr, &u.beta1, &u.beta2, &u.eps))
        return nullptr;
    u.params = pointer<Index>(a[0]), u.grads = pointer<Index>(a[1]), u.exp_avgs = pointer<Index>(a[2]), u.exp_avg_sqs = pointer<Index>(a[3]);
    u.numels = pointer<Index>(a[4]), u.units = pointer<Index>(a[5]);
    u.t = pointer<double>(a[6]), u.decay = pointer<double>(a[7]), u.quantum_rate = pointer<double>(a[8]), u.mean = pointer<double>(a[9]), u.scale = pointer<double>(a[10]);
    const auto run = itemsize == 2 ? update<bfloat16> : itemsize == 4 ? update<float> : update<double>;
    Py_BEGIN_ALLOW_THREADS
    run(n, threads, u);
    Py_END_ALLOW_THREADS
    Py_RETURN_NONE;
}

PyMethodDef methods[] = {
    {"row_sums", py_row_sums, METH_VARARGS, nullptr},
    {"update_", py_update, METH_VARARGS, nullptr},
    {nullptr, nullptr, 0, nullptr},
};
PyModuleDef module = {PyModuleDef_HEAD_INIT, "native_kernels", nullptr, -1, methods, nullptr, nullptr, nullptr, nullptr};

}  // namespace

PyMODINIT_FUNC PyInit_native_kernels() {
    parallel = reinterpret_cast<Parallel>(dlsym(RTLD_DEFAULT, "GOMP_parallel"));
    if (!parallel) {
        PyErr_SetString(PyExc_ImportError, "torch has not loaded an OpenMP library with GNU's entries");
        return nullptr;
    }
    return PyModule_Create(&module);
}
