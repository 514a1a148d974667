"""The stream of one table for one client: which bytes come next. Without a socket."""

from __future__ import annotations

from typing import Final

import msgspec

from relay._native import CdcReader, JournalReader
from relay.cdc.catalogue import Catalogue
from relay.cdc.container import Container
from relay.cdc.schema import avro_schema, schema_line
from relay.cdc.store import Version
from relay.errors import ErrorCode, RelayError
from relay.log import Log
from relay.wire.cdcwords import Form, Gtid, Request

TURN_BYTES: Final = 64 << 10
"""Of rows after which the next stream has its turn."""

_SKIP_BYTES: Final = 1 << 20  # of the journal that has nothing of the table, worth a new reader

NO_GTIDS: Final = "the source writes no GTIDs, which this protocol needs"


class Style(msgspec.Struct, frozen=True):
    """How rows are written: `[CDC] Values` and `Codec`; TIMESTAMP values in UTC, unproven names positional."""

    values: str
    codec: str
    utc: bool
    positional: bool


class Stream:
    """Rows of the requested table from where it says, then those that come. `level`: there are none at present."""

    def __init__(
        self, journal: JournalReader, catalogue: Catalogue, request: Request, form: Form, style: Style, log: Log
    ) -> None:
        self.table: Final = (request.schema, request.table)
        self.level = False
        self.rows = 0
        self.version: Version | None = None
        self._journal = journal
        self._catalogue = catalogue
        self._form = form
        self._style = style
        self._log = log
        self._definition = b""
        self._container: Container | None = None
        self._oldest = request.version or 0
        self._hidden = False  # rows are of versions before that one
        begins = self._begins(request)
        self._sought = self._seek(request.gtid, begins)
        start = self._catalogue.start_of(self._sought) if self._sought else begins
        self._reader = self._reader_at(start, self._sought is not None)

    @property
    def position(self) -> int:
        """Of the journal: what comes before it was sent."""
        return self._reader.position

    @property
    def gtid(self) -> Gtid:
        """Of the last transaction that had something of the table."""
        return Gtid(*self._reader.gtid)

    def turn(self) -> bytes:
        """What comes next, b"" if nothing; raises `RelayError` where the stream cannot go on."""
        try:
            reached = self._reader.read(self._catalogue.position, TURN_BYTES)
        except RelayError:
            if not self._reader.size:
                raise
            return self._taken()  # first what is before it; the next turn meets it again
        rows = self._taken()
        self.level = reached.why == "end"
        if reached.why == "schema":
            version = self._catalogue.version_at(*self.table, reached.position)
            self._hidden = version.number < self._oldest
            return rows if self._hidden else rows + self._head(version, self._reader.definition)
        if reached.why == "no_gtid" and not rows:
            raise RelayError(ErrorCode.CHECK_FAILED, "read rows for CDC", NO_GTIDS)
        if reached.why == "gap":
            self._log("cdc_gap", table=".".join(self.table), cause=reached.text)
        if self.level and not self.version:
            newest = self._catalogue.versions(*self.table)[-1]
            self._reader.expect(newest.definition)
            return rows + self._head(newest, newest.definition)
        return rows

    def wake(self, before: int) -> None:
        """There may be rows, all of them behind `before`, which is between transactions."""
        if not self.level:
            return
        self.level = False
        if before - self.position > _SKIP_BYTES or self.position < self._journal.first():
            self._reader = self._reader_at(before, self._reader.seeking)
            if self._definition:
                self._reader.expect(self._definition)

    def _taken(self) -> bytes:
        """The rows that were read, as clients get them."""
        count, rows = self._reader.take()
        if self._hidden:
            return b""
        self.rows += count
        return self._container.block(count, rows) if rows and self._container else rows

    def _begins(self, request: Request) -> int:
        """Where the first rows of the requested version are, 0: the oldest ones."""
        if request.version is None:
            return 0
        at = next(each for each in self._catalogue.versions(*self.table) if each.number == request.version)
        return at.begins if at.begins > self._journal.first() else 0

    def _seek(self, gtid: Gtid | None, begins: int) -> Gtid | None:
        """The transaction to wait for, None if all from `begins` on comes behind it."""
        if not gtid or not gtid.sequence or self._catalogue.is_before(gtid, begins):
            return None
        return gtid

    def _reader_at(self, position: int, seeking: bool) -> CdcReader:
        schema, table = self.table
        reader = CdcReader(
            self._journal,
            position,
            schema=schema,
            table=table,
            domain=self._catalogue.domain,
            form=self._form.lower(),
            values=self._style.values,
            utc=self._style.utc,
            positional=self._style.positional,
        )
        if self._sought and seeking:
            reader.seek(self._sought.domain, self._sought.sequence)
        return reader

    def _head(self, version: Version, definition: bytes) -> bytes:
        self.version, self._definition = version, definition
        if self._form is Form.AVRO:
            self._container = Container(avro_schema(definition, self._style.values), self._style.codec)
            return self._container.header
        return schema_line(definition, version.number, version.gtid, self._style.values)
