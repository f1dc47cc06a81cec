cimport cython
from cpython.array cimport array as c_array

from ottla.records.decoder cimport Cursor


@cython.final
cdef class BinarySink:
    cdef object offsets
    cdef bytearray data
    cdef bytearray validity
    cdef int *o
    cdef unsigned char *d
    cdef unsigned char *v
    cdef Py_ssize_t rows
    cdef Py_ssize_t used
    cdef Py_ssize_t nulls
    cdef Py_ssize_t peak
    cdef Py_ssize_t expected

    @cython.locals(missing=Py_ssize_t, needed=Py_ssize_t, offsets="int[::1]")
    cdef reserve(self, Py_ssize_t rows, Py_ssize_t nbytes)

    cdef void put_null(self) noexcept

    @cython.locals(whole=Py_ssize_t)
    cdef void _begin_validity(self) noexcept

    cdef column(self)


@cython.final
cdef class ColumnDecoder:
    cdef bint with_headers
    cdef Py_ssize_t max_bytes
    cdef Py_ssize_t max_decompressed_bytes
    cdef Py_ssize_t rows
    cdef object offsets
    cdef object timestamps
    cdef object timestamp_types
    cdef object header_counts
    cdef BinarySink keys
    cdef BinarySink values
    cdef BinarySink header_keys
    cdef BinarySink header_values

    @cython.locals(
        append_time="int", base_offset="long long", base_timestamp="long long", max_timestamp="long long",
        offsets="long long[::1]", timestamps="long long[::1]", timestamp_types="int[::1]", row=Py_ssize_t,
        record_end=Py_ssize_t, timestamp="long long", offset="long long", with_headers="bint", count=Py_ssize_t,
        keys=BinarySink, values=BinarySink,
    )
    cdef _decode_rows(self, Cursor cursor, object header, long long from_offset, long long until_offset)

    @cython.locals(count=Py_ssize_t)
    cdef void _headers(self, Cursor cursor, Py_ssize_t row, Py_ssize_t record_end) except *

    @cython.locals(nbytes=Py_ssize_t)
    cdef void _read_headers(self, Cursor cursor, Py_ssize_t count, Py_ssize_t record_end) except *

    @cython.locals(rows=Py_ssize_t, keys=Py_ssize_t, values=Py_ssize_t)
    cdef _decode(self, Cursor cursor, object header, long long from_offset, long long until_offset)


cdef _lengthen(c_array values, Py_ssize_t length)

cdef _lengthen_bytes(bytearray data, Py_ssize_t length)

@cython.locals(size="long long", start=Py_ssize_t, used=Py_ssize_t, row=Py_ssize_t)
cdef int _put(Cursor cursor, BinarySink sink, Py_ssize_t record_end) except -1

cdef int _reject(long long size, Py_ssize_t left) except -1

@cython.locals(row=Py_ssize_t)
cdef _cut(BinarySink sink, Py_ssize_t rows, Py_ssize_t used)
