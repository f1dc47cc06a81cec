from libc.stdint cimport int64_t, uint64_t

from ottla.records.decoder cimport Cursor


cdef inline int64_t next_varlong(Cursor cursor) except? -7777:
    cdef const unsigned char *p = cursor.p + cursor.pos
    cdef uint64_t raw
    if cursor.pos < cursor.end - 1:
        raw = p[0]
        if raw < 0x80:
            cursor.pos += 1
            return <int64_t> (raw >> 1) ^ -(<int64_t> (raw & 1))
        if p[1] < 0x80:
            raw = (raw & 0x7F) | <uint64_t> p[1] << 7
            cursor.pos += 2
            return <int64_t> (raw >> 1) ^ -(<int64_t> (raw & 1))
    return cursor.varlong()


cdef inline int64_t next_varint(Cursor cursor) except? -7777:
    cdef const unsigned char *p = cursor.p + cursor.pos
    cdef int64_t raw
    if cursor.pos < cursor.end - 1:
        raw = p[0]
        if raw < 0x80:
            cursor.pos += 1
            return (raw >> 1) ^ -(raw & 1)
        if p[1] < 0x80:
            raw = (raw & 0x7F) | <int64_t> p[1] << 7
            cursor.pos += 2
            return (raw >> 1) ^ -(raw & 1)
    return cursor.varint()


cdef inline Py_ssize_t next_size32(Cursor cursor) except? -7777:
    cdef int64_t size = next_varint(cursor)
    if size < -1 or size > cursor.end - cursor.pos:
        cursor.reject_size(size)
    return size


cdef inline Py_ssize_t next_size(Cursor cursor) except? -7777:
    cdef int64_t size = next_varlong(cursor)
    if size < -1 or size > cursor.end - cursor.pos:
        cursor.reject_size(size)
    return size


cdef inline Py_ssize_t begin_record(Cursor cursor) except? -7777:
    cdef Py_ssize_t size = next_size(cursor)
    if size < 1:
        cursor.reject_record(size)
    cursor.pos += 1
    return cursor.pos + size - 1
