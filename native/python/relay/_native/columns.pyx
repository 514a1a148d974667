"""Rows as Arrow columns: Columns, and ChangeReader, which collects a journal's rows in them for the lake."""

import datetime
from typing import NamedTuple

from cpython.pycapsule cimport PyCapsule_GetPointer, PyCapsule_New
from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free
from libcpp cimport bool as cbool
from libcpp.memory cimport shared_ptr
from libcpp.string cimport string
from libcpp.vector cimport vector

from relay._native.base cimport Bytes, encoded, raise_failure, raw, shown, text_of
from relay._native.values cimport (
    CDefinition, CRow, CRowKind, CRowsBody, CWalk, c_walk_rows, parsed_definition, skip_image,
)

cdef extern from "formats/columns.hpp" namespace "relay":
    cdef enum class CForm "relay::Form"(uint8_t):
        lake
        lake_binary_json

cdef extern from "formats/changes.hpp" namespace "relay":
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
        uint64_t position

    cdef cppclass CChangeBatch "relay::ChangeBatch":
        shared_ptr[CColumnBatch] columns
        string definition
        int64_t day
        uint64_t first
        uint64_t last

    cdef cppclass CChangeReader "relay::ChangeReader":
        CChangeReader(string directory, uint64_t position, uint64_t base, CForm form,
                      cbool choose) except +raise_failure
        CReached read(uint64_t until, uint64_t max_bytes, uint64_t max_within) except +raise_failure nogil
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


cdef void release_schema(object capsule) noexcept:
    cdef ArrowSchema* schema = <ArrowSchema*>PyCapsule_GetPointer(capsule, "arrow_schema")
    if schema.release != NULL:
        schema.release(schema)
    free(schema)


cdef void release_array(object capsule) noexcept:
    cdef ArrowArray* array = <ArrowArray*>PyCapsule_GetPointer(capsule, "arrow_array")
    if array.release != NULL:
        array.release(array)
    free(array)


cdef class Columns:
    """Rows of one table definition, flat, in Arrow's memory layout. docs/protocol.md lists the columns.

    Any Arrow library imports them without a copy: `pyarrow.record_batch(columns)`. After that, `add` raises.
    """

    def __cinit__(self, bytes definition=None):
        if definition is not None:  # else made by Cython code, which sets `batch`
            self.batch.reset(new CColumnBatch(parsed_definition(definition)))

    def add(self, int kind, bytes body not None, *, uint64_t sequence=1, uint64_t position=0):
        """Adds the rows of a rows event. `body` starts at its column count; the rows are numbered from `sequence`.

        Raises `ValueError` at a row that cannot be decoded; the rows before it are kept.
        """
        cdef CRowsBody parsed
        cdef CRow row
        cdef string error
        cdef const CDefinition* definition = &self.batch.get().definition()
        cdef CRowKind row_kind = <CRowKind>kind
        cdef const uint8_t* at
        cdef const uint8_t* start
        if self.given:
            raise ValueError("the columns have been exported already")
        if not CRowsBody.parse(raw(body), row_kind, &parsed):
            raise ValueError("the rows event is malformed")
        cdef CWalk walk = c_walk_rows(definition[0], parsed)
        if not walk.ok:
            raise ValueError(f"the rows event does not fit its table: after row {walk.rows}")
        row.definition = definition
        row.kind = row_kind
        row.before_present = parsed.before
        row.after_present = parsed.after
        row.position = position
        at = parsed.images.data
        for number in range(walk.rows):
            start = at
            at = skip_image(definition[0], parsed.before, start, parsed.images.end())
            row.before = Bytes(start, at - start)
            if parsed.after != NULL:
                start = at
                at = skip_image(definition[0], parsed.after, start, parsed.images.end())
                row.after = Bytes(start, at - start)
            if self.batch.get().add(row, sequence + number, &error) != ColumnsAdded.yes:
                raise ValueError(shown(error))

    @property
    def rows(self):
        """The number of flat rows; an update counts twice."""
        return self.batch.get().rows()

    @property
    def stream_bytes(self):
        """An upper bound of the size of these columns as an Arrow IPC stream."""
        return self.batch.get().stream_bytes()

    def __arrow_c_array__(self, requested_schema=None):
        """Exports the columns through the Arrow PyCapsule interface, once; `requested_schema` is ignored."""
        if self.given:
            raise ValueError("the columns have been exported already")
        cdef ArrowSchema* schema = <ArrowSchema*>calloc(1, sizeof(ArrowSchema))
        schema_capsule = PyCapsule_New(schema, "arrow_schema", release_schema)
        cdef ArrowArray* array = <ArrowArray*>calloc(1, sizeof(ArrowArray))
        array_capsule = PyCapsule_New(array, "arrow_array", release_array)
        self.given = True
        CColumnBatch.give(self.batch, schema, array)
        return schema_capsule, array_capsule


class Reached(NamedTuple):
    """Why `ChangeReader.read` returned.

    `end`: it reached the position given. `full`: there are `max_bytes` of columns. `more`: it has scanned a large part
    of the journal, wanted or not, and the caller may do other work before it reads on. `ddl`: a statement (`schema`,
    `text`; `seq` is its number, `timestamp` its time, `position` that of its frame) at the end of its transaction; the
    transaction is complete with its last statement. `gap`: events were lost here; `text` is the reason. `source`:
    another server follows; `text` is its identity. Except for `ddl`, `seq` is that of the last change read, and
    `timestamp` that of the last transaction, in Unix seconds.
    """

    why: str
    seq: int
    timestamp: int
    schema: str
    text: str
    dialect: bytes
    tables: bytes
    position: int


cdef class ChangeColumns:
    """Changed rows of one table and UTC date, flat and in Arrow's memory layout, in the order of their `_seq`.

    Any Arrow library imports them without a copy, once: `pyarrow.record_batch(columns)`. The columns, in this order:
    the table's; the side columns, `NAME__text` for dates, `NAME__raw` for texts, `NAME__srid` for geometries;
    `_change_type`, `_commit_version`, `_commit_timestamp`, `_seq`, `_file`, `_pos`, `_gtid`.

    `definition` is the table's packed Definition, `date` the date of the commits (YYYY-MM-DD), `rows` the number of
    flat rows, `first` and `last` are the lowest and the highest `_seq`, `sides` names the side columns with a value.
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
        """Exports the columns through the Arrow PyCapsule interface, once; `requested_schema` is ignored."""
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
    """Reads the journal in a folder, transaction by transaction, and collects its rows in columns for the lake.

    `position` is the `position` of an earlier reader; 0: the oldest complete transaction. `base` is added to the
    journal's row numbers. `wanted(schema, table)` selects tables and is called once for each name; None selects all.
    `json` is "text" or "binary", MySQL's binary format.

    Raises `JournalError` (journal_lost) if retention has deleted the next frames, and `RelayError` for rows that lack
    columns (partial_image) or cannot be decoded (unsupported_column). Rows collected before the error are kept.
    """

    cdef CChangeReader* c
    cdef object wanted

    def __cinit__(self, directory, uint64_t position=0, *, uint64_t base=0, wanted=None, str json="text"):
        if json not in ("text", "binary"):
            raise ValueError(f"JSON is read as 'text' or 'binary', not {json!r}")
        self.wanted = wanted
        self.c = new CChangeReader(
            encoded(str(directory)), position, base, CForm.lake if json == "text" else CForm.lake_binary_json,
            wanted is not None,
        )

    def __dealloc__(self):
        del self.c

    def read(self, uint64_t until, uint64_t max_bytes, max_within=None):
        """Collects rows up to the flushed position `until`, without the GIL, and returns a Reached.

        Returns earlier with `max_bytes` of columns, within a transaction with `max_within` (None: the same), and after
        each statement, gap and change of the source, so that all collected rows precede these. Rows are kept until
        `take`.
        """
        cdef uint64_t within = max_bytes if max_within is None else max_within
        cdef CReached reached
        while True:
            with nogil:
                reached = self.c.read(until, max_bytes, within)
            if reached.why != CWhy.table:
                break
            self.c.decide(bool(self.wanted(text_of(reached.schema), text_of(reached.text))))
        why = {
            CWhy.end: "end", CWhy.full: "full", CWhy.more: "more", CWhy.ddl: "ddl", CWhy.gap: "gap",
            CWhy.source: "source",
        }
        return Reached(
            why[reached.why], reached.seq, reached.timestamp, text_of(reached.schema), shown(reached.text),
            <bytes>reached.dialect, <bytes>reached.tables, reached.position,
        )

    def take(self):
        """Removes and returns the ChangeColumns collected so far, a list in the order of their first rows."""
        cdef vector[CChangeBatch] batches = self.c.take()
        cdef size_t i
        return [change_columns(batches[i]) for i in range(batches.size())]

    @property
    def position(self):
        """The position after the last completely read transaction; a new ChangeReader may begin there."""
        return self.c.position()

    @property
    def seq(self):
        """The number of the last change read, also within a transaction."""
        return self.c.seq()

    @property
    def in_transaction(self):
        """Whether the reader is within a transaction."""
        return self.c.in_transaction()

    @property
    def file(self):
        """The source's binlog file at `position`."""
        return text_of(self.c.file())

    @property
    def offset(self):
        """The offset in that file."""
        return self.c.offset()

    @property
    def gtid(self):
        """The GTID of the last completely read transaction; "" without GTIDs, or before the first."""
        return text_of(self.c.gtid())

    @property
    def timestamp(self):
        """The time of the last completely read transaction's commit, Unix seconds; 0 before the first."""
        return self.c.timestamp()

    @property
    def identity(self):
        """The identity of the source at `position`."""
        return text_of(self.c.identity())

    @property
    def generation(self):
        """The journal's id."""
        return self.c.generation()
