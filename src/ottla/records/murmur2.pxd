cimport cython


@cython.locals(size=Py_ssize_t, pos=Py_ssize_t, p="const unsigned char *", h="unsigned int", k="unsigned int")
cpdef unsigned int murmur2(bytes data)
