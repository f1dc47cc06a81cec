# `size_of_varlong` and `write_varlong` of varint.py, inlined, without a loop for small numbers. Plain Python uses those.
from libc.stdint cimport int64_t, uint64_t


cdef inline Py_ssize_t varlong_size(int64_t value) noexcept:
    cdef uint64_t rest = (<uint64_t> value << 1) ^ <uint64_t> (value >> 63)
    cdef Py_ssize_t size = 2
    if rest < 0x80:
        return 1
    rest >>= 14
    while rest:
        rest >>= 7
        size += 1
    return size


cdef inline Py_ssize_t put_varlong(unsigned char *p, Py_ssize_t pos, int64_t value) noexcept:
    cdef uint64_t rest = (<uint64_t> value << 1) ^ <uint64_t> (value >> 63)
    if rest < 0x80:
        p[pos] = <unsigned char> rest
        return pos + 1
    p[pos] = <unsigned char> (rest | 0x80)
    rest >>= 7
    if rest < 0x80:
        p[pos + 1] = <unsigned char> rest
        return pos + 2
    pos += 1
    while rest >= 0x80:
        p[pos] = <unsigned char> (rest | 0x80)
        rest >>= 7
        pos += 1
    p[pos] = <unsigned char> rest
    return pos + 1
