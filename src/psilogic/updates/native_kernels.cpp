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
#include <numeric>
#include <type_traits>
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

// exp(-2x) for x >= 0. In float 2^y, by a polynomial around the nearest whole number: off by less than 2e-7.
inline double decaying(double x) { return std::exp(-2 * x); }
inline float decaying(float x) {
    const float y = std::max(x * -2.8853900817779268f, -126.0f), whole = std::rint(y), z = (y - whole) * 0.69314718056f;
    const float half = std::fma(std::fma(std::fma(1 / 720.f, z, 1 / 120.f), z, 1 / 24.f), z, 1 / 6.f);
    const float fraction = std::fma(std::fma(std::fma(half, z, 0.5f), z, 1.0f), z, 1.0f);
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
const Index TILE = 1 << 11;     // elements of which the gradients are still in the first cache after their update

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

// Four vectors are summed side by side, so that no addition waits for the one before it.
template <class Real> struct Lanes {
    static const int WIDTH = 32 / sizeof(Real), COUNT = 4, STRIDE = WIDTH * COUNT;
    typedef Real Vector __attribute__((vector_size(32)));
    Vector vectors[COUNT] = {};

    static double total(const Vector &x) {
        double sum = 0;
        for (int k = 0; k < WIDTH; ++k) sum += x[k];
        return sum;
    }
    double total() const { return total((vectors[0] + vectors[1]) + (vectors[2] + vectors[3])); }
};

template <class Real, class T> inline typename Lanes<Real>::Vector load(const T *x) {
    typename Lanes<Real>::Vector vector;
    for (int k = 0; k < Lanes<Real>::WIDTH; ++k) vector[k] = widen(x[k]);
    return vector;
}

// Sums in Real, for as many elements as it is good for.
template <class Real, bool WITH_ELEMENTS, class T> inline Sums sum(const T *x, Index n) {
    Lanes<Real> squares, elements;
    Index j = 0;
    for (; j + Lanes<Real>::STRIDE <= n; j += Lanes<Real>::STRIDE)
#pragma GCC unroll 4
        for (int k = 0; k < Lanes<Real>::COUNT; ++k) {
            const auto wide = load<Real>(x + j + k * Lanes<Real>::WIDTH);
            squares.vectors[k] += wide * wide;
            if (WITH_ELEMENTS) elements.vectors[k] += wide;
        }
    Sums total{squares.total(), elements.total()};
    for (; j < n; ++j) {
        const Real wide = widen(x[j]);
        total.squares += wide * wide;
        if (WITH_ELEMENTS) total.elements += wide;
    }
    return total;
}

// Squares alone in float, tile by tile; with the sum of elements all in double, since their difference is wanted.
template <bool WITH_ELEMENTS, class T> Sums sums_of(const T *x, Index n) {
    using Real = std::conditional_t<WITH_ELEMENTS, double, typename Computed<T>::type>;
    Sums total{0, 0};
    for (Index from = 0; from < n; from += TILE) {
        const Sums found = sum<Real, WITH_ELEMENTS>(x + from, std::min(TILE, n - from));
        total.squares += found.squares, total.elements += found.elements;
    }
    return total;
}

// For each row the sum of squares into squares[row], and unless it is null the sum of elements into elements[row].
template <bool WITH_ELEMENTS, class T>
void row_sums(Index n, const Index *addresses, const Index *numels, const Index *units, unsigned threads, double *squares, double *elements) {
    const Pieces pieces(n, numels, units, true);
    std::vector<Sums> parts(pieces.count());
    share(pieces.count(), pieces.threads(threads), [&](Index piece) {
        const Index i = pieces.tensor_of(piece), item = piece - pieces.first[i], length = pieces.row_length(i);
        const T *x = reinterpret_cast<const T *>(addresses[i]);
        const Index segments = pieces.segments(i);
        if (segments > 1) {
            const Index before = item % segments * SEGMENT;
            parts[piece] = sums_of<WITH_ELEMENTS>(x + item / segments * length + before, std::min(SEGMENT, length - before));
            return;
        }
        const Index rows = pieces.rows_per_piece(i), end = std::min(units[i], (item + 1) * rows);
        for (Index row = item * rows; row < end; ++row) {
            const Sums found = sums_of<WITH_ELEMENTS>(x + row * length, length);
            squares[pieces.first_unit[i] + row] = found.squares;
            if (WITH_ELEMENTS) elements[pieces.first_unit[i] + row] = found.elements;
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
            if (WITH_ELEMENTS) elements[pieces.first_unit[i] + row] = total.elements;
        }
    }
}

// What all elements of a row share.
template <class Real> struct Numbers {
    Real mean = 0, scale = 1, keep, quantum_rate, weight1, beta2, weight2, step_size, root2, eps;
};

// lr m_hat / (sqrt(v_hat) + eps)
template <class Real> inline Real descent(Real exp_avg, Real exp_avg_sq, const Numbers<Real> &x) {
    return x.step_size * exp_avg / (std::sqrt(exp_avg_sq) / x.root2 + x.eps);
}

// The operations, fused where torch's kernel fuses them, so that whole vectors come out as those of its AdamW.
template <class T, bool PROCESSED, bool QUANTUM, bool FAR, class Real = typename Computed<T>::type>
Real update_row(T *p, const T *g, T *m, T *v, Index n, const Numbers<Real> x) {
    Real squares = 0;
#pragma omp simd reduction(+ : squares)
    for (Index j = 0; j < n; ++j) {
        Real grad = widen(g[j]), theta = widen(p[j]) * x.keep;
        squares += grad * grad;
        if (PROCESSED) grad = (grad - x.mean) * x.scale;
        if (QUANTUM) theta *= 1 - x.quantum_rate * tanh_of_size(grad);
        const Real before = widen(m[j]);
        const Real exp_avg = FAR ? std::fma(x.weight1 - 1, grad - before, grad) : std::fma(x.weight1, grad - before, before);
        const Real exp_avg_sq = std::fma(x.weight2 * grad, grad, widen(v[j]) * x.beta2);
        narrow(theta - descent(exp_avg, exp_avg_sq, x), p[j]);
        narrow(exp_avg, m[j]);
        narrow(exp_avg_sq, v[j]);
    }
    return squares;
}

// After an update that took theta to theta' with less decay: theta' + u, where u is its descent, is what was decayed.
template <class T, class Real = typename Computed<T>::type>
void cancel_row(T *p, const T *m, const T *v, Index n, Real share, const Numbers<Real> x) {
#pragma GCC ivdep
    for (Index j = 0; j < n; ++j) {
        const Real theta = widen(p[j]);
        narrow(theta - share * (theta + descent<Real>(widen(m[j]), widen(v[j]), x)), p[j]);
    }
}

struct Update {
    const Index *params, *grads, *exp_avgs, *exp_avg_sqs, *numels, *units;
    const double *t, *decay, *quantum_rate, *mean, *scale;  // the last three may be null
    double lr, beta1, beta2, eps;
};

template <class Real> Numbers<Real> numbers(const Update &u, Index i) {
    Numbers<Real> x;
    x.keep = static_cast<Real>(1 - u.decay[i]);
    x.quantum_rate = u.quantum_rate ? static_cast<Real>(u.quantum_rate[i]) : 0;
    x.weight1 = static_cast<Real>(1 - u.beta1);
    x.beta2 = static_cast<Real>(u.beta2);
    x.weight2 = static_cast<Real>(1 - u.beta2);
    x.step_size = static_cast<Real>(u.lr / (1 - std::pow(u.beta1, u.t[i])));
    x.root2 = static_cast<Real>(std::sqrt(1 - std::pow(u.beta2, u.t[i])));
    x.eps = static_cast<Real>(u.eps);
    return x;
}

template <class T> T *at(const Index *column, Index i, Index element) { return reinterpret_cast<T *>(column[i]) + element; }

template <class T, bool PROCESSED, bool QUANTUM>
void update(Index n, unsigned threads, const Update &u, double *squares) {
    using Real = typename Computed<T>::type;
    const Pieces pieces(n, u.numels, u.units, false);
    std::vector<double> parts(pieces.count());
    share(pieces.count(), pieces.threads(threads), [&](Index piece) {
        const Index i = pieces.tensor_of(piece), length = pieces.row_length(i);
        Index from = (piece - pieces.first[i]) * SEGMENT;
        const Index end = std::min(u.numels[i], from + SEGMENT);
        Numbers<Real> x = numbers<Real>(u, i);
        while (from < end) {
            Index to = std::min(end, from + TILE);
            if (PROCESSED) {
                const Index row = from / length, unit = pieces.first_unit[i] + row;
                to = std::min(end, (row + 1) * length);
                if (u.mean) x.mean = static_cast<Real>(u.mean[unit]);
                if (u.scale) x.scale = static_cast<Real>(u.scale[unit]);
            }
            const auto row = x.weight1 < Real(0.5) ? update_row<T, PROCESSED, QUANTUM, false> : update_row<T, PROCESSED, QUANTUM, true>;
            parts[piece] += row(at<T>(u.params, i, from), at<T>(u.grads, i, from), at<T>(u.exp_avgs, i, from), at<T>(u.exp_avg_sqs, i, from), to - from, x);
            from = to;
        }
    });
    for (Index i = 0; squares && i < n; ++i) squares[i] = std::accumulate(&parts[pieces.first[i]], &parts[pieces.first[i + 1]], 0.0);
}

template <class T> void cancel(Index n, unsigned threads, const Update &u) {
    using Real = typename Computed<T>::type;
    const Pieces pieces(n, u.numels, u.units, false);
    share(pieces.count(), pieces.threads(threads), [&](Index piece) {
        const Index i = pieces.tensor_of(piece), from = (piece - pieces.first[i]) * SEGMENT;
        const Index size = std::min(u.numels[i] - from, SEGMENT);
        cancel_row<T>(at<T>(u.params, i, from), at<T>(u.exp_avgs, i, from), at<T>(u.exp_avg_sqs, i, from), size, static_cast<Real>(u.decay[i]), numbers<Real>(u, i));
    });
}

template <class T> void any_update(Index n, unsigned threads, const Update &u, double *squares) {
    if (u.mean || u.scale)
        (u.quantum_rate ? update<T, true, true> : update<T, true, false>)(n, threads, u, squares);
    else
        (u.quantum_rate ? update<T, false, true> : update<T, false, false>)(n, threads, u, squares);
}

template <class T> T *pointer(unsigned long long address) { return reinterpret_cast<T *>(address); }

PyObject *py_row_sums(PyObject *, PyObject *arguments) {
    unsigned long long addresses, numels, units, squares, elements;
    long long n;
    int itemsize, threads;
    if (!PyArg_ParseTuple(arguments, "iiLKKKKK", &itemsize, &threads, &n, &addresses, &numels, &units, &squares, &elements)) return nullptr;
    const auto run = elements ? (itemsize == 2 ? row_sums<true, bfloat16> : itemsize == 4 ? row_sums<true, float> : row_sums<true, double>)
                              : (itemsize == 2 ? row_sums<false, bfloat16> : itemsize == 4 ? row_sums<false, float> : row_sums<false, double>);
    Py_BEGIN_ALLOW_THREADS
    run(n, pointer<Index>(addresses), pointer<Index>(numels), pointer<Index>(units), threads, pointer<double>(squares), pointer<double>(elements));
    Py_END_ALLOW_THREADS
    Py_RETURN_NONE;
}

// The arguments that updates share, up to `decay`.
PyObject *py_update(PyObject *, PyObject *arguments) {
    unsigned long long a[12];
    long long n;
    int itemsize, threads;
    Update u;
    if (!PyArg_ParseTuple(arguments, "iiLKKKKKKKKKKKKdddd", &itemsize, &threads, &n, a, a + 1, a + 2, a + 3, a + 4, a + 5, a + 6, a + 7, a + 8, a + 9, a + 10, a + 11, &u.lr, &u.beta1, &u.beta2, &u.eps))
        return nullptr;
    u.params = pointer<Index>(a[0]), u.grads = pointer<Index>(a[1]), u.exp_avgs = pointer<Index>(a[2]), u.exp_avg_sqs = pointer<Index>(a[3]);
    u.numels = pointer<Index>(a[4]), u.units = pointer<Index>(a[5]);
    u.t = pointer<double>(a[6]), u.decay = pointer<double>(a[7]), u.quantum_rate = pointer<double>(a[8]), u.mean = pointer<double>(a[9]), u.scale = pointer<double>(a[10]);
    const auto run = itemsize == 2 ? any_update<bfloat16> : itemsize == 4 ? any_update<float> : any_update<double>;
    Py_BEGIN_ALLOW_THREADS
    run(n, threads, u, pointer<double>(a[11]));
    Py_END_ALLOW_THREADS
    Py_RETURN_NONE;
}

PyObject *py_cancel(PyObject *, PyObject *arguments) {
    unsigned long long a[7];
    long long n;
    int itemsize, threads;
    Update u{};
    if (!PyArg_ParseTuple(arguments, "iiLKKKKKKKdddd", &itemsize, &threads, &n, a, a + 1, a + 2, a + 3, a + 4, a + 5, a + 6, &u.lr, &u.beta1, &u.beta2, &u.eps))
        return nullptr;
    u.params = pointer<Index>(a[0]), u.exp_avgs = pointer<Index>(a[1]), u.exp_avg_sqs = pointer<Index>(a[2]);
    u.numels = pointer<Index>(a[3]), u.units = pointer<Index>(a[4]);
    u.t = pointer<double>(a[5]), u.decay = pointer<double>(a[6]);
    const auto run = itemsize == 2 ? cancel<bfloat16> : itemsize == 4 ? cancel<float> : cancel<double>;
    Py_BEGIN_ALLOW_THREADS
    run(n, threads, u);
    Py_END_ALLOW_THREADS
    Py_RETURN_NONE;
}

PyMethodDef methods[] = {
    {"row_sums", py_row_sums, METH_VARARGS, nullptr},
    {"update_", py_update, METH_VARARGS, nullptr},
    {"cancel_", py_cancel, METH_VARARGS, nullptr},
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
