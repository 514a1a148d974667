# Rows as columns: what servers hand to an Arrow library, and what tools and tests make of rows events.

from cpython.pycapsule cimport PyCapsule_GetPointer, PyCapsule_New
from libc.stdlib cimport calloc, free

cdef extern from "arrow_abi.hpp":
    ctypedef struct ArrowSchema:
        void (*release)(ArrowSchema*) noexcept

    ctypedef struct ArrowArray:
        void (*release)(ArrowArray*) noexcept

cdef extern from "columns.hpp" namespace "relay":
    cdef enum class ColumnsAdded "relay::ColumnBatch::Added":
        yes

    cdef cppclass CColumnBatch "relay::ColumnBatch":
        CColumnBatch(shared_ptr[const CImageDefinition] definition) except +
        ColumnsAdded add(const CImageRow& row, uint64_t sequence, string* error) except +
        const CImageDefinition& definition()
        size_t rows()
        size_t stream_bytes()
        vector[string] sides()
        @staticmethod
        void give(const shared_ptr[CColumnBatch]& batch, ArrowSchema* schema, ArrowArray* array) except +


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
    """Rows of one table definition, flat and in Arrow's memory layout; docs/protocol.md says which columns there are.

    Any Arrow library takes them without a copy: `pyarrow.record_batch(columns)`. After that nothing can be added.
    """

    cdef shared_ptr[CColumnBatch] batch
    cdef bint given

    def __cinit__(self, bytes definition=None):
        cdef string error
        if definition is None:  # a server's, which sets `batch`
            return
        cdef shared_ptr[const CImageDefinition] parsed = CImageDefinition.parse(
            ImageBytes(<const char*>definition, len(definition)), &error)
        if not parsed:
            raise ValueError(error.decode("utf-8", "replace"))
        self.batch.reset(new CColumnBatch(parsed))

    def add(self, int kind, bytes body not None, *, uint64_t sequence=1, uint64_t position=0):
        """Add the rows of a rows event, given from its column count on; they are numbered from `sequence`.

        Raises `ValueError` at a row that cannot be decoded; those before it are kept.
        """
        cdef CRowsBody parsed
        cdef CImageRow row
        cdef string error
        cdef const CImageDefinition* definition = &self.batch.get().definition()
        cdef CImageKind row_kind = <CImageKind>kind
        cdef const uint8_t* at
        cdef const uint8_t* start
        if self.given:
            raise ValueError("the columns have been given away")
        if not CRowsBody.parse(ImageBytes(<const char*>body, len(body)), row_kind, &parsed):
            raise ValueError("the rows event is malformed")
        cdef CWalk walk = c_walk_rows(definition[0], row_kind, parsed)
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
            row.before = ImageBytes(start, at - start)
            if parsed.after != NULL:
                start = at
                at = skip_image(definition[0], parsed.after, start, parsed.images.end())
                row.after = ImageBytes(start, at - start)
            if self.batch.get().add(row, sequence + number, &error) != ColumnsAdded.yes:
                raise ValueError(error.decode("utf-8", "replace"))

    @property
    def rows(self):
        """Number of flat rows: an update counts twice."""
        return self.batch.get().rows()

    @property
    def stream_bytes(self):
        """An upper bound of the bytes of these columns as an Arrow IPC stream."""
        return self.batch.get().stream_bytes()

    def __arrow_c_array__(self, requested_schema=None):
        """The columns by the Arrow PyCapsule interface, in the types that they have. Once only."""
        if self.given:
            raise ValueError("the columns have been given away")
        cdef ArrowSchema* schema = <ArrowSchema*>calloc(1, sizeof(ArrowSchema))
        schema_capsule = PyCapsule_New(schema, "arrow_schema", release_schema)
        cdef ArrowArray* array = <ArrowArray*>calloc(1, sizeof(ArrowArray))
        array_capsule = PyCapsule_New(array, "arrow_array", release_array)
        self.given = True
        CColumnBatch.give(self.batch, schema, array)
        return schema_capsule, array_capsule
