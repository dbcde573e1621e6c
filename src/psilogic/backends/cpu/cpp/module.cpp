// The functions that kernels.py calls: sums over the rows of many tensors, and the update of many tensors.
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

#include "process.h"
#include "sums.h"
#include "update.h"

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

// An entry of a table that stands for a number of all tensors: the next one of those that are given.
const Index REPEATED = -1;

// Each function gets the size of an element (2 is bfloat16), threads, tensors, the addresses of its tables, and the numbers
// of all tensors. It runs without Python's global lock.

template <class Tables>
PyObject *run(PyObject *arguments, Kernel<Tables> of_bfloat16, Kernel<Tables> of_float, Kernel<Tables> of_double) {
    int itemsize, threads;
    long long n;
    const char *table, *numbers;
    Py_ssize_t size, bytes;
    Tables tables;
    if (!PyArg_ParseTuple(arguments, "iiLy#y#", &itemsize, &threads, &n, &table, &size, &numbers, &bytes)) return nullptr;
    if (size != sizeof tables) {
        PyErr_Format(PyExc_ValueError, "a table of %zd bytes, not %zd", size, sizeof tables);
        return nullptr;
    }
    std::array<Index, sizeof tables / sizeof(Index)> entries;
    std::memcpy(entries.data(), table, sizeof tables);
    std::vector<double> repeated(bytes / sizeof(double) * n);
    double *next = repeated.data();
    for (Index &entry : entries)
        if (entry == REPEATED) {
            double number;
            std::memcpy(&number, numbers, sizeof number);
            std::fill_n(next, n, number);
            entry = reinterpret_cast<Index>(next);
            next += n, numbers += sizeof number;
        }
    std::memcpy(&tables, entries.data(), sizeof tables);
    for (const Index *tensors : tables.columns())
        if (!in_memory(n, tensors, tables.numels)) return nullptr;
    const auto kernel = itemsize == 2 ? of_bfloat16 : itemsize == 4 ? of_float : of_double;
    bool out_of_memory = false;
    Py_BEGIN_ALLOW_THREADS;
    try {
        kernel(n, threads, tables);
    } catch (const std::bad_alloc &) {
        out_of_memory = true;
    }
    Py_END_ALLOW_THREADS;
    if (out_of_memory) return PyErr_NoMemory();
    Py_RETURN_NONE;
}

PyObject *py_row_sums(PyObject *, PyObject *arguments) {
    return run(arguments, any_row_sums<bfloat16>, any_row_sums<float>, any_row_sums<double>);
}

template <class T> constexpr Kernel<UpdateTables> update_kernel = with_detector<T, any_update<T>>;
template <class T> constexpr Kernel<UpdateTables> process_kernel = with_detector<T, any_process_and_update<T>>;

PyObject *py_update(PyObject *, PyObject *arguments) {
    return run(arguments, update_kernel<bfloat16>, update_kernel<float>, update_kernel<double>);
}

PyObject *py_process_and_update(PyObject *, PyObject *arguments) {
    return run(arguments, process_kernel<bfloat16>, process_kernel<float>, process_kernel<double>);
}

PyObject *py_cancel(PyObject *, PyObject *arguments) {
    return run(arguments, cancel<bfloat16>, cancel<float>, cancel<double>);
}

PyMethodDef methods[] = {
    {"row_sums", py_row_sums, METH_VARARGS, nullptr},
    {"update_", py_update, METH_VARARGS, nullptr},
    {"process_and_update_", py_process_and_update, METH_VARARGS, nullptr},
    {"cancel_", py_cancel, METH_VARARGS, nullptr},
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
    if (PyModule_AddStringConstant(module, "SUM_ENTRIES", SUM_ENTRIES) < 0 ||
        PyModule_AddStringConstant(module, "UPDATE_ENTRIES", UPDATE_ENTRIES) < 0) {
        Py_DECREF(module);
        return nullptr;
    }
    return module;
}
