// The functions that kernels.py calls: sums over the rows of many tensors, their update, and their whole step.
//
// They get the addresses of tensors, so that nothing of torch is needed to build them; they run on torch's threads.
// Elements are computed in float, those of double tensors in double. The order of additions does not depend on the
// distribution of work among the threads.

#define PY_SSIZE_T_CLEAN
#define Py_LIMITED_API 0x030A0000
#include <Python.h>
#include <dlfcn.h>

#include <cmath>
#include <new>

#include "step.h"

// The versions of these functions that every glibc since 2.17 has: a wheel then loads on systems older than its compiler's.
#ifdef __GLIBC__
#ifdef __x86_64__
#define OLDEST "GLIBC_2.2.5"
#else
#define OLDEST "GLIBC_2.17"
#endif
__asm__(".symver dlsym,dlsym@" OLDEST);
__asm__(".symver exp,exp@" OLDEST);
__asm__(".symver pow,pow@" OLDEST);
#endif

namespace {

// A tensor whose memory was released, as by libraries that keep it elsewhere, has elements but no address.
bool in_memory(Index n, const Index *tensors, const Index *numels) {
    for (Index i = 0; i < n; ++i)
        if (!tensors[i] && numels[i]) {
            const auto count = static_cast<long long>(numels[i]);
            PyErr_Format(PyExc_RuntimeError, "a tensor of %lld elements has no memory", count);
            return false;
        }
    return true;
}

// Each function gets the position of a dtype in DTYPES, threads, tensors, and a tuple with the entries of its tables:
// the address of an array, a number that all tensors share (a float, which is repeated for each), or None. It runs without
// Python's global lock, and returns a number.
template <class Tables> using Kernel = Index (*)(Index, unsigned, const Tables &);
const char *const DTYPES = "bfloat16 float16 float32 float64";
template <class Tables> using Kernels = std::array<Kernel<Tables>, 4>;  // in this order

// Fills the table; numbers of all tensors are repeated in `repeated`, which must live as long as the table.
template <class Tables> bool fill(PyObject *entries, Index n, std::vector<double> &repeated, Tables &tables) {
    std::array<Index, sizeof tables / sizeof(Index)> table;
    if (PyTuple_Size(entries) != Py_ssize_t(table.size())) {
        PyErr_Format(PyExc_ValueError, "a table of %zd entries, not %zd", PyTuple_Size(entries), Py_ssize_t(table.size()));
        return false;
    }
    repeated.resize(table.size() * n);
    for (std::size_t k = 0; k < table.size(); ++k) {
        PyObject *entry = PyTuple_GetItem(entries, k);
        if (entry == Py_None)
            table[k] = 0;
        else if (PyFloat_Check(entry)) {
            double *numbers = repeated.data() + k * n;
            std::fill_n(numbers, n, PyFloat_AsDouble(entry));
            table[k] = reinterpret_cast<Index>(numbers);
        } else
            table[k] = PyLong_AsLongLong(entry);
    }
    std::memcpy(&tables, table.data(), sizeof tables);
    return !PyErr_Occurred();
}

template <class Tables> PyObject *run(PyObject *arguments, const Kernels<Tables> &kernels) {
    int dtype, threads;
    long long n;
    PyObject *entries;
    if (!PyArg_ParseTuple(arguments, "iiLO!", &dtype, &threads, &n, &PyTuple_Type, &entries)) return nullptr;
    std::vector<double> repeated;
    Tables tables;
    if (!fill(entries, n, repeated, tables)) return nullptr;
    for (const Index *tensors : tables.columns())
        if (tensors && !in_memory(n, tensors, tables.numels)) return nullptr;
    const auto kernel = kernels[dtype];
    bool out_of_memory = false;
    Index result = 0;
    Py_BEGIN_ALLOW_THREADS;
    try {
        result = kernel(n, threads, tables);
    } catch (const std::bad_alloc &) {
        out_of_memory = true;
    }
    Py_END_ALLOW_THREADS;
    return out_of_memory ? PyErr_NoMemory() : PyLong_FromLongLong(result);
}

PyObject *py_row_sums(PyObject *, PyObject *arguments) {
    return run<RowTables>(
        arguments, {any_row_sums<bfloat16>, any_row_sums<float16>, any_row_sums<float>, any_row_sums<double>});
}

PyObject *py_update(PyObject *, PyObject *arguments) {
    return run<UpdateTables>(
        arguments, {decided_update<bfloat16>, decided_update<float16>, decided_update<float>, decided_update<double>});
}

PyObject *py_step(PyObject *, PyObject *arguments) {
    return run<UpdateTables>(arguments, {step<bfloat16>, step<float16>, step<float>, step<double>});
}

PyMethodDef methods[] = {
    {"row_sums", py_row_sums, METH_VARARGS, nullptr},
    {"update_", py_update, METH_VARARGS, nullptr},
    {"step_", py_step, METH_VARARGS, nullptr},
    {nullptr, nullptr, 0, nullptr},
};
PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, "kernels", nullptr, -1, methods, nullptr, nullptr, nullptr, nullptr};

}  // namespace

PyMODINIT_FUNC INIT() {  // PyInit_ and the name of the module, as which setup.py compiles this
    parallel = reinterpret_cast<Parallel>(dlsym(RTLD_DEFAULT, "GOMP_parallel"));
    if (!parallel) {
        PyErr_SetString(PyExc_ImportError, "torch has loaded no OpenMP that serves code of GNU's compilers");
        return nullptr;
    }
    PyObject *module = PyModule_Create(&definition);
    if (!module) return nullptr;
    if (PyModule_AddStringConstant(module, "DTYPES", DTYPES) < 0 ||
        PyModule_AddStringConstant(module, "SUM_ENTRIES", SUM_ENTRIES) < 0 ||
        PyModule_AddStringConstant(module, "UPDATE_ENTRIES", UPDATE_ENTRIES) < 0) {
        Py_DECREF(module);
        return nullptr;
    }
    return module;
}
