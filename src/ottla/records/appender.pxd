cimport cython

from ottla.records.builder cimport BatchBuilder
from ottla.records.murmur2 cimport murmur2
from ottla.records.tuples cimport tuple_of

cdef tuple _NO_ITEMS


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


@cython.final
cdef class DirectAppender:
    cdef dict topics
    cdef object metadata
    cdef object sticky
    cdef public bint enabled

    @cython.locals(batch=OpenBatch, count="long long", number="long long", timestamp="long long")
    cpdef object append(self, object topic, object value, object key, object partition, object timestamp_ms)


cdef long long _now_ms()
