"""Rows of the journal by table, kind and minute: UsageReader."""

from typing import NamedTuple

from libc.stdint cimport uint32_t, uint64_t
from libcpp cimport bool as cbool
from libcpp.string cimport string
from libcpp.vector cimport vector

from relay._native.base cimport encoded, raise_failure, shown

cdef extern from "formats/usage.hpp" namespace "relay":
    cdef cppclass CTally "relay::Tally":
        uint32_t table
        uint32_t minute
        uint64_t rows[3]
        uint64_t unproven
        uint32_t last

    cdef cppclass CTableDefinition "relay::TableDefinition":
        uint32_t table
        string schema
        string name
        string definition

    cdef cppclass CUsageReader "relay::UsageReader":
        CUsageReader(string directory, uint64_t position, uint64_t number) except +raise_failure
        cbool read(uint64_t until, uint64_t max_bytes) except +raise_failure nogil
        vector[CTally] take() except +
        vector[CTableDefinition] definitions() except +
        uint64_t position()
        uint64_t number()
        uint64_t missed()
        uint64_t generation() except +raise_failure


class Tally(NamedTuple):
    """The number of rows of a table, by kind, whose events have timestamps within one minute.

    `table` is the number in TableDefinition, `minute` counts from 1970-01-01 UTC. `unproven` is the number of rows
    with unproven column names, `last` the time of the last event in Unix seconds.
    """

    table: int
    minute: int
    insert: int
    update: int
    delete: int
    unproven: int
    last: int


class TableDefinition(NamedTuple):
    """A packed table definition in the journal. `table` numbers the names from 0, in order of appearance."""

    table: int
    schema: str
    name: str
    definition: bytes


cdef class UsageReader:
    """Counts the rows of a journal by table, kind and minute, without decoding values.

    `position` is the `position` of an earlier reader; 0: the oldest frame. Changes with numbers below `number` are not
    counted again; 0: all are counted. Raises `JournalError` (journal_lost) if retention has deleted the next frames. A
    new reader from position 0 then continues with the oldest frame, and `missed` counts the changes in between.
    """

    cdef CUsageReader* c

    def __cinit__(self, directory, uint64_t position=0, uint64_t number=0):
        self.c = new CUsageReader(encoded(str(directory)), position, number)

    def __dealloc__(self):
        del self.c

    def read(self, uint64_t until, uint64_t max_bytes):
        """Counts up to the flushed position `until`, about `max_bytes` of the journal, without the GIL.

        Returns whether `until` is reached.
        """
        cdef cbool reached
        with nogil:
            reached = self.c.read(until, max_bytes)
        return reached

    def take(self):
        """A list with a Tally for each table and minute counted since the last call."""
        cdef vector[CTally] tallies = self.c.take()
        return [Tally(t.table, t.minute, t.rows[0], t.rows[1], t.rows[2], t.unproven, t.last) for t in tallies]

    def definitions(self):
        """The TableDefinitions since the last call, also unchanged ones: each segment repeats them."""
        cdef vector[CTableDefinition] definitions = self.c.definitions()
        return [TableDefinition(d.table, shown(d.schema), shown(d.name), <bytes>d.definition) for d in definitions]

    @property
    def position(self):
        """The position of the next frame."""
        return self.c.position()

    @property
    def number(self):
        """The number of the next change."""
        return self.c.number()

    @property
    def missed(self):
        """The number of changes that retention deleted before this reader counted them."""
        return self.c.missed()

    @property
    def generation(self):
        """The journal's id."""
        return self.c.generation()
