cimport cython


@cython.locals(rest="unsigned long long", size=Py_ssize_t)
cpdef Py_ssize_t size_of_varlong(long long value) noexcept

@cython.locals(rest="unsigned long long")
cdef Py_ssize_t write_varlong(unsigned char *p, Py_ssize_t pos, long long value) noexcept

cdef Py_ssize_t put(
    unsigned char *p, Py_ssize_t pos, const unsigned char *data, Py_ssize_t start, Py_ssize_t size
) noexcept
