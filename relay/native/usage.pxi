# Rows of the journal by table, kind and minute: UsageReader.

cdef extern from "usage.hpp" namespace "relay":
    cdef cppclass CTally "relay::Tally":
        uint32_t table
        uint32_t minute
        uint64_t rows[3]
        uint64_t unproven
        uint32_t last

    cdef cppclass CMetTable "relay::MetTable":
        uint32_t table
        string schema
        string name
        string definition

    cdef cppclass CUsageReader "relay::UsageReader":
        CUsageReader(string directory, uint64_t position, uint64_t number) except +raise_failure
        cbool read(uint64_t until, uint64_t max_bytes) except +raise_failure nogil
        vector[CTally] take() except +
        vector[CMetTable] met() except +
        uint64_t position()
        uint64_t number()
        uint64_t missed()
        uint64_t generation() except +raise_failure


class Tally(NamedTuple):
    """Rows of a table (its number in the reader) whose events are of one minute, counted since 1970-01-01 UTC.

    `unproven` of them have columns whose names nothing proves. `last`: time of the last of these events, Unix seconds.
    """

    table: int
    minute: int
    insert: int
    update: int
    delete: int
    unproven: int
    last: int


class MetTable(NamedTuple):
    """A packed definition that rows are of from here on. `table` is counted up from 0 as new names are met."""

    table: int
    schema: str
    name: str
    definition: bytes


cdef class UsageReader:
    """Counts the rows of a journal by table, kind and minute, without a look at their values.

    `position` is where a reader has come to; 0: the oldest frame. Changes below `number` are counted already, also if
    they come again; 0: none is. Raises `JournalError` (journal_lost) if retention has deleted what comes next: a new
    reader from position 0 goes on with what there is, and tells what is missed.
    """

    cdef CUsageReader* c

    def __cinit__(self, directory, uint64_t position=0, uint64_t number=0):
        self.c = new CUsageReader(str(directory).encode("utf-8", "surrogateescape"), position, number)

    def __dealloc__(self):
        del self.c

    def read(self, uint64_t until, uint64_t max_bytes):
        """Count up to the position `until`, which is flushed, about `max_bytes` of the journal, without the GIL.

        Whether it has come to `until`.
        """
        cdef cbool level
        with nogil:
            level = self.c.read(until, max_bytes)
        return level

    def take(self):
        """A Tally of each table and minute that was counted since the last call."""
        cdef vector[CTally] tallies = self.c.take()
        return [Tally(t.table, t.minute, t.rows[0], t.rows[1], t.rows[2], t.unproven, t.last) for t in tallies]

    def met(self):
        """A MetTable of each definition since the last call; also if it is what it was, as each segment repeats it."""
        cdef vector[CMetTable] met = self.c.met()
        return [MetTable(m.table, shown(m.schema), shown(m.name), <bytes>m.definition) for m in met]

    @property
    def position(self):
        """Of the next frame."""
        return self.c.position()

    @property
    def number(self):
        """Of the next change."""
        return self.c.number()

    @property
    def missed(self):
        """Changes that were gone before this reader could count them."""
        return self.c.missed()

    @property
    def generation(self):
        """The journal's id."""
        return self.c.generation()
