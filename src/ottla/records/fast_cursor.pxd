from libc.stdint cimport int64_t, uint64_t

from ottla.records.decoder cimport Cursor


cdef inline bint next_short(Cursor cursor, int64_t *value) noexcept:
    # A varint of one or two bytes, which most are; False if the next one is longer, or may be incomplete.
    cdef const unsigned char *p = cursor.p + cursor.pos
    cdef uint64_t raw
    if cursor.pos >= cursor.end - 1:
        return False
    raw = p[0]
    if raw < 0x80:
        cursor.pos += 1
    elif p[1] < 0x80:
        raw = (raw & 0x7F) | <uint64_t> p[1] << 7
        cursor.pos += 2
    else:
        return False
    value[0] = <int64_t> (raw >> 1) ^ -(<int64_t> (raw & 1))
    return True


cdef inline int64_t next_varlong(Cursor cursor) except? -7777:
    cdef int64_t value
    return value if next_short(cursor, &value) else cursor.varlong()


cdef inline int64_t next_varint(Cursor cursor) except? -7777:
    cdef int64_t value
    return value if next_short(cursor, &value) else cursor.varint()


cdef inline void skip(Cursor cursor, Py_ssize_t size) noexcept:
    if size > 0:
        cursor.pos += size


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
