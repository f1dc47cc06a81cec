cimport cython


@cython.locals(
    size="unsigned int",
    pos="unsigned int",
    p="const unsigned char *",
    mask="unsigned int",
    seed="unsigned int",
    m="unsigned int",
    h="unsigned int",
    k="unsigned int",
)
cpdef unsigned int murmur2(bytes data)
