"""Sets of GTIDs: GtidSet."""

from libcpp.optional cimport optional
from libcpp.string cimport string

from relay._native.base cimport raw, text_of, view


cdef object no_gtids(str text, str what, string error):
    shortened = text if len(text) <= 80 else text[:77] + "..."
    return ValueError(f"{shortened!r} is no {what}: {error.decode('utf-8', 'replace')}")


cdef CGtid parse_gtid(str text) except *:
    cdef bytes packed = text.encode()
    cdef string error
    cdef optional[CGtid] parsed = CGtid.parse(view(packed), &error)
    if not parsed.has_value():
        raise no_gtids(text, "GTID", error)
    return parsed.value()


cdef class GtidSet:
    """A set of GTIDs, of MySQL or of MariaDB.

    A set of MySQL has intervals of numbers per server and tag: "uuid:1-5:9:tag:1-3,uuid:7". A set of MariaDB has the
    last GTID of each domain, "0-1-100,3-2-50", which includes all earlier ones of that domain. The text has the form of
    the servers, without the line breaks that MySQL writes after commas. Blanks in input are ignored.

    `a | b`, `a - b` and `a & b` are union, difference and intersection. For MariaDB, `|` has the higher GTID of each
    domain, `-` the domains in which `a` is higher, `&` the lower GTID. `gtid in a`, `a.issubset(b)`, `len(a)` and
    iteration (texts of single GTIDs in order; for MariaDB, the last of each domain) work as with other sets. GTIDs of
    both kinds in one set, and texts that are not GTIDs, raise ValueError.
    """

    def __init__(self, text=""):
        """Parses `text`; "" is the empty set. Raises ValueError, which says what is wrong and where."""
        cdef bytes packed = text.encode()
        cdef string error
        cdef optional[CGtidSet] parsed = CGtidSet.parse(view(packed), &error)
        if not parsed.has_value():
            raise no_gtids(text, "GTID set", error)
        self.c = parsed.value()

    @staticmethod
    def decode(packed):
        """Decodes the body of a PREVIOUS_GTIDS event, or a set in the form of COM_BINLOG_DUMP_GTID (MySQL)."""
        cdef bytes data = bytes(packed)
        cdef optional[CGtidSet] parsed = CGtidSet.decode(raw(data))
        if not parsed.has_value():
            raise ValueError("the GTID set is damaged")
        cdef GtidSet made = GtidSet()
        made.c = parsed.value()
        return made

    def encode(self):
        """Encodes a set of MySQL in the form of COM_BINLOG_DUMP_GTID."""
        if self.c.mariadb():
            raise ValueError("MariaDB has no packed form of GTID sets")
        return <bytes>self.c.encode()

    def add(self, gtid):
        """Adds a GTID; in a domain of MariaDB it becomes the last one."""
        cdef CGtid one = parse_gtid(gtid)
        if not self.c.empty() and self.c.mariadb() != one.mariadb:
            raise ValueError(f"{gtid!r} and {str(self)!r} mix GTIDs of MySQL and MariaDB")
        self.c.add(one)

    def remove(self, gtid):
        """Removes a GTID of MySQL; a set of MariaDB cannot exclude single GTIDs."""
        cdef CGtid one = parse_gtid(gtid)
        if one.mariadb:
            raise ValueError(f"{gtid!r} cannot be removed from a set of MariaDB")
        self.c.remove(one)

    def __contains__(self, gtid):
        return self.c.contains(parse_gtid(gtid))

    def issubset(self, GtidSet other):
        """Whether the other set contains this one."""
        return self.c.subset_of(other.c)

    cdef GtidSet copied(self, GtidSet other):
        if not self.c.empty() and not other.c.empty() and self.c.mariadb() != other.c.mariadb():
            raise ValueError(f"{str(self)!r} and {str(other)!r} mix GTIDs of MySQL and MariaDB")
        cdef GtidSet made = GtidSet()
        made.c = self.c
        return made

    def __or__(self, GtidSet other):
        cdef GtidSet made = self.copied(other)
        made.c.unite(other.c)
        return made

    def __sub__(self, GtidSet other):
        cdef GtidSet made = self.copied(other)
        made.c.subtract(other.c)
        return made

    def __and__(self, GtidSet other):
        cdef GtidSet made = self.copied(other)
        made.c.intersect(other.c)
        return made

    def __iter__(self):
        cdef CGtidRun run
        for run in self.c.runs():
            source = text_of(run.first.text()).removesuffix(str(run.first.number))
            for number in range(run.first.number, run.last + 1):
                yield f"{source}{number}"

    def __len__(self):
        return sum(run.last - run.first.number + 1 for run in self.c.runs())

    @property
    def mariadb(self):
        """Whether the set holds GTIDs of MariaDB."""
        return self.c.mariadb()

    def __bool__(self):
        return not self.c.empty()

    def __eq__(self, other):
        return isinstance(other, GtidSet) and str(self) == str(other)

    __hash__ = None

    def __reduce__(self):
        return GtidSet, (str(self),)

    def __str__(self):
        return text_of(self.c.text())

    def __repr__(self):
        return f"GtidSet({str(self)!r})"


