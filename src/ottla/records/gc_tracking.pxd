cdef extern from "Python.h":
    void PyObject_GC_UnTrack(object)
    void PyObject_GC_Track(object)
    bint PyObject_GC_IsTracked(object)


cdef inline void untrack(object item) noexcept:
    PyObject_GC_UnTrack(item)


cdef inline void track(object item) noexcept:
    if not PyObject_GC_IsTracked(item):
        PyObject_GC_Track(item)
