# C++ exceptions as Python exceptions.

cdef int raise_failure() except *
cdef int raise_queue_failure() except *
