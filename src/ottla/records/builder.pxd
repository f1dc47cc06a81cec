cimport cython

from ottla.records.varint cimport put


@cython.final
cdef class _ColumnReader:
    cdef const int[::1] offsets
    cdef const unsigned char[::1] data
    cdef const unsigned char[::1] validity
    cdef const unsigned char *p
    cdef Py_ssize_t first
    cdef Py_ssize_t bounds
    cdef Py_ssize_t data_size
    cdef Py_ssize_t start
    cdef bint nullable

    @cython.locals(i=Py_ssize_t, size=Py_ssize_t)
    cdef Py_ssize_t find(self, Py_ssize_t row) except? -2


@cython.final
cdef class BatchBuilder:
    cdef public bytearray buffer
    cdef public int codec
    cdef public object level
    cdef readonly object delete_horizon_ms
    cdef public long long base_offset
    cdef public long long base_timestamp
    cdef public long long max_timestamp
    cdef readonly Py_ssize_t limit
    cdef readonly Py_ssize_t position
    cdef readonly Py_ssize_t largest
    cdef readonly long long count
    cdef readonly long long last_delta

    @cython.locals(key_size=Py_ssize_t, value_size=Py_ssize_t, tail_size=Py_ssize_t, pos=Py_ssize_t, p="unsigned char *")
    cdef bint _append(self, long long offset, long long timestamp, bytes key, bytes value, bytes tail) except -1

    @cython.locals(base="long long", time_delta="long long", delta="long long", body=Py_ssize_t, pos=Py_ssize_t, p="unsigned char *")
    cdef Py_ssize_t _begin(
        self, long long offset, long long timestamp, Py_ssize_t key_size, Py_ssize_t value_size, Py_ssize_t tail_size
    ) except? -2

    @cython.locals(
        fixed_time=bint, with_keys=bint, fixed="long long", times="const long long[::1]", row_numbers="const long long[::1]", k=_ColumnReader, v=_ColumnReader, timestamp="long long",
        key_size=Py_ssize_t, value_size=Py_ssize_t, pos=Py_ssize_t, i=Py_ssize_t, row=Py_ssize_t, p="unsigned char *",
    )
    cpdef append_columns(self, object timestamps, object keys, object values, object rows, Py_ssize_t start=*)

    @cython.locals(
        fixed_time=bint, fixed="long long", times="const long long[::1]", row_numbers="const long long[::1]", row_count=Py_ssize_t, key=bytes, timestamp="long long", i=Py_ssize_t,
        row=Py_ssize_t,
    )
    cpdef append_list(self, object timestamps, list keys, list values, object rows, Py_ssize_t start=*)
