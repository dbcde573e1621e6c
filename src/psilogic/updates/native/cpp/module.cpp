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

// Each function gets the size of an element (2 is bfloat16), threads, tensors, and a table's addresses

template <class Tables> bool unpack(const char *bytes, Py_ssize_t size, Tables &tables) {
    if (size != sizeof tables) {
        PyErr_Format(PyExc_ValueError, "a table of %zd bytes, not %zd", sizeof tables, size);
        return false;
    }
    std::memcpy(&tables, bytes, sizeof tables);
    return true;
}

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

// Runs without Python's global lock.
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
            arguments, "iiLy#dddd", &itemsize, &threads, &n, &bytes, &size, &h.beta1, &h.beta2, &h.eps, &h.agc_clip) ||
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
    PyModuleDef_HEAD_INIT, "kernels", nullptr, -1, methods, nullptr, nullptr, nullptr, nullptr};

}  // namespace

PyMODINIT_FUNC INIT() {  // PyInit_ and the name of the module, as which setup.py compiles this
    parallel = reinterpret_cast<Parallel>(dlsym(RTLD_DEFAULT, "GOMP_parallel"));
    if (parallel) return PyModule_Create(&definition);
    PyErr_SetString(PyExc_ImportError, "torch has loaded no OpenMP that serves code of GNU's compilers");
    return nullptr;
}
