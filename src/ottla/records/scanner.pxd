cimport cython


@cython.locals(at=Py_ssize_t)
cdef int be32(const unsigned char *p, Py_ssize_t at) noexcept

@cython.locals(high="long long")
cdef long long be64(const unsigned char *p, Py_ssize_t at) noexcept

@cython.locals(
    p="const unsigned char *", low=Py_ssize_t, high=Py_ssize_t, middle=Py_ssize_t,
    at=Py_ssize_t, value="long long",
)
cpdef Py_ssize_t last_at_most(
    object entries, Py_ssize_t entry_bytes, Py_ssize_t field_at, Py_ssize_t field_bytes, long long target
) except -2

@cython.locals(
    p="const unsigned char *", size=Py_ssize_t, at=Py_ssize_t, magic=int,
    nbytes="long long", next_offset="long long", base_offset="long long", last_offset="long long",
)
cpdef tuple skip_batches(bytes chunk, long long room, long long offset)

cdef bint _is_sound(object batch, int crc, int old_crc) except -1


@cython.final
cdef class Scanner:
    cdef bint _check_crc
    cdef long long _contiguous_from
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
        magic=int, nbytes="long long", offset="long long", delta="long long", timestamp="long long",
        producer_id="long long",
    )
    cpdef Py_ssize_t feed(self, object chunk) except -1

    cdef _note(self, long long position, long long last_offset, long long nbytes, long long timestamp)

    cdef _note_epoch(self, int epoch, long long offset)

    @cython.locals(recent=list)
    cdef _note_producer(self, long long producer_id, long long position, int attributes)
