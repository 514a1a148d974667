"""The journal for the CDC service: CdcReader reads the rows of one table, CdcScan what else there is to know."""

from typing import NamedTuple

from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t
from libcpp cimport bool as cbool
from libcpp.set cimport set as cset
from libcpp.string cimport string
from libcpp.vector cimport vector

from relay._native.base cimport encoded, raise_failure, shown, text_of
from relay._native.journal cimport CJournalReader, JournalReader
from relay._native.values cimport CDefinition, CRenderOptions, parsed_definition

cdef extern from "serve/triplet.hpp" namespace "relay":
    cdef cppclass CTriplet "relay::Triplet":
        uint64_t domain
        uint32_t server
        uint64_t sequence

cdef extern from "serve/cdc_form.hpp" namespace "relay":
    cdef enum class CCdcForm "relay::CdcForm"(uint8_t):
        json
        avro

    cdef enum class CCdcValues "relay::CdcValues"(uint8_t):
        exact
        maxscale

    cdef cppclass CCdcField "relay::CdcField":
        string name
        string type
        cbool wide
        string real_type
        int64_t length
        cbool is_unsigned

    vector[CCdcField] c_cdc_fields "relay::cdc_fields"(const CDefinition& definition, CCdcValues values) except +

cdef extern from "serve/cdc.hpp" namespace "relay":
    cdef enum class CCdcWhy "relay::CdcReached::Why"(uint8_t):
        end
        full
        more
        schema
        gap
        no_gtid
        domain

    cdef cppclass CCdcReached "relay::CdcReached":
        CCdcWhy why
        uint64_t position
        string text

    cdef cppclass CCdcReader "relay::CdcReader":
        CCdcReader(CJournalReader& journal, uint64_t position, string schema, string table, CCdcForm form,
                   CCdcValues values, CRenderOptions options, cbool positional) except +raise_failure
        void seek(uint64_t domain, uint64_t sequence)
        void expect(vector[CCdcField] fields)
        CCdcReached read(uint64_t until, uint64_t max_bytes) except +raise_failure nogil
        void set_domain(uint64_t domain)
        const char* bytes()
        uint64_t size()
        uint64_t rows()
        void clear()
        uint64_t position()
        cbool seeking()
        const string& definition()
        const CTriplet& gtid()

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


class CdcField(NamedTuple):
    """A column as a field of the schema that CDC clients receive.

    `type` is the Avro type. Values of a `wide` field above 2^63 - 1 are strings of digits. `real_type` is the type name
    in the table's DDL, `length` the size in its parentheses, or -1.
    """

    name: str
    type: str
    wide: bool
    real_type: str
    length: int
    unsigned: bool


class CdcReached(NamedTuple):
    """Why `CdcReader.read` returned.

    `end`: it reached the position given. `full`: there are `max_bytes` of rows. `more`: the caller may do other work
    before it reads on. `schema`: the next rows have another definition, the reader's `definition`. `gap`: events were
    lost here; `text` is the reason. `no_gtid`: the transaction has no GTID, and the reader cannot continue. `position`
    is the journal position of the frame concerned, or 0.
    """

    why: str
    position: int
    text: str


cdef CCdcValues cdc_values(str values) except *:
    if values not in ("exact", "maxscale"):
        raise ValueError(f"values are exact or maxscale, not {values!r}")
    return CCdcValues.exact if values == "exact" else CCdcValues.maxscale


cdef vector[CCdcField] fields_of(bytes definition, str values) except *:
    return c_cdc_fields(parsed_definition(definition).get()[0], cdc_values(values))


def cdc_fields(bytes definition, str values="exact"):
    """The CdcFields of a packed definition's columns, in order; `values` is exact or maxscale."""
    return [
        CdcField(text_of(f.name), text_of(f.type), f.wide, text_of(f.real_type), f.length, f.is_unsigned)
        for f in fields_of(definition, values)
    ]


cdef object triplet(const CTriplet& gtid):
    return gtid.domain, gtid.server, gtid.sequence


cdef class CdcReader:
    """Reads the rows of one table from a journal, transaction by transaction, for a client of the CDC protocol.

    The readers of a thread may share `journal`; their owner unmaps its segments with `journal.release_before`.
    `position` is between transactions; 0: the oldest complete one. `form` is json (lines) or avro (the records of a
    block, without its header). `values` is exact or maxscale (values as MaxScale writes them). `domain(source)` returns
    the number of a MySQL source, "uuid" or "uuid:tag", and is called once for each; MariaDB's GTIDs contain their
    domain. TIMESTAMP values are in UTC if `utc`, else in the time zone of the process.

    Raises `JournalError` (journal_lost) if retention has deleted the next frames, and `RelayError` for rows with
    unproven column names (schema_unproven, unless `positional`), rows that lack columns (partial_image) and rows that
    cannot be decoded (unsupported_column). Rows of earlier events are kept.
    """

    cdef CCdcReader* c
    cdef JournalReader journal
    cdef object domain
    cdef str values

    def __cinit__(self, JournalReader journal not None, uint64_t position=0, *, str schema, str table, domain,
                  str form="json", str values="exact", bint utc=True, bint positional=False):
        cdef CRenderOptions options
        if form not in ("json", "avro"):
            raise ValueError(f"rows are json or avro, not {form!r}")
        options.utc = utc
        self.journal = journal
        self.domain = domain
        self.values = values
        self.c = new CCdcReader(
            journal.c[0], position, encoded(schema), encoded(table),
            CCdcForm.json if form == "json" else CCdcForm.avro, cdc_values(values), options, positional,
        )

    def __dealloc__(self):
        del self.c

    def seek(self, uint64_t domain, uint64_t sequence):
        """Skips everything before the first transaction of the domain with this number or a higher one."""
        self.c.seek(domain, sequence)

    def expect(self, bytes definition):
        """Makes `read` accept rows of this packed definition, or of one with the same fields, without `schema`."""
        self.c.expect(fields_of(definition, self.values))

    def read(self, uint64_t until, uint64_t max_bytes):
        """Adds rows up to the committed position `until`, without the GIL, and returns a CdcReached.

        Returns earlier with `max_bytes` of rows. Rows are kept until `take`. The caller must take rows of one schema
        before `read` adds rows of another one.
        """
        cdef CCdcReached reached
        while True:
            with nogil:
                reached = self.c.read(until, max_bytes)
            if reached.why != CCdcWhy.domain:
                break
            self.c.set_domain(self.domain(text_of(reached.text)))
        why = {
            CCdcWhy.end: "end", CCdcWhy.full: "full", CCdcWhy.more: "more", CCdcWhy.schema: "schema",
            CCdcWhy.gap: "gap", CCdcWhy.no_gtid: "no_gtid",
        }
        return CdcReached(why[reached.why], reached.position, shown(reached.text))

    def take(self):
        """Removes and returns the rows added so far, as (number, bytes). An update counts as two rows."""
        taken = (self.c.rows(), self.c.bytes()[:self.c.size()] if self.c.size() else b"")
        self.c.clear()
        return taken

    @property
    def size(self):
        """The number of bytes that `take` would return."""
        return self.c.size()

    @property
    def position(self):
        """The position of the current transaction, or after the last one. A new CdcReader may begin there."""
        return self.c.position()

    @property
    def seeking(self):
        """Whether the transaction that `seek` asked for is not reached yet."""
        return self.c.seeking()

    @property
    def definition(self):
        """The packed definition of the next rows, after `read` returned `schema`; empty before the first."""
        cdef string packed = self.c.definition()
        return <bytes>packed

    @property
    def gtid(self):
        """(domain, server id, sequence) of the last transaction with rows of the table, or zeros."""
        return triplet(self.c.gtid())


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
