# The journal as columns for the lake: ChangeReader.

import datetime

cdef extern from "columns.hpp" namespace "relay":
    cdef enum class CForm "relay::Form"(uint8_t):
        lake
        lake_binary_json

cdef extern from "changes.hpp" namespace "relay":
    cdef enum class CWhy "relay::Reached::Why"(uint8_t):
        end
        full
        more
        ddl
        gap
        source
        table

    cdef cppclass CReached "relay::Reached":
        CWhy why
        uint64_t seq
        uint32_t timestamp
        string schema
        string text
        string dialect
        string tables

    cdef cppclass CChangeBatch "relay::ChangeBatch":
        shared_ptr[CColumnBatch] columns
        string definition
        int64_t day
        uint64_t first
        uint64_t last

    cdef cppclass CChangeReader "relay::ChangeReader":
        CChangeReader(string directory, uint64_t position, uint64_t base, CForm form,
                      cbool choose) except +raise_failure
        CReached read(uint64_t until, uint64_t max_bytes) except +raise_failure nogil
        void decide(cbool wanted)
        vector[CChangeBatch] take()
        uint64_t position()
        const string& file()
        uint64_t offset()
        const string& gtid()
        uint32_t timestamp()
        const string& identity()
        uint64_t seq()
        cbool in_transaction()
        uint64_t generation() except +raise_failure


class Reached(NamedTuple):
    """Why a reading stopped.

    `end`: at the position given; `full`: there are as many bytes as may be; `more`: the caller may do something else
    before it reads on, since a good part of the journal has been looked at, whatever was wanted of it; `ddl`: at the
    end of the transaction of a statement (`schema`, `text`; `seq` is its number, `timestamp` its time), which is read
    to its end with its last one; `gap`: events were lost here (`text` is the reason); `source`: from here on it is
    another server (`text` is its identity). `seq` is otherwise that of the last change that was read, `timestamp` that
    of the last transaction, in Unix seconds.
    """

    why: str
    seq: int
    timestamp: int
    schema: str
    text: str
    dialect: bytes
    tables: bytes


cdef class ChangeColumns:
    """Changed rows of one table and UTC date, flat and in Arrow's memory layout, in the order of their `_seq`.

    Any Arrow library takes them without a copy, once: `pyarrow.record_batch(columns)`. Their columns, in this order:
    the table's; a side column of each that needs one, `NAME__text` of dates, `NAME__raw` of texts, `NAME__srid` of
    geometries; `_change_type`, `_commit_version`, `_commit_timestamp`, `_seq`, `_file`, `_pos`, `_gtid`.

    `definition` is the packed Definition of the table, `date` that of the commits (YYYY-MM-DD), `rows` the number of
    flat rows, `first` and `last` are the lowest and highest `_seq`, `sides` the side columns that have a value.
    """

    cdef Columns columns
    cdef readonly bytes definition
    cdef readonly str date
    cdef readonly object first
    cdef readonly object last
    cdef readonly list sides

    @property
    def rows(self):
        return self.columns.rows

    def __arrow_c_array__(self, requested_schema=None):
        """The columns by the Arrow PyCapsule interface, in the types that they have. Once only."""
        return self.columns.__arrow_c_array__()


cdef ChangeColumns change_columns(CChangeBatch& batch):
    cdef ChangeColumns made = ChangeColumns.__new__(ChangeColumns)
    made.columns = Columns.__new__(Columns)
    made.columns.batch.swap(batch.columns)
    made.definition = <bytes>batch.definition
    made.date = (datetime.date(1970, 1, 1) + datetime.timedelta(days=batch.day)).isoformat()
    made.first = batch.first
    made.last = batch.last
    made.sides = [text_of(name) for name in made.columns.batch.get().sides()]
    return made


cdef class ChangeReader:
    """Reads the journal in a folder, transaction by transaction, and gathers its rows in columns for the lake.

    `position` is between transactions, as `position` told it; 0: the oldest transaction that is whole. `base` is added
    to the journal's numbers. `wanted(schema, table)` chooses tables, once for each name; without it all are taken.
    `json`: as "text", or "binary", which is MySQL's own form of it.

    Raises `JournalError` (journal_lost) if retention has deleted what comes next, and `RelayError` for rows that do not
    hold all columns (partial_image) or cannot be decoded (unsupported_column): what was gathered before stays.
    """

    cdef CChangeReader* c
    cdef object wanted

    def __cinit__(self, directory, uint64_t position=0, *, uint64_t base=0, wanted=None, str json="text"):
        if json not in ("text", "binary"):
            raise ValueError(f"JSON is read as 'text' or 'binary', not {json!r}")
        self.wanted = wanted
        self.c = new CChangeReader(
            str(directory).encode("utf-8", "surrogateescape"), position, base,
            CForm.lake if json == "text" else CForm.lake_binary_json, self.wanted is not None,
        )

    def __dealloc__(self):
        del self.c

    def read(self, uint64_t until, uint64_t max_bytes):
        """Gather rows up to the position `until`, which is flushed, without the GIL; the Reached.

        Returns before that with `max_bytes` of columns, maybe within a transaction; and after each statement, gap and
        change of the source, so that rows gathered are of before these. Rows stay gathered until `take`.
        """
        cdef CReached reached
        while True:
            with nogil:
                reached = self.c.read(until, max_bytes)
            if reached.why != CWhy.table:
                break
            self.c.decide(bool(self.wanted(text_of(reached.schema), text_of(reached.text))))
        why = {
            CWhy.end: "end", CWhy.full: "full", CWhy.more: "more", CWhy.ddl: "ddl", CWhy.gap: "gap",
            CWhy.source: "source",
        }
        return Reached(
            why[reached.why], reached.seq, reached.timestamp, text_of(reached.schema), shown(reached.text),
            <bytes>reached.dialect, <bytes>reached.tables,
        )

    def take(self):
        """A list of the ChangeColumns gathered so far, in the order of their first rows."""
        cdef vector[CChangeBatch] batches = self.c.take()
        cdef size_t i
        return [change_columns(batches[i]) for i in range(batches.size())]

    @property
    def position(self):
        """After the last transaction that was read to its end; a ChangeReader may begin there."""
        return self.c.position()

    @property
    def seq(self):
        """Of the last change that was read, also within a transaction."""
        return self.c.seq()

    @property
    def in_transaction(self):
        """Whether some rows of a transaction have been read, and not its end."""
        return self.c.in_transaction()

    @property
    def file(self):
        """The source's binlog file at `position`."""
        return text_of(self.c.file())

    @property
    def offset(self):
        """Where in the file `position` is."""
        return self.c.offset()

    @property
    def gtid(self):
        """Of the last transaction that was read to its end; "" without GTIDs, or before the first."""
        return text_of(self.c.gtid())

    @property
    def timestamp(self):
        """Of its commit, Unix seconds; 0 before the first."""
        return self.c.timestamp()

    @property
    def identity(self):
        """The source's, at `position`."""
        return text_of(self.c.identity())

    @property
    def generation(self):
        """The journal's id."""
        return self.c.generation()
