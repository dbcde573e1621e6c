// What every step looks up of many tensors, each by one call; tensors/memory.py and tensors/lookups.py call it.
//
// torch exports, for the code that its compiler writes, the address of a function that returns the address of a
// tensor's first element: nothing of torch is needed to build this.

#define PY_SSIZE_T_CLEAN
#define Py_LIMITED_API 0x030A0000
#include <Python.h>

#include <cstdint>
#include <cstring>

namespace {

using AddressOf = void *(*)(PyObject *);

// A reference that is given up at the end of the scope.
class Owned {
  public:
    explicit Owned(PyObject *object) : object(object) {}
    ~Owned() { Py_XDECREF(object); }
    Owned(const Owned &) = delete;
    Owned &operator=(const Owned &) = delete;
    explicit operator bool() const { return object != nullptr; }
    PyObject *get() const { return object; }
    PyObject *release() {
        PyObject *released = object;
        object = nullptr;
        return released;
    }

  private:
    PyObject *object;
};

// A tensor of a state, which may be any mapping: a new reference.
PyObject *in_state(PyObject *state, PyObject *name) {
    if (!PyDict_Check(state)) return PyObject_GetItem(state, name);
    PyObject *tensor = PyDict_GetItemWithError(state, name);
    if (!tensor && !PyErr_Occurred()) PyErr_SetObject(PyExc_KeyError, name);
    Py_XINCREF(tensor);
    return tensor;
}

// The address of a tensor; with an error set if there is none.
std::int64_t address_in_memory(AddressOf address_of, PyObject *tensor) {
    try {
        return reinterpret_cast<std::intptr_t>(address_of(tensor));
    } catch (...) {  // no tensor, or one that only wraps others
        PyErr_SetString(PyExc_TypeError, "not every element of the list is a tensor that lies in memory");
        return 0;
    }
}

AddressOf as_function(unsigned long long address) {
    return reinterpret_cast<AddressOf>(static_cast<std::uintptr_t>(address));
}

// Of a list of tensors the addresses, as the bytes of 64-bit integers. With names it is a list of mappings, each of
// which has a tensor under each name: all of the first name come first. `function` is torch's.
PyObject *addresses(PyObject *, PyObject *arguments) {
    unsigned long long function;
    PyObject *list, *names;
    if (!PyArg_ParseTuple(arguments, "KO!O!", &function, &PyList_Type, &list, &PyTuple_Type, &names)) return nullptr;
    const AddressOf address_of = as_function(function);
    const Py_ssize_t count = PyList_Size(list), of_names = PyTuple_Size(names), total = count * (of_names ? of_names : 1);
    Owned found(PyBytes_FromStringAndSize(nullptr, total * sizeof(std::int64_t)));
    if (!found) return nullptr;
    auto *numbers = reinterpret_cast<std::int64_t *>(PyBytes_AsString(found.get()));
    PyObject *name = nullptr;
    for (Py_ssize_t i = 0, k = 0; i < total; ++i, k = k + 1 < count ? k + 1 : 0) {
        PyObject *element = PyList_GetItem(list, k);
        if (of_names && k == 0) name = PyTuple_GetItem(names, i / count);
        if (!name) Py_XINCREF(element);
        Owned tensor(name ? in_state(element, name) : element);
        if (tensor) numbers[i] = address_in_memory(address_of, tensor.get());
        if (PyErr_Occurred()) return nullptr;
    }
    return found.release();
}

// None if each tensor of a list is where it was; if only those from `first` to before `last` are elsewhere, their
// addresses, which replace those before; otherwise no bytes. All addresses are the bytes of 64-bit integers.
PyObject *moved(PyObject *, PyObject *arguments) {
    unsigned long long function;
    PyObject *list, *before;
    Py_ssize_t first, last;
    if (!PyArg_ParseTuple(arguments, "KO!O!nn", &function, &PyList_Type, &list, &PyByteArray_Type, &before, &first, &last))
        return nullptr;
    const AddressOf address_of = as_function(function);
    const Py_ssize_t count = PyList_Size(list), size = sizeof(std::int64_t);
    if (PyByteArray_Size(before) != count * size || first < 0 || last < first || last > count) {
        PyErr_SetString(PyExc_ValueError, "there must be as many addresses as tensors, and the part must be of them");
        return nullptr;
    }
    auto *known = reinterpret_cast<std::int64_t *>(PyByteArray_AsString(before));
    Owned part(PyBytes_FromStringAndSize(nullptr, (last - first) * size));
    if (!part) return nullptr;
    auto *numbers = reinterpret_cast<std::int64_t *>(PyBytes_AsString(part.get()));
    bool part_moved = false;
    for (Py_ssize_t i = 0; i < count; ++i) {
        const std::int64_t address = address_in_memory(address_of, PyList_GetItem(list, i));
        if (PyErr_Occurred()) return nullptr;
        const bool is_elsewhere = address != known[i];
        if (i >= first && i < last) {
            numbers[i - first] = address;
            part_moved |= is_elsewhere;
        } else if (is_elsewhere) {
            return PyBytes_FromStringAndSize(nullptr, 0);
        }
    }
    if (!part_moved) Py_RETURN_NONE;
    std::memcpy(known + first, numbers, (last - first) * size);
    return part.release();
}

// Whether the mappings of a list have, under each name, the very objects of another list, mapping after mapping.
PyObject *have_same(PyObject *, PyObject *arguments) {
    PyObject *list, *names, *objects;
    if (!PyArg_ParseTuple(arguments, "O!O!O!", &PyList_Type, &list, &PyTuple_Type, &names, &PyList_Type, &objects))
        return nullptr;
    const Py_ssize_t count = PyList_Size(list), of_names = PyTuple_Size(names);
    if (PyList_Size(objects) != count * of_names) Py_RETURN_FALSE;
    for (Py_ssize_t i = 0; i < count; ++i) {
        for (Py_ssize_t k = 0; k < of_names; ++k) {
            Owned present(in_state(PyList_GetItem(list, i), PyTuple_GetItem(names, k)));
            if (!present) return nullptr;
            if (present.get() != PyList_GetItem(objects, i * of_names + k)) Py_RETURN_FALSE;
        }
    }
    Py_RETURN_TRUE;
}

// Add the parameters of a group that have a gradient, and these gradients, to lists; returns how many, or -1.
Py_ssize_t add_with_gradient(PyObject *group, PyObject *name, PyObject *attribute, PyObject *params, PyObject *grads) {
    Owned every(PyObject_GetItem(group, name));
    if (!every) return -1;
    const Py_ssize_t count = PySequence_Size(every.get());
    Py_ssize_t added = 0;
    for (Py_ssize_t i = 0; i < count; ++i) {
        Owned param(PySequence_GetItem(every.get(), i));
        if (!param) return -1;
        Owned grad(PyObject_GetAttr(param.get(), attribute));
        if (!grad) return -1;
        if (grad.get() == Py_None) continue;
        if (PyList_Append(params, param.get()) || PyList_Append(grads, grad.get())) return -1;
        ++added;
    }
    return count < 0 ? -1 : added;
}

// Of a list of groups the parameters that have a gradient, these gradients, their number in each group, and the
// addresses of the parameters' objects, as the bytes of 64-bit integers.
PyObject *with_gradient(PyObject *, PyObject *groups) {
    if (!PyList_Check(groups)) {
        PyErr_SetString(PyExc_TypeError, "the groups of an optimizer must be a list");
        return nullptr;
    }
    Owned params(PyList_New(0)), grads(PyList_New(0)), counts(PyList_New(0));
    Owned name(PyUnicode_InternFromString("params")), attribute(PyUnicode_InternFromString("grad"));
    if (!params || !grads || !counts || !name || !attribute) return nullptr;
    const Py_ssize_t of_groups = PyList_Size(groups);
    for (Py_ssize_t i = 0; i < of_groups; ++i) {
        PyObject *group = PyList_GetItem(groups, i);
        const Py_ssize_t added = add_with_gradient(group, name.get(), attribute.get(), params.get(), grads.get());
        if (added < 0) return nullptr;
        Owned number(PyLong_FromSsize_t(added));
        if (!number || PyList_Append(counts.get(), number.get())) return nullptr;
    }
    const Py_ssize_t total = PyList_Size(params.get());
    Owned ids(PyBytes_FromStringAndSize(nullptr, total * sizeof(std::int64_t)));
    if (!ids) return nullptr;
    auto *numbers = reinterpret_cast<std::int64_t *>(PyBytes_AsString(ids.get()));
    for (Py_ssize_t i = 0; i < total; ++i) numbers[i] = reinterpret_cast<std::intptr_t>(PyList_GetItem(params.get(), i));
    return PyTuple_Pack(4, params.get(), grads.get(), counts.get(), ids.get());
}

// Of a list of keys the values in a mapping, which are mappings too, and a list: first the keys, then the elements of
// another list, then what the values have under each name, all of the first name first.
PyObject *columns(PyObject *, PyObject *arguments) {
    PyObject *keys, *others, *mapping, *names;
    if (!PyArg_ParseTuple(arguments, "O!O!OO!", &PyList_Type, &keys, &PyList_Type, &others, &mapping, &PyTuple_Type, &names))
        return nullptr;
    const Py_ssize_t count = PyList_Size(keys), of_others = PyList_Size(others), of_names = PyTuple_Size(names);
    Owned values(PyList_New(count)), all(PyList_New(count + of_others + count * of_names));
    if (!values || !all) return nullptr;
    for (Py_ssize_t i = 0; i < count; ++i) {
        PyObject *key = PyList_GetItem(keys, i);
        Py_INCREF(key);
        PyList_SetItem(all.get(), i, key);
        PyObject *value = PyObject_GetItem(mapping, key);
        if (!value) return nullptr;
        PyList_SetItem(values.get(), i, value);
    }
    for (Py_ssize_t i = 0; i < of_others; ++i) {
        PyObject *other = PyList_GetItem(others, i);
        Py_INCREF(other);
        PyList_SetItem(all.get(), count + i, other);
    }
    Py_ssize_t position = count + of_others;
    for (Py_ssize_t k = 0; k < of_names; ++k) {
        for (Py_ssize_t i = 0; i < count; ++i) {
            PyObject *element = in_state(PyList_GetItem(values.get(), i), PyTuple_GetItem(names, k));
            if (!element) return nullptr;
            PyList_SetItem(all.get(), position++, element);
        }
    }
    return PyTuple_Pack(2, values.get(), all.get());
}

PyMethodDef methods[] = {
    {"addresses", addresses, METH_VARARGS, nullptr},
    {"moved", moved, METH_VARARGS, nullptr},
    {"have_same", have_same, METH_VARARGS, nullptr},
    {"with_gradient", with_gradient, METH_O, nullptr},
    {"columns", columns, METH_VARARGS, nullptr},
    {nullptr, nullptr, 0, nullptr},
};
PyModuleDef definition = {PyModuleDef_HEAD_INIT, "_addresses", nullptr, -1, methods, nullptr, nullptr, nullptr, nullptr};

}  // namespace

PyMODINIT_FUNC PyInit__addresses() { return PyModule_Create(&definition); }
