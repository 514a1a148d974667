"""The journal as lines of the row log of [Logger]: LineReader."""

from typing import NamedTuple

from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t
from libcpp cimport bool as cbool
from libcpp.string cimport string

from relay._native.base cimport encoded, raise_failure, shown, text_of
from relay._native.values cimport CRenderOptions

cdef extern from "formats/line_form.hpp" namespace "relay":
    cdef enum class CLineForm "relay::LineForm"(uint8_t):
        csv
        json

cdef extern from "formats/lines.hpp" namespace "relay":
    cdef enum class CLinesWhy "relay::LinesReached::Why"(uint8_t):
        end
        full
        more
        day
        gap
        table
        offset

    cdef cppclass CLinesReached "relay::LinesReached":
        CLinesWhy why
        int64_t day
        uint32_t timestamp
        string schema
        string text

    cdef cppclass CLineReader "relay::LineReader":
        CLineReader(string directory, uint64_t position, CLineForm form, CRenderOptions options,
                    cbool positional) except +raise_failure
        CLinesReached read(uint64_t until, uint64_t max_bytes, int64_t day, int64_t latest) except +raise_failure nogil
        void decide(cbool wanted) except +
        void set_offset(int offset, int64_t since, int64_t until)
        const char* lines()
        uint64_t size()
        void clear()
        uint64_t count()
        uint64_t position()
        uint64_t sequence()
        const string& file()
        uint64_t offset()
        uint32_t timestamp()
        uint64_t generation() except +raise_failure


class LinesReached(NamedTuple):
    """Why `LineReader.read` returned.

    `end`: it reached the position given. `full`: there are `max_bytes` of lines. `more`: the caller may do other work
    before it reads on. `day`: the next row is of a later day, `day` (days since 1970-01-01). `gap`: events were lost
    here; `text` is the reason.
    """

    why: str
    day: int
    text: str


cdef class LineReader:
    """Reads the journal in a folder, event by event, and formats its rows as lines.

    `position` is the `position` of an earlier reader; 0: the oldest frame. `form` is csv or json. `wanted(schema,
    table)` selects tables and is called once for each name. `zone(timestamp)` returns the time zone of the lines as
    (seconds east of UTC, since, until), the last two in Unix seconds. TIMESTAMP values are in UTC if `utc`, else in the
    time zone of the process.

    Raises `JournalError` (journal_lost) if retention has deleted the next frames, and `RelayError` for rows with
    unproven column names (schema_unproven, unless `positional`) and rows that cannot be decoded (unsupported_column).
    Lines of earlier events are kept.
    """

    cdef CLineReader* c
    cdef object wanted
    cdef object zone

    def __cinit__(self, directory, uint64_t position=0, *, str form="csv", wanted, zone, bint utc=True,
                  bint positional=False):
        cdef CRenderOptions options
        if form not in ("csv", "json"):
            raise ValueError(f"lines are csv or json, not {form!r}")
        self.wanted = wanted
        self.zone = zone
        options.utc = utc
        self.c = new CLineReader(
            encoded(str(directory)), position, CLineForm.csv if form == "csv" else CLineForm.json, options, positional,
        )

    def __dealloc__(self):
        del self.c

    def read(self, uint64_t until, uint64_t max_bytes, int64_t day, int64_t latest):
        """Adds lines up to the flushed position `until`, without the GIL, and returns a LinesReached.

        Returns earlier with `max_bytes` of lines, before an event of a later day than `day`, and after each gap, then
        without lines. An event of a later day than `latest` counts as one of `latest`. Lines are kept until `take`.
        """
        cdef CLinesReached reached
        while True:
            with nogil:
                reached = self.c.read(until, max_bytes, day, latest)
            if reached.why == CLinesWhy.table:
                self.c.decide(bool(self.wanted(text_of(reached.schema), text_of(reached.text))))
            elif reached.why == CLinesWhy.offset:
                offset, since, until_then = self.zone(reached.timestamp)
                self.c.set_offset(offset, since, until_then)
            else:
                break
        why = {
            CLinesWhy.end: "end", CLinesWhy.full: "full", CLinesWhy.more: "more", CLinesWhy.day: "day",
            CLinesWhy.gap: "gap",
        }
        return LinesReached(why[reached.why], reached.day, shown(reached.text))

    def take(self):
        """Removes and returns the lines added so far, as bytes."""
        taken = self.c.lines()[:self.c.size()] if self.c.size() else b""
        self.c.clear()
        return taken

    @property
    def size(self):
        """The number of bytes that `take` would return."""
        return self.c.size()

    @property
    def lines(self):
        """The number of lines so far, including those taken."""
        return self.c.count()

    @property
    def position(self):
        """The position after the last frame read; a new LineReader may begin there."""
        return self.c.position()

    @property
    def sequence(self):
        """The journal's number of the next change; 0: not known yet."""
        return self.c.sequence()

    @property
    def file(self):
        """The source's binlog file at `position`."""
        return shown(self.c.file())

    @property
    def offset(self):
        """The end of the last event in that file."""
        return self.c.offset()

    @property
    def timestamp(self):
        """The time of the last event, Unix seconds; 0 before the first."""
        return self.c.timestamp()

    @property
    def generation(self):
        """The journal's id."""
        return self.c.generation()
