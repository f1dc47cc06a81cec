cimport cython

from ottla.records.builder cimport BatchBuilder
from ottla.records.murmur2 cimport murmur2


@cython.final
cdef class RecordFuture:
    cdef object _outcome
    cdef long long _index
    cdef long long _timestamp
    cdef Py_ssize_t _key_size
    cdef Py_ssize_t _value_size


@cython.final
cdef class OpenBatch:
    cdef readonly BatchBuilder builder
    cdef readonly object outcome
    cdef readonly bint closed
    cdef object lock

    @cython.locals(tail=bytes)
    cpdef RecordFuture append(self, long long timestamp, bytes key, bytes value, object headers)

    @cython.locals(builder=BatchBuilder, index="long long", future=RecordFuture)
    cdef RecordFuture _append(self, long long timestamp, bytes key, bytes value, bytes tail)

    cpdef void close(self)


cdef class PartitionAppender:
    cdef public OpenBatch open

    cdef OpenBatch current(self)


cdef class TopicAppender:
    cdef public long long count
    cdef public list queues
    cdef public long long version
    cdef public Py_ssize_t sticky_partition
    cdef public Py_ssize_t sticky_left

    cdef object queue_of(self, Py_ssize_t partition)


@cython.final
cdef class DirectAppender:
    cdef dict topics
    cdef object choose_sticky
    cdef public long long version
    cdef public bint enabled

    @cython.locals(
        appenders=TopicAppender, queue=PartitionAppender, count="long long", number="long long", timestamp="long long",
        future=RecordFuture,
    )
    cpdef object append(self, object topic, object value, object key, object partition, object timestamp_ms)

    cpdef Py_ssize_t sticky(self, TopicAppender appenders, Py_ssize_t size) except? -2


cdef class DirectSender:
    cdef DirectAppender _direct


cdef long long _now_ms()
