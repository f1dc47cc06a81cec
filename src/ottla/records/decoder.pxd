cimport cython
from libc.stdint cimport int64_t

from ottla.records.tuples cimport tuple_of


@cython.final
cdef class Cursor:
    cdef const unsigned char[::1] data
    cdef const unsigned char *p
    cdef public Py_ssize_t pos
    cdef readonly Py_ssize_t end

    @cython.locals(p="const unsigned char *", pos=Py_ssize_t, raw="unsigned long long", shift="int", byte="unsigned int")
    cdef int64_t varlong(self) except? -7777

    @cython.locals(start=Py_ssize_t, value="long long", byte="int")
    cdef int64_t varint(self) except? -7777

    @cython.locals(size="long long")
    cdef Py_ssize_t size32(self) except? -7777

    @cython.locals(size="long long")
    cdef Py_ssize_t size(self) except? -7777

    @cython.locals(size=Py_ssize_t)
    cdef Py_ssize_t begin_record(self) except? -7777

    cdef int reject_size(self, long long size) except -1

    cdef int reject_record(self, long long size) except -1

    @cython.locals(start=Py_ssize_t)
    cdef bytes read_bytes(self, Py_ssize_t size)

    cdef void skip(self, Py_ssize_t size) noexcept

    @cython.locals(count="long long")
    cdef Py_ssize_t header_count(self) except? -7777


cdef unsigned long long _wide(unsigned int value) noexcept

@cython.locals(
    cursor=Cursor, append_time="int", base_offset="long long", base_timestamp="long long", max_timestamp="long long",
    record_end=Py_ssize_t, timestamp="long long", offset="long long", key=bytes, value=bytes, headers=list, out=list,
)
cpdef list decode_records(object buf, Py_ssize_t start, object header, long long from_offset=*)

@cython.locals(cursor=Cursor)
cpdef list first_headers(object buf, Py_ssize_t start, object header)

@cython.locals(headers=list, name=bytes)
cpdef list read_headers(Cursor cursor)

@cython.locals(count=Py_ssize_t, size=Py_ssize_t)
cdef Py_ssize_t skip_headers(Cursor cursor) except -1
