from cpython.ref cimport Py_INCREF
from cpython.tuple cimport PyTuple_GET_SIZE, PyTuple_SET_ITEM


cdef extern from "Python.h":
    ctypedef object (*ottla_alloc "allocfunc")(type, Py_ssize_t)

    ctypedef struct ottla_type "PyTypeObject":
        ottla_alloc tp_alloc


cdef inline object tuple_of(object cls, tuple first, tuple second):
    # as tuple.__new__ does for a subclass, but without another tuple of all items
    cdef Py_ssize_t before = PyTuple_GET_SIZE(first)
    cdef Py_ssize_t size = before + PyTuple_GET_SIZE(second)
    cdef object made = (<ottla_type *> cls).tp_alloc(<type> cls, size)
    cdef object item
    cdef Py_ssize_t i
    for i in range(size):
        item = first[i] if i < before else second[i - before]
        Py_INCREF(item)
        PyTuple_SET_ITEM(made, i, item)
    return made
