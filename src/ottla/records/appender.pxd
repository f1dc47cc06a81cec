cimport cython

from ottla.records.builder cimport BatchBuilder


@cython.final
cdef class OpenBatch:
    cdef readonly BatchBuilder builder
    cdef readonly object outcome
    cdef object future
    cdef readonly bint closed
    cdef object lock

    @cython.locals(tail=bytes)
    cpdef object append(self, long long timestamp, bytes key, bytes value, object headers)

    @cython.locals(builder=BatchBuilder, index="long long", key_size=Py_ssize_t, value_size=Py_ssize_t)
    cdef object _append(self, long long timestamp, bytes key, bytes value, bytes tail)

    cpdef void close(self)


cdef long long _now_ms()
