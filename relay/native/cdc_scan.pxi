# Definitions, statements and transactions of the journal, for the CDC service: CdcScan.

from libcpp.set cimport set as cset

cdef extern from "cdc_scan.hpp" namespace "relay":
    cdef cppclass CCdcTransaction "relay::CdcTransaction":
        string gtid
        uint32_t server
        uint32_t timestamp
        uint64_t images
        vector[uint32_t] tables

    cdef cppclass CCdcMet "relay::CdcMet":
        uint32_t table
        uint64_t position
        uint64_t begin
        string definition
        string gtid
        uint32_t server

    cdef cppclass CCdcStatement "relay::CdcStatement":
        uint64_t position
        string schema
        string text
        string tables
        string gtid
        uint32_t server

    cdef cppclass CNames "std::pair<std::string, std::string>":
        string first
        string second

    cdef cppclass CCdcScan "relay::CdcScan":
        CCdcScan(CJournalReader& journal, uint64_t position) except +raise_failure
        cbool read(uint64_t until, uint64_t max_bytes) except +raise_failure nogil
        void find(string source, uint64_t number)
        cbool found()
        vector[CCdcMet] met()
        vector[CCdcStatement] statements()
        cset[uint32_t] touched()
        vector[string] sources()
        const CNames& name(uint32_t table)
        const CCdcTransaction& last()
        uint64_t position()


class CdcTransaction(NamedTuple):
    """A transaction: its GTID as the source writes it, "" if it has none; the server where it was made; its time, Unix
    seconds; how many row images it has; the (schema, table) of each table that has some."""

    gtid: str
    server: int
    timestamp: int
    images: int
    tables: list


class CdcMet(NamedTuple):
    """A packed definition that rows are of from `position` on, in the transaction with this GTID, which begins at
    `begin`."""

    schema: str
    table: str
    definition: bytes
    position: int
    begin: int
    gtid: str
    server: int


class CdcStatement(NamedTuple):
    """A statement that defines or empties something, at `position`; `schema` is its default one, `tables` packed what it
    leaves."""

    position: int
    schema: str
    text: str
    tables: bytes
    gtid: str
    server: int


cdef class CdcScan:
    """Walks a journal for what the CDC service has to know before it reads a table: without a look at values.

    `position` is between transactions or where a segment begins; 0: the oldest transaction that is whole. `journal` may
    be shared by all readers of a thread. Raises `JournalError` (journal_lost) if retention has deleted what comes next.
    """

    cdef CCdcScan* c
    cdef JournalReader journal

    def __cinit__(self, JournalReader journal not None, uint64_t position=0):
        self.journal = journal
        self.c = new CCdcScan(journal.c[0], position)

    def __dealloc__(self):
        del self.c

    def read(self, uint64_t until, uint64_t max_bytes):
        """Go on up to the position `until`, which is committed, by about `max_bytes`, without the GIL.

        Whether it has come to `until`, or to the transaction that `find` asked for.
        """
        cdef cbool there
        with nogil:
            there = self.c.read(until, max_bytes)
        return there

    def find(self, str source, uint64_t number):
        """Stop behind this transaction: `source` is MySQL's uuid, or uuid:tag, or MariaDB's domain."""
        self.c.find(source.encode("utf-8", "surrogateescape"), number)

    @property
    def found(self):
        """Whether the transaction that `find` asked for is `last`."""
        return self.c.found()

    def met(self):
        """A CdcMet of each definition since the last call; also if it is what it was, as each segment repeats it."""
        cdef vector[CCdcMet] met = self.c.met()
        return [
            CdcMet(*self.named(m.table), <bytes>m.definition, m.position, m.begin, text_of(m.gtid), m.server)
            for m in met
        ]

    def statements(self):
        """A CdcStatement of each since the last call."""
        cdef vector[CCdcStatement] statements = self.c.statements()
        return [
            CdcStatement(s.position, shown(s.schema), shown(s.text), <bytes>s.tables, text_of(s.gtid), s.server)
            for s in statements
        ]

    def touched(self):
        """The set of (schema, table) that had rows in transactions that have ended since the last call."""
        cdef cset[uint32_t] touched = self.c.touched()
        return {self.named(table) for table in touched}

    def sources(self):
        """Those of MySQL's, uuid or uuid:tag, that were met for the first time since the last call, in that order."""
        cdef vector[string] sources = self.c.sources()
        return [text_of(source) for source in sources]

    cdef named(self, uint32_t table):
        cdef CNames name = self.c.name(table)
        return text_of(name.first), text_of(name.second)

    @property
    def last(self):
        """The CdcTransaction that ended last; one without GTID, server and time if none has."""
        cdef CCdcTransaction last = self.c.last()
        tables = [self.named(table) for table in last.tables]
        return CdcTransaction(text_of(last.gtid), last.server, last.timestamp, last.images, tables)

    @property
    def position(self):
        """Between transactions: up to here everything is known. A CdcScan may begin there."""
        return self.c.position()
