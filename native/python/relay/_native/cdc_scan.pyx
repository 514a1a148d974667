"""Table definitions, statements and transactions in the journal, for the CDC service: CdcScan."""

from typing import NamedTuple

from libc.stdint cimport uint32_t, uint64_t
from libcpp cimport bool as cbool
from libcpp.set cimport set as cset
from libcpp.string cimport string
from libcpp.vector cimport vector

from relay._native.base cimport encoded, shown, text_of
from relay._native.failure cimport raise_failure
from relay._native.journal cimport CJournalReader, JournalReader

cdef extern from "serve/cdc_scan.hpp" namespace "relay":
    cdef cppclass CCdcTransaction "relay::CdcTransaction":
        string gtid
        uint32_t server
        uint32_t timestamp
        uint64_t images
        vector[uint32_t] tables

    cdef cppclass CCdcDefinition "relay::CdcDefinition":
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
        vector[CCdcDefinition] definitions()
        vector[CCdcStatement] statements()
        cset[uint32_t] touched()
        vector[string] sources()
        const CNames& name(uint32_t table)
        const CCdcTransaction& last()
        uint64_t position()


class CdcTransaction(NamedTuple):
    """A transaction.

    `gtid` is its GTID as the source writes it, or "". `server` is the id of the server where it was made, `timestamp`
    its time in Unix seconds, `images` its number of row images. `tables` lists the (schema, table) with row images.
    """

    gtid: str
    server: int
    timestamp: int
    images: int
    tables: list


class CdcDefinition(NamedTuple):
    """A packed table definition that holds from `position` on, in the transaction with this GTID.

    The transaction begins at `begin`.
    """

    schema: str
    table: str
    definition: bytes
    position: int
    begin: int
    gtid: str
    server: int


class CdcStatement(NamedTuple):
    """A statement at `position` that defines or empties something.

    `schema` is its default schema. `tables` is packed: the tables after the statement.
    """

    position: int
    schema: str
    text: str
    tables: bytes
    gtid: str
    server: int


cdef class CdcScan:
    """Scans a journal for what the CDC service must know before it reads a table. Decodes no values.

    `position` is between transactions or at the beginning of a segment; 0: the oldest complete transaction. The readers
    of a thread may share `journal`. Raises `JournalError` (journal_lost) if retention has deleted the next frames.
    """

    cdef CCdcScan* c
    cdef JournalReader journal

    def __cinit__(self, JournalReader journal not None, uint64_t position=0):
        self.journal = journal
        self.c = new CCdcScan(journal.c[0], position)

    def __dealloc__(self):
        del self.c

    def read(self, uint64_t until, uint64_t max_bytes):
        """Scans up to the committed position `until`, about `max_bytes` of the journal, without the GIL.

        Returns whether `until`, or the transaction that `find` asked for, is reached.
        """
        cdef cbool reached
        with nogil:
            reached = self.c.read(until, max_bytes)
        return reached

    def find(self, str source, uint64_t number):
        """Lets `read` stop after a transaction. `source` is uuid or uuid:tag of MySQL, or the domain of MariaDB."""
        self.c.find(encoded(source), number)

    @property
    def found(self):
        """Whether `last` is the transaction that `find` asked for."""
        return self.c.found()

    def definitions(self):
        """The CdcDefinitions since the last call, also unchanged ones: each segment repeats them."""
        cdef vector[CCdcDefinition] definitions = self.c.definitions()
        return [
            CdcDefinition(*self.named(d.table), <bytes>d.definition, d.position, d.begin, text_of(d.gtid), d.server)
            for d in definitions
        ]

    def statements(self):
        """A CdcStatement for each statement since the last call."""
        cdef vector[CCdcStatement] statements = self.c.statements()
        return [
            CdcStatement(s.position, shown(s.schema), shown(s.text), <bytes>s.tables, text_of(s.gtid), s.server)
            for s in statements
        ]

    def touched(self):
        """The set of (schema, table) with rows in the transactions that ended since the last call."""
        cdef cset[uint32_t] touched = self.c.touched()
        return {self.named(table) for table in touched}

    def sources(self):
        """The MySQL sources, uuid or uuid:tag, that appeared for the first time since the last call, in order."""
        cdef vector[string] sources = self.c.sources()
        return [text_of(source) for source in sources]

    cdef named(self, uint32_t table):
        cdef CNames name = self.c.name(table)
        return text_of(name.first), text_of(name.second)

    @property
    def last(self):
        """The CdcTransaction that ended last; without GTID, server and time before the first."""
        cdef CCdcTransaction last = self.c.last()
        tables = [self.named(table) for table in last.tables]
        return CdcTransaction(text_of(last.gtid), last.server, last.timestamp, last.images, tables)

    @property
    def position(self):
        """The position between transactions up to which everything is scanned. A new CdcScan may begin there."""
        return self.c.position()
