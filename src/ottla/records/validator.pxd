cimport cython

from ottla.records.decoder cimport Cursor


@cython.locals(
    cursor=Cursor, max_timestamp="long long", without_key=list, out_of_bounds=list, i="long long", size=Py_ssize_t,
    record_end=Py_ssize_t, delta="long long", timestamp="long long", highest="long long", lowest="long long", none="long long", overflows=bint, is_wrong=bint,
    offset_delta="long long",
)
cpdef object validate_records(
    object data, long long count, long long base_timestamp, long long earliest, long long latest, bint needs_key
)

@cython.locals(count="long long", size=Py_ssize_t)
cdef int _skip_headers(Cursor cursor) except -1
