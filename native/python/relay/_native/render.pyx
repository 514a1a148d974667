"""Row images for tools, tests and benchmarks; the relay itself does not use this module."""

from libc.stdint cimport uint8_t, uint32_t, uint64_t
from libcpp cimport bool as cbool
from libcpp.memory cimport shared_ptr
from libcpp.string cimport string
from libcpp.vector cimport vector

from relay._native.base cimport Bytes, raw, shown
from relay._native.values cimport (
    CDefinition, CRenderOptions, CRow, CRowKind, CRowsBody, CWalk, c_copy_without, c_walk_rows, parsed_definition,
    skip_image,
)

cdef extern from "binlog/rows_partial.hpp" namespace "relay":
    cdef enum class CCompleted "relay::Completed"(uint8_t):
        yes
        malformed
        lacking

    CCompleted c_complete_rows "relay::complete_rows"(const CDefinition& definition, Bytes body,
                                                      const vector[cbool]& keep, string* out) except +

cdef extern from "base/output.hpp" namespace "relay":
    cdef cppclass COutput "relay::Output":
        uint8_t* p
        void clear()
        void ensure(size_t n) except +
        const char* chars()
        size_t size()

cdef extern from "values/payload.hpp" namespace "relay":
    cbool append_poll(COutput& out, int version, const CRow& row, uint32_t queue_size, const CRenderOptions& options,
                      string* error) except +
    cbool append_many_text(COutput& out, uint64_t sequence, const CRow& row, uint32_t queue_size,
                           const CRenderOptions& options, string* error) except +
    cbool append_many_msgpack(COutput& out, uint64_t sequence, const CRow& row, const CRenderOptions& options,
                              string* error) except +
    cbool append_many_extended(COutput& out, uint64_t sequence, const CRow& row, const CRenderOptions& options,
                               string* error) except +
    cdef enum class CValueForm "relay::ValueForm"(uint8_t):
        text
        typed
        extended

    cbool append_sides(COutput& out, const CRow& row, CValueForm form, const CRenderOptions& options,
                       string* error) except +

cdef extern from *:
    """
    #include "base/msgpack.hpp"
    static uint8_t* msgpack_array(uint8_t* p, size_t n) { return relay::msgpack::put_head32(p, 0xdd, n); }
    """
    uint8_t* msgpack_array(uint8_t* p, size_t n)

cdef extern from "values/charset.hpp" namespace "relay":
    cbool charset_text(const string& name, Bytes text, string* out) except +
    cbool utf8_text(const string& name, Bytes text, string* out, cbool* whole) except +


cdef class RowImages:
    """The rows of one rows event: its packed definition, kind (1 insert, 2 update, 4 delete) and body (a ROWS frame's).

    Raises `ValueError` if the definition cannot be read or the body does not fit it.
    """

    cdef shared_ptr[const CDefinition] definition
    cdef CRowKind kind
    cdef CRowsBody body
    cdef bytes kept  # what `body` points into
    cdef readonly int rows

    def __init__(self, bytes definition not None, int kind, bytes body not None):
        self.kept = body
        self.kind = <CRowKind>kind
        self.definition = parsed_definition(definition)
        if not CRowsBody.parse(raw(body), self.kind, &self.body):
            raise ValueError("the rows event is malformed")
        cdef CWalk walk = c_walk_rows(self.definition.get()[0], self.body)
        if not walk.ok:
            raise ValueError(f"the rows event does not fit its table: after row {walk.rows}")
        self.rows = walk.rows

    def render(self, str form not None, *, uint64_t position=0, uint32_t queue_size=0, uint64_t sequence=1,
               bytes null_text=b"NULL", bint utc=True):
        """Renders each row as bytes: as payload of a `poll` or `poll2` reply, or for PollMany as `text` (format 0),
        `msgpack` (format 1) or `extended` (format 3).

        Rows are numbered from `sequence`. Raises `ValueError` for a value that cannot be decoded.
        """
        cdef CRow row
        cdef CRenderOptions options
        cdef const uint8_t* at = self.body.images.data
        cdef COutput out
        cdef string error
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
            elif form == "extended":
                done = append_many_extended(out, sequence + number, row, options, &error)
            else:
                raise ValueError(f"no such form: {form!r}; poll, poll2, text, msgpack, extended")
            if not done:
                raise ValueError(shown(error))
            rendered.append(out.chars()[:out.size()])
        return rendered

    def pack(self, str form not None):
        """Renders all rows as one msgpack array of [before, after].

        Values are `text`, or bytes where they are none, or as in format 1 (`typed`) or 3 (`extended`) of PollMany.
        Raises `ValueError` for a value that cannot be decoded.
        """
        cdef CValueForm written = CValueForm.extended
        if form != "extended":
            written = CValueForm.typed if form == "typed" else CValueForm.text
        cdef CRow row
        cdef CRenderOptions options
        cdef const uint8_t* at = self.body.images.data
        cdef COutput out
        cdef string error
        out.ensure(5)
        out.p = msgpack_array(out.p, self.rows)
        row.definition = self.definition.get()
        row.kind = self.kind
        row.before_present = self.body.before
        row.after_present = self.body.after
        row.position = 0
        for _ in range(self.rows):
            row.before = self._image(self.body.before, &at)
            if self.body.after != NULL:
                row.after = self._image(self.body.after, &at)
            if not append_sides(out, row, written, options, &error):
                raise ValueError(shown(error))
        return out.chars()[:out.size()]

    def without(self, keep not None):
        """The body with only the columns for which `keep`, a boolean for each column, is true."""
        cdef vector[cbool] kept = keep
        cdef string out
        if not c_copy_without(self.definition.get()[0], self.kind, self.body, kept, &out):
            raise ValueError("the columns do not fit the rows event")
        return <bytes>out

    cdef Bytes _image(self, const uint8_t* present, const uint8_t** at) noexcept:
        cdef const uint8_t* start = at[0]
        at[0] = skip_image(self.definition.get()[0], present, start, self.body.images.end())
        return Bytes(start, at[0] - start)


def complete_rows(bytes definition not None, bytes body not None):
    """Converts the body of a PARTIAL_UPDATE_ROWS event, from its column count on, to that of a plain update (kind 2).

    Changes within JSON values become complete values. Raises `ValueError` if the body does not fit the packed
    definition, and `LookupError` if a row lacks the value that was changed (its image is not FULL).
    """
    cdef string out
    cdef vector[cbool] keep
    cdef shared_ptr[const CDefinition] table = parsed_definition(definition)
    completed = c_complete_rows(table.get()[0], raw(body), keep, &out)
    if completed == CCompleted.lacking:
        raise LookupError("the rows event does not hold the JSON value that was changed")
    if completed == CCompleted.malformed:
        raise ValueError("the rows event does not fit its table")
    return <bytes>out


def decode_text(str charset not None, bytes text not None):
    """Converts text in a character set of the server, given by MySQL's name, to `str`, as the server does.

    Raises `LookupError` for a character set that the relay does not know.
    """
    cdef string out
    if not charset_text(charset.encode(), raw(text), &out):
        raise LookupError(f"the relay does not know the character set {charset!r}")
    return (<bytes>out).decode("utf-8", "replace")


def utf8_of(str charset not None, bytes text not None):
    """Converts text as columns have it; returns (text as `str`, whether every byte belongs to a character).

    Other bytes become question marks. Raises `LookupError` as `decode_text` does.
    """
    cdef string out
    cdef cbool whole = True
    if not utf8_text(charset.encode(), raw(text), &out, &whole):
        raise LookupError(f"the relay does not know the character set {charset!r}")
    return (<bytes>out).decode(), whole
