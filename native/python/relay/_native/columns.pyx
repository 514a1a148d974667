"""Rows as Arrow columns: servers pass them to an Arrow library, tools and tests make them of rows events."""

from cpython.pycapsule cimport PyCapsule_GetPointer, PyCapsule_New
from libc.stdint cimport uint8_t, uint64_t
from libc.stdlib cimport calloc, free
from libcpp.string cimport string

from relay._native.base cimport Bytes, raw, shown
from relay._native.values cimport (
    CDefinition, CRow, CRowKind, CRowsBody, CWalk, c_walk_rows, parsed_definition, skip_image,
)


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
