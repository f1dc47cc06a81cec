cimport cython


@cython.locals(at=Py_ssize_t)
cdef int be32(const unsigned char *p, Py_ssize_t at) noexcept

@cython.locals(high="long long")
cdef long long be64(const unsigned char *p, Py_ssize_t at) noexcept


@cython.final
cdef class Scanner:
    cdef bint _check_crc
    cdef long long _max_offset
    cdef int _epoch
    cdef long long _interval
    cdef Py_ssize_t _keep
    cdef long long _since_entry
    cdef dict _recent
    cdef readonly long long position
    cdef readonly long long next_offset
    cdef readonly long long needed
    cdef readonly bint damaged
    cdef readonly long long max_timestamp
    cdef readonly long long offset_of_max_timestamp
    cdef readonly list entries
    cdef readonly list epochs
    cdef readonly list replay

    @cython.locals(
        view="const unsigned char[::1]", p="const unsigned char *", size=Py_ssize_t, at=Py_ssize_t,
        length="long long", nbytes="long long", offset="long long", delta="long long",
    )
    cpdef Py_ssize_t feed(self, object chunk) except -1

    @cython.locals(timestamp="long long", epoch="int", producer_id="long long")
    cdef _note(
        self, const unsigned char *p, Py_ssize_t at, long long position, long long offset, long long last_offset,
        long long nbytes,
    )

    @cython.locals(recent=list)
    cdef _note_producer(self, long long producer_id, long long position, int attributes)
