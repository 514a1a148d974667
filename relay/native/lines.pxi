# The journal as lines of the log of [Logger]: LineReader.

cdef extern from "line_form.hpp" namespace "relay":
    cdef enum class CLineForm "relay::LineForm"(uint8_t):
        csv
        json

cdef extern from "lines.hpp" namespace "relay":
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
        CLineReader(string directory, uint64_t position, CLineForm form, CImageOptions options,
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
    """Why a reading stopped.

    `end`: at the position given; `full`: there are as many bytes of lines as may be; `more`: the caller may do something
    else before it reads on; `day`: the next row is of a later day, `day` (days since 1970-01-01); `gap`: events were
    lost here (`text` is the reason).
    """

    why: str
    day: int
    text: str


cdef class LineReader:
    """Reads the journal in a folder, event by event, and makes lines of its rows.

    `position` is where a frame begins, as `position` told it; 0: the oldest. `form`: csv or json. `wanted(schema,
    table)` chooses tables, once for each name. `zone(timestamp)` tells the lines' time zone: (seconds east of UTC, since
    when, until when), all in Unix seconds. TIMESTAMP values are in UTC if `utc`, else in the process's zone.

    Raises `JournalError` (journal_lost) if retention has deleted what comes next, and `RelayError` for rows whose columns
    are not proven (schema_unproven, unless `positional`) or cannot be decoded (unsupported_column): lines of the events
    before stay.
    """

    cdef CLineReader* c
    cdef object wanted
    cdef object zone

    def __cinit__(self, directory, uint64_t position=0, *, str form="csv", wanted, zone, bint utc=True,
                  bint positional=False):
        cdef CImageOptions options
        if form not in ("csv", "json"):
            raise ValueError(f"lines are csv or json, not {form!r}")
        self.wanted = wanted
        self.zone = zone
        options.utc = utc
        self.c = new CLineReader(
            str(directory).encode("utf-8", "surrogateescape"), position,
            CLineForm.csv if form == "csv" else CLineForm.json, options, positional,
        )

    def __dealloc__(self):
        del self.c

    def read(self, uint64_t until, uint64_t max_bytes, int64_t day, int64_t latest):
        """Add lines up to the position `until`, which is flushed, without the GIL; the LinesReached.

        Returns before that with `max_bytes` of lines, before an event of a later day than `day`, and after each gap, with
        no lines then. An event of a later day than `latest` counts as of that. Lines stay until `take`.
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
        """The lines added so far, as bytes."""
        taken = self.c.lines()[:self.c.size()] if self.c.size() else b""
        self.c.clear()
        return taken

    @property
    def size(self):
        """Bytes of the lines that `take` would give."""
        return self.c.size()

    @property
    def lines(self):
        """Lines so far, those that were taken included."""
        return self.c.count()

    @property
    def position(self):
        """After the last frame that was read; a LineReader may begin there."""
        return self.c.position()

    @property
    def sequence(self):
        """The journal's number of the next change, 0: not known yet."""
        return self.c.sequence()

    @property
    def file(self):
        """The source's binlog file at `position`."""
        return shown(self.c.file())

    @property
    def offset(self):
        """Where in the file the last event ends."""
        return self.c.offset()

    @property
    def timestamp(self):
        """Of the last event, Unix seconds; 0 before the first."""
        return self.c.timestamp()

    @property
    def generation(self):
        """The journal's id."""
        return self.c.generation()
