cimport cython

from ottla.records.decoder cimport Cursor, read_headers, skip_headers


cdef class ConsumerRecord:
    cdef object _topic
    cdef object _key
    cdef object _value
    cdef object _headers
    cdef long long _offset
    cdef long long _timestamp
    cdef int _partition
    cdef int _leader_epoch
    cdef int _timestamp_type

    cdef object _decoded_headers(self)

    @cython.locals(record=ConsumerRecord)
    cpdef ConsumerRecord with_data(self, object key, object value)


@cython.locals(
    cursor=Cursor, leader_epoch="int", append_time="int", base_offset="long long", base_timestamp="long long",
    max_timestamp="long long", count="long long", record_end=Py_ssize_t, headers_start=Py_ssize_t,
    timestamp="long long", offset="long long", record=ConsumerRecord, out=list,
)
cpdef list decode_consumer_records(
    object buf, Py_ssize_t start, object header, long long from_offset, object topic, int partition, object max_bytes=*
)
