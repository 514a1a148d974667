"""A text that one process shows to others: TextPage."""

from cpython.buffer cimport PyBUF_WRITABLE, PyBuffer_Release, PyObject_GetBuffer
from libcpp.string cimport string
from libcpp.string_view cimport string_view

from relay._native.base cimport view
from relay._native.failure import QueueError

cdef extern from "base/text_page.hpp" namespace "relay":
    cdef cppclass CTextPage "relay::TextPage":
        @staticmethod
        size_t size_for(size_t capacity)
        CTextPage(void* memory, size_t capacity)
        size_t capacity()
        void write(string_view text)
        string read()


cdef class TextPage:
    """A text in a writable buffer of `size(capacity)` zeroed bytes, aligned to 8. One process writes it."""

    cdef Py_buffer view
    cdef bint viewed
    cdef CTextPage* c

    def __cinit__(self, memory, size_t capacity):
        PyObject_GetBuffer(memory, &self.view, PyBUF_WRITABLE)
        self.viewed = True
        if <size_t>self.view.len < CTextPage.size_for(capacity):
            raise QueueError(f"{self.view.len} bytes of shared memory are too few")
        self.c = new CTextPage(self.view.buf, capacity)

    def __dealloc__(self):
        del self.c
        if self.viewed:
            PyBuffer_Release(&self.view)

    @staticmethod
    def size(size_t capacity):
        """The size of the buffer of a page."""
        return CTextPage.size_for(capacity)

    def write(self, bytes text):
        """Shows `text`, from one instant on. Raises ValueError if it does not fit."""
        if <size_t>len(text) > self.c.capacity():
            raise ValueError(f"{len(text)} bytes for a status page of {self.c.capacity()}")
        self.c.write(view(text))

    def read(self):
        """The text that was shown last."""
        return self.c.read()
