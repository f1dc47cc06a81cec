cimport cython


cpdef unsigned int murmur2(bytes data)

@cython.locals(
    pos=Py_ssize_t,
    end=Py_ssize_t,
    mask="unsigned int",
    seed="unsigned int",
    m="unsigned int",
    h="unsigned int",
    k="unsigned int",
)
cdef unsigned int _hash(const unsigned char *p, Py_ssize_t start, Py_ssize_t size) noexcept

@cython.locals(
    numbers="int[::1]",
    at="long long[::1]",
    number=Py_ssize_t,
    first=Py_ssize_t,
    offsets="const int[::1]",
    validity="const unsigned char[::1]",
    raw="const unsigned char[::1]",
    nbytes=Py_ssize_t,
    p="const unsigned char *",
    nullable=bint,
    row=Py_ssize_t,
    i=Py_ssize_t,
    start=Py_ssize_t,
    size=Py_ssize_t,
)
cpdef list rows_by_partition(object keys, Py_ssize_t rows, Py_ssize_t count)

@cython.locals(numbers="int[::1]", at="long long[::1]", number=Py_ssize_t, row=Py_ssize_t, rows=Py_ssize_t, key=bytes)
cpdef list list_rows_by_partition(list keys, Py_ssize_t count)

@cython.locals(out="long long[::1]", row=Py_ssize_t)
cpdef object all_rows(Py_ssize_t rows)

@cython.locals(total=Py_ssize_t)
cpdef Py_ssize_t bytes_in_list(list items) except? -2

@cython.locals(
    numbers="int[::1]", out="long long[::1]", at="long long[::1]", number=Py_ssize_t, row=Py_ssize_t, rows=Py_ssize_t,
)
cdef list _sorted_rows(object chosen, Py_ssize_t count, object ends)
