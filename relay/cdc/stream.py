"""The stream of one table for one client: produces its bytes, without a socket."""

from __future__ import annotations

from typing import Final

import msgspec

from relay._native import CdcReader, JournalReader
from relay.base.errors import ErrorCode, RelayError
from relay.base.log import Log
from relay.cdc.container import Container
from relay.cdc.schema import avro_schema, schema_line
from relay.cdc.store import Version
from relay.cdc.versions import Versions
from relay.protocol.cdc_messages import Form, Gtid, Request

TURN_BYTES: Final = 64 << 10
"""The bytes of rows in one turn."""

_SKIP_BYTES: Final = 1 << 20  # of the journal without rows of the table: to skip more, a new reader costs less

NO_GTIDS: Final = "the source writes no GTIDs, which this protocol needs"


class Style(msgspec.Struct, frozen=True):
    """The form of rows: `[CDC] Values` and `Codec`; whether TIMESTAMP is in UTC, and unproven names positional."""

    values: str
    codec: str
    utc: bool
    positional: bool


class Stream:
    """The rows of the requested table from the requested position on."""

    def __init__(
        self, journal: JournalReader, versions: Versions, request: Request, form: Form, style: Style, log: Log
    ) -> None:
        self.table: Final = (request.schema, request.table)
        self.caught_up = False
        self.rows = 0
        self.version: Version | None = None
        self._journal = journal
        self._versions = versions
        self._form = form
        self._style = style
        self._log = log
        self._definition = b""
        self._container: Container | None = None
        self._oldest = request.version or 0
        self._skipping = False  # the rows are of earlier versions than requested
        begins = self._begins(request)
        self._awaited_gtid = self._seek(request.gtid, begins)
        start = self._versions.start_of(self._awaited_gtid) if self._awaited_gtid else begins
        self._reader = self._reader_at(start, self._awaited_gtid is not None)

    @property
    def position(self) -> int:
        """The journal position up to which rows were sent."""
        return self._reader.position

    @property
    def gtid(self) -> Gtid:
        """The GTID of the last transaction with rows of the table."""
        return Gtid(*self._reader.gtid)

    def turn(self) -> bytes:
        """Return the next bytes, b"" if there are none. Raises `RelayError` if the stream cannot continue."""
        try:
            reached = self._reader.read(self._versions.position, TURN_BYTES)
        except RelayError:
            if not self._reader.size:
                raise
            return self._take_rows()  # first return the rows before it; the next turn raises it again
        rows = self._take_rows()
        self.caught_up = reached.why == "end"
        if reached.why == "schema":
            version = self._versions.version_at(*self.table, reached.position)
            self._skipping = version.number < self._oldest
            return rows if self._skipping else rows + self._schema_head(version, self._reader.definition)
        if reached.why == "no_gtid" and not rows:
            raise RelayError(ErrorCode.CHECK_FAILED, "read rows for CDC", NO_GTIDS)
        if reached.why == "gap":
            self._log("cdc_gap", table=".".join(self.table), cause=reached.text)
        if self.caught_up and not self.version:
            newest = self._versions.versions(*self.table)[-1]
            self._reader.expect(newest.definition)
            return rows + self._schema_head(newest, newest.definition)
        return rows

    def wake(self, before: int) -> None:
        """Note that there may be rows, all of them behind `before`, which is between transactions."""
        if not self.caught_up:
            return
        self.caught_up = False
        if before - self.position > _SKIP_BYTES or self.position < self._journal.first():
            self._reader = self._reader_at(before, self._reader.seeking)
            if self._definition:
                self._reader.expect(self._definition)

    def _take_rows(self) -> bytes:
        """Take the rows from the reader, in the client's form."""
        count, rows = self._reader.take()
        if self._skipping:
            return b""
        self.rows += count
        return self._container.block(count, rows) if rows and self._container else rows

    def _begins(self, request: Request) -> int:
        """Return the position of the first rows of the requested version, 0 for the oldest rows."""
        if request.version is None:
            return 0
        at = next(each for each in self._versions.versions(*self.table) if each.number == request.version)
        return at.begins if at.begins > self._journal.first() else 0

    def _seek(self, gtid: Gtid | None, begins: int) -> Gtid | None:
        """Return the transaction to wait for, None if everything from `begins` on comes after it."""
        if not gtid or not gtid.sequence or self._versions.is_before(gtid, begins):
            return None
        return gtid

    def _reader_at(self, position: int, seeking: bool) -> CdcReader:
        schema, table = self.table
        reader = CdcReader(
            self._journal,
            position,
            schema=schema,
            table=table,
            domain=self._versions.domain,
            form=self._form.lower(),
            values=self._style.values,
            utc=self._style.utc,
            positional=self._style.positional,
        )
        if self._awaited_gtid and seeking:
            reader.seek(self._awaited_gtid.domain, self._awaited_gtid.sequence)
        return reader

    def _schema_head(self, version: Version, definition: bytes) -> bytes:
        self.version, self._definition = version, definition
        if self._form is Form.AVRO:
            self._container = Container(avro_schema(definition, self._style.values), self._style.codec)
            return self._container.header
        return schema_line(definition, version.number, version.gtid, self._style.values)
