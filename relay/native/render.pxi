# Row images outside of the relay's own path: for tools, tests and benchmarks.

from libc.stdint cimport uint8_t, uint32_t, uint64_t
from libcpp cimport bool as cbool
from libcpp.memory cimport shared_ptr
from libcpp.string cimport string
from libcpp.vector cimport vector

cdef extern from "bytes.hpp" namespace "relay":
    cdef cppclass ImageBytes "relay::Bytes":
        const uint8_t* data
        size_t size
        ImageBytes()
        ImageBytes(const void* data, size_t size)
        const uint8_t* end()

cdef extern from "definition.hpp" namespace "relay":
    cdef cppclass CImageDefinition "relay::Definition":
        @staticmethod
        shared_ptr[const CImageDefinition] parse(ImageBytes packed, string* error) except +

cdef extern from "rows.hpp" namespace "relay":
    cdef enum class CImageKind "relay::RowKind"(uint8_t):
        pass

    cdef cppclass CRowsBody "relay::RowsBody":
        const uint8_t* before
        const uint8_t* after
        ImageBytes images
        @staticmethod
        cbool parse(ImageBytes body, CImageKind kind, CRowsBody* out)

    cdef cppclass CWalk "relay::Walk":
        uint32_t rows
        cbool ok

    const uint8_t* skip_image(const CImageDefinition& definition, const uint8_t* present, const uint8_t* p,
                              const uint8_t* end)
    CWalk c_walk_rows "relay::walk_rows"(const CImageDefinition& definition, CImageKind kind, const CRowsBody& body)
    cbool c_copy_without "relay::copy_without"(const CImageDefinition& definition, CImageKind kind,
                                               const CRowsBody& body, const vector[cbool]& keep, string* out)

cdef extern from "rows_partial.hpp" namespace "relay":
    cdef enum class CCompleted "relay::Completed"(uint8_t):
        yes
        malformed
        lacking

    CCompleted c_complete_rows "relay::complete_rows"(const CImageDefinition& definition, ImageBytes body,
                                                      const vector[cbool]& keep, string* out) except +

cdef extern from "payload.hpp" namespace "relay":
    cdef cppclass CImageOptions "relay::RenderOptions":
        string null_text
        cbool utc

    cdef cppclass CImageRow "relay::Row":
        const CImageDefinition* definition
        CImageKind kind
        const uint8_t* before_present
        const uint8_t* after_present
        ImageBytes before
        ImageBytes after
        uint64_t position

    cbool append_poll(string& out, int version, const CImageRow& row, uint32_t queue_size, const CImageOptions& options,
                      string* error) except +
    cbool append_many_text(string& out, uint64_t sequence, const CImageRow& row, uint32_t queue_size,
                           const CImageOptions& options, string* error) except +
    cbool append_many_msgpack(string& out, uint64_t sequence, const CImageRow& row, const CImageOptions& options,
                              string* error) except +
    cbool append_sides(string& out, const CImageRow& row, const CImageOptions& options, string* error) except +

cdef extern from "charset.hpp" namespace "relay":
    cbool charset_text(const string& name, ImageBytes text, string* out) except +
    cbool utf8_text(const string& name, ImageBytes text, string* out, cbool* whole) except +


cdef class RowImages:
    """The rows of one rows event: its packed definition, kind (1 insert, 2 update, 4 delete) and body (a ROWS frame's).

    Raises `ValueError` where the definition cannot be read or the body does not fit it.
    """
    cdef shared_ptr[const CImageDefinition] definition
    cdef CImageKind kind
    cdef CRowsBody body
    cdef bytes kept  # what `body` points into
    cdef readonly int rows

    def __init__(self, bytes definition not None, int kind, bytes body not None):
        cdef string error
        self.kept = body
        self.kind = <CImageKind>kind
        self.definition = CImageDefinition.parse(ImageBytes(<const char*>definition, len(definition)), &error)
        if not self.definition:
            raise ValueError(error.decode("utf-8", "replace"))
        if not CRowsBody.parse(ImageBytes(<const char*>body, len(body)), self.kind, &self.body):
            raise ValueError("the rows event is malformed")
        cdef CWalk walk = c_walk_rows(self.definition.get()[0], self.kind, self.body)
        if not walk.ok:
            raise ValueError(f"the rows event does not fit its table: after row {walk.rows}")
        self.rows = walk.rows

    def render(self, str form not None, *, uint64_t position=0, uint32_t queue_size=0, uint64_t sequence=1,
               bytes null_text=b"NULL", bint utc=True):
        """Each row as bytes: a `poll` or `poll2` reply's payload, or PollMany's `text` (0) or `msgpack` (1); or `sides`,
        msgpack [before, after] with every value as text, or bytes where it is no text.

        Rows are numbered from `sequence`. Raises `ValueError` for a value that cannot be decoded.
        """
        cdef CImageRow row
        cdef CImageOptions options
        cdef const uint8_t* at = self.body.images.data
        cdef string out, error
        cdef cbool done
        options.null_text = null_text
        options.utc = utc
        row.definition = self.definition.get()
        row.kind = self.kind
        row.before_present = self.body.before
        row.after_present = self.body.after
        row.position = position
        rendered = []
        for number in range(self.rows):
            row.before = self._image(self.body.before, &at)
            if self.body.after != NULL:
                row.after = self._image(self.body.after, &at)
            out.clear()
            if form == "poll":
                done = append_poll(out, 1, row, queue_size, options, &error)
            elif form == "poll2":
                done = append_poll(out, 2, row, queue_size, options, &error)
            elif form == "text":
                done = append_many_text(out, sequence + number, row, queue_size, options, &error)
            elif form == "msgpack":
                done = append_many_msgpack(out, sequence + number, row, options, &error)
            elif form == "sides":
                done = append_sides(out, row, options, &error)
            else:
                raise ValueError(f"no such form: {form!r}; poll, poll2, text, msgpack, sides")
            if not done:
                raise ValueError(error.decode("utf-8", "replace"))
            rendered.append(<bytes>out)
        return rendered

    def without(self, keep not None):
        """The body without the columns for which `keep`, a boolean for each column, is false."""
        cdef vector[cbool] kept = keep
        cdef string out
        if not c_copy_without(self.definition.get()[0], self.kind, self.body, kept, &out):
            raise ValueError("the columns do not fit the rows event")
        return <bytes>out

    cdef ImageBytes _image(self, const uint8_t* present, const uint8_t** at) noexcept:
        cdef const uint8_t* start = at[0]
        at[0] = skip_image(self.definition.get()[0], present, start, self.body.images.end())
        return ImageBytes(start, at[0] - start)


def complete_rows(bytes definition not None, bytes body not None):
    """The body of a PARTIAL_UPDATE_ROWS event, from its column count on, as that of a plain update (kind 2).

    Changes within JSON values become the values that they make. Raises `ValueError` where the body does not fit the
    packed definition, and `LookupError` where a row does not hold the value that was changed (its image is not FULL).
    """
    cdef string out, error
    cdef vector[cbool] keep
    cdef shared_ptr[const CImageDefinition] table = CImageDefinition.parse(
        ImageBytes(<const char*>definition, len(definition)), &error)
    if not table:
        raise ValueError(error.decode("utf-8", "replace"))
    completed = c_complete_rows(table.get()[0], ImageBytes(<const char*>body, len(body)), keep, &out)
    if completed == CCompleted.lacking:
        raise LookupError("the rows event does not hold the JSON value that was changed")
    if completed == CCompleted.malformed:
        raise ValueError("the rows event does not fit its table")
    return <bytes>out


def decode_text(str charset not None, bytes text not None):
    """Text in one of the server's character sets (MySQL's name of it) as `str`, as the server converts it.

    Raises `LookupError` for a character set that cannot be converted here.
    """
    cdef string out
    if not charset_text(charset.encode(), ImageBytes(<const char*>text, len(text)), &out):
        raise LookupError(f"character set {charset!r} cannot be converted to UTF-8 here")
    return (<bytes>out).decode("utf-8", "replace")


def utf8_of(str charset not None, bytes text not None):
    """(text as `str`, whether all of it is text) for text in one of the server's character sets.

    As columns have it: a question mark for what is no character. Raises `LookupError` as `decode_text` does.
    """
    cdef string out
    cdef cbool whole = True
    if not utf8_text(charset.encode(), ImageBytes(<const char*>text, len(text)), &out, &whole):
        raise LookupError(f"character set {charset!r} cannot be converted to UTF-8 here")
    return (<bytes>out).decode(), whole
