// The addresses of many tensors in one call; tensors/memory.py calls it.
//
// torch exports, for the code that its compiler writes, the address of a function that returns the address of a
// tensor's first element: nothing of torch is needed to build this.

#define PY_SSIZE_T_CLEAN
#define Py_LIMITED_API 0x030A0000
#include <Python.h>

#include <cstdint>

namespace {

using AddressOf = void *(*)(PyObject *);

// A tensor of a state, which may be any mapping: a new reference.
PyObject *in_state(PyObject *state, PyObject *name) {
    if (!PyDict_Check(state)) return PyObject_GetItem(state, name);
    PyObject *tensor = PyDict_GetItemWithError(state, name);
    if (!tensor && !PyErr_Occurred()) PyErr_SetObject(PyExc_KeyError, name);
    Py_XINCREF(tensor);
    return tensor;
}

// Of a list of tensors the addresses, as the bytes of 64-bit integers. With names it is a list of mappings, each of
// which has a tensor under each name: all of the first name come first. `function` is torch's.
PyObject *addresses(PyObject *, PyObject *arguments) {
    unsigned long long function;
    PyObject *list, *names;
    if (!PyArg_ParseTuple(arguments, "KO!O!", &function, &PyList_Type, &list, &PyTuple_Type, &names)) return nullptr;
    const auto address_of = reinterpret_cast<AddressOf>(static_cast<std::uintptr_t>(function));
    const Py_ssize_t count = PyList_Size(list), of_names = PyTuple_Size(names), total = count * (of_names ? of_names : 1);
    PyObject *found = PyBytes_FromStringAndSize(nullptr, total * sizeof(std::int64_t));
    if (!found) return nullptr;
    auto *numbers = reinterpret_cast<std::int64_t *>(PyBytes_AsString(found));
    PyObject *name = nullptr;
    for (Py_ssize_t i = 0, k = 0; i < total; ++i, k = k + 1 < count ? k + 1 : 0) {
        PyObject *tensor = PyList_GetItem(list, k);
        if (of_names && k == 0) name = PyTuple_GetItem(names, i / count);
        if (name)
            tensor = in_state(tensor, name);
        else
            Py_XINCREF(tensor);
        try {
            if (tensor) numbers[i] = reinterpret_cast<std::intptr_t>(address_of(tensor));
        } catch (...) {  // no tensor, or one that only wraps others
            PyErr_SetString(PyExc_TypeError, "not every element of the list is a tensor that lies in memory");
        }
        Py_XDECREF(tensor);
        if (PyErr_Occurred()) {
            Py_DECREF(found);
            return nullptr;
        }
    }
    return found;
}

PyMethodDef methods[] = {{"addresses", addresses, METH_VARARGS, nullptr}, {nullptr, nullptr, 0, nullptr}};
PyModuleDef definition = {PyModuleDef_HEAD_INIT, "_addresses", nullptr, -1, methods, nullptr, nullptr, nullptr, nullptr};

}  // namespace

PyMODINIT_FUNC PyInit__addresses() { return PyModule_Create(&definition); }
