# What a client of the CDC protocol gets of the journal: the rows of a table.

cdef extern from "triplet.hpp" namespace "relay":
    cdef cppclass CTriplet "relay::Triplet":
        uint64_t domain
        uint32_t server
        uint64_t sequence

cdef extern from "cdc_form.hpp" namespace "relay":
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

cdef extern from "definition.hpp" namespace "relay":
    shared_ptr[const CDefinition] parse_definition "relay::Definition::parse"(RawBytes packed, string* error)

cdef extern from "cdc.hpp" namespace "relay":
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
                   CCdcValues values, CImageOptions options, cbool positional) except +raise_failure
        void seek(uint64_t domain, uint64_t sequence)
        void expect(vector[CCdcField] fields)
        CCdcReached read(uint64_t until, uint64_t max_bytes) except +raise_failure nogil
        void tell_domain(uint64_t domain)
        const char* bytes()
        uint64_t size()
        uint64_t rows()
        void clear()
        uint64_t position()
        cbool seeking()
        const string& definition()
        const CTriplet& gtid()


class CdcField(NamedTuple):
    """A column as a field of the schema that CDC clients get.

    `type` is Avro's name; a `wide` one's values beyond 2^63 - 1 are strings of digits. `real_type` is the word in the
    table's DDL, `length` the size in its parentheses, -1 if there is none.
    """

    name: str
    type: str
    wide: bool
    real_type: str
    length: int
    unsigned: bool


class CdcReached(NamedTuple):
    """Why a reading stopped.

    `end`: at the position given; `full`: there are as many bytes as may be; `more`: the caller may do something else
    before it reads on; `schema`: the next rows are of another definition than those before, the reader's `definition`;
    `gap`: events were lost here, `text` is the reason; `no_gtid`: the transaction has none, and nothing can be read any
    more. `position` is the journal's, of the frame that it is about, or 0.
    """

    why: str
    position: int
    text: str


cdef CCdcValues cdc_values(str values) except *:
    if values not in ("exact", "maxscale"):
        raise ValueError(f"values are exact or maxscale, not {values!r}")
    return CCdcValues.exact if values == "exact" else CCdcValues.maxscale


cdef vector[CCdcField] fields_of(bytes definition, str values) except *:
    cdef string error
    cdef shared_ptr[const CDefinition] parsed = parse_definition(raw(definition), &error)
    if parsed.get() == NULL:
        raise ValueError(error.decode("utf-8", "replace"))
    return c_cdc_fields(parsed.get()[0], cdc_values(values))


def cdc_fields(bytes definition, str values="exact"):
    """The fields of a packed definition's columns, CdcFields in their order, in either form of `values`."""
    return [
        CdcField(text_of(f.name), text_of(f.type), f.wide, text_of(f.real_type), f.length, f.is_unsigned)
        for f in fields_of(definition, values)
    ]


cdef object triplet(const CTriplet& gtid):
    return gtid.domain, gtid.server, gtid.sequence


cdef class CdcReader:
    """Reads one table's rows out of a journal, transaction by transaction, for a client of the CDC protocol.

    `journal` may be shared by the readers of a thread; it unmaps what none of them needs by its own `release_before`.
    `position` is between transactions; 0: the oldest one that is whole. `form`: json (lines) or avro (the records of a
    block, without its header). `values`: exact, or maxscale, the forms of MaxScale. `domain(source)` gives the number
    that stands for a source of MySQL's, "uuid" or "uuid:tag", once for each; MariaDB's GTIDs have their own. TIMESTAMP
    values are in UTC if `utc`, else in the process's zone.

    Raises `JournalError` (journal_lost) if retention has deleted what comes next, and `RelayError` for rows whose
    columns are not proven (schema_unproven, unless `positional`), that do not hold all columns (partial_image) or
    cannot be decoded (unsupported_column): rows of the events before stay.
    """

    cdef CCdcReader* c
    cdef JournalReader journal
    cdef object domain
    cdef str values

    def __cinit__(self, JournalReader journal not None, uint64_t position=0, *, str schema, str table, domain,
                  str form="json", str values="exact", bint utc=True, bint positional=False):
        cdef CImageOptions options
        if form not in ("json", "avro"):
            raise ValueError(f"rows are json or avro, not {form!r}")
        options.utc = utc
        self.journal = journal
        self.domain = domain
        self.values = values
        self.c = new CCdcReader(
            journal.c[0], position, schema.encode("utf-8", "surrogateescape"),
            table.encode("utf-8", "surrogateescape"), CCdcForm.json if form == "json" else CCdcForm.avro,
            cdc_values(values), options, positional,
        )

    def __dealloc__(self):
        del self.c

    def seek(self, uint64_t domain, uint64_t sequence):
        """Leave out what comes before the first transaction of the domain with this number or a higher one."""
        self.c.seek(domain, sequence)

    def expect(self, bytes definition):
        """Rows of this packed definition, or of one with the same fields, are no reason to stop."""
        self.c.expect(fields_of(definition, self.values))

    def read(self, uint64_t until, uint64_t max_bytes):
        """Add rows up to the position `until`, which is committed, without the GIL; the CdcReached.

        Returns before that with `max_bytes` of rows. Rows stay until `take`; before rows of another schema those of the
        one before have to be taken.
        """
        cdef CCdcReached reached
        while True:
            with nogil:
                reached = self.c.read(until, max_bytes)
            if reached.why != CCdcWhy.domain:
                break
            self.c.tell_domain(self.domain(text_of(reached.text)))
        why = {
            CCdcWhy.end: "end", CCdcWhy.full: "full", CCdcWhy.more: "more", CCdcWhy.schema: "schema",
            CCdcWhy.gap: "gap", CCdcWhy.no_gtid: "no_gtid",
        }
        return CdcReached(why[reached.why], reached.position, shown(reached.text))

    def take(self):
        """(number of rows, their bytes) added so far; a row is an image, of which an update has two."""
        taken = (self.c.rows(), self.c.bytes()[:self.c.size()] if self.c.size() else b"")
        self.c.clear()
        return taken

    @property
    def size(self):
        """Bytes of the rows that `take` would give."""
        return self.c.size()

    @property
    def position(self):
        """Between transactions: of the one that is being read, or after the last. A CdcReader may begin there."""
        return self.c.position()

    @property
    def seeking(self):
        """Whether the transaction that `seek` asked for has not come yet."""
        return self.c.seeking()

    @property
    def definition(self):
        """The packed definition of the rows after a stop by `schema`; empty before the first."""
        cdef string packed = self.c.definition()
        return <bytes>packed

    @property
    def gtid(self):
        """(domain, server id, sequence) of the last transaction that has rows of the table, or zeros."""
        return triplet(self.c.gtid())
