"""Binlog files as streams, like those from a server: archives, relay logs, and files that are still being written."""

from __future__ import annotations

import os
import struct
import zlib
from pathlib import Path
from typing import BinaryIO, Final, cast

from relay.base.errors import ErrorCode, StopCode
from relay.binlog.decoder import Decoder
from relay.binlog.events import EventType, FormatDescriptionEvent, HeaderFlag, RotateEvent
from relay.binlog.eventstream import EventStream
from relay.binlog.progress import HEADER_SIZE, FileProgress
from relay.binlog.replication import Flag, Replication
from relay.binlog.rowvalues import Values
from relay.source.commands import FIRST_POSITION
from relay.source.errors import BinlogError, DescriptionError, Misuse, MisuseError

_OPEN: Final = "open the binlog file"
_READ: Final = "read the binlog file"
_MAGIC: Final = b"\xfebin"
_MYSQL_ENCRYPTED: Final = b"\xfdbin"
_LARGEST_EVENT: Final = (1 << 30) + (1 << 20)  # the highest max_allowed_packet, and the overhead of an event
_CRC32: Final = 1
_ARTIFICIAL: Final = int(HeaderFlag.ARTIFICIAL)
_CHECKSUM_BYTES: Final = 4
_HEADER: Final = struct.Struct("<9xIIH")  # size, end, flags


class BinlogFile(EventStream):
    """One binlog file as a stream. Iteration ends at the end of what is written.

    `replication`, if given, has in `start_position` where to begin; its `file_name` becomes the file's. `decoder` is
    that of the previous file, if it was read to its end: its table definitions remain known. Without it, `values` of
    rows are text, or "python" objects.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        replication: Replication | None = None,
        *,
        decoder: Decoder | None = None,
        values: Values = "text",
    ) -> None:
        super().__init__(replication or Replication(flags=Flag.NON_BLOCK), values, decoder)
        self.path = Path(path)
        """The file. Positions in the description are offsets in it, also for a relay log."""
        self.next_file = ""
        """The name of the next file, at the end of a file that its server closed; else ""."""
        self.incomplete = 0
        """At the end: the number of bytes of an incomplete event; 0 if there is none."""
        self._file: BinaryIO | None = None
        self._progress: FileProgress | None = None
        self._checksums = False
        self._at = self._start = FIRST_POSITION
        self._relay_log = False

    def open(self) -> int:
        """Open the file and check its type. Returns 0.

        Raises `BinlogError` if it is not a binlog, is encrypted, or cannot be read; `DescriptionError`, `MisuseError`.
        """
        if self._closed:
            raise MisuseError(Misuse.CLOSED, _OPEN)
        if self._file is not None:
            raise MisuseError(Misuse.ALREADY_OPEN, _OPEN)
        wanted = self.replication
        if isinstance(wanted.flags, int) and wanted.flags & Flag.GTID:
            raise DescriptionError(
                ErrorCode.USAGE, _OPEN, "a file can be read from a position only, not by GTID", position="flags",
                hint="omit Flag.GTID, and skip unwanted events",
            )  # fmt: skip
        wanted.file_name = self.path.name
        wanted.check_position()
        try:
            file = self.path.open("rb")
        except OSError as error:
            raise BinlogError(
                ErrorCode.ENVIRONMENT, _OPEN, error, hint="check that the path exists and is accessible"
            ) from error
        try:
            self._check_kind(file)
            if wanted.start_position > (size := file.seek(0, os.SEEK_END)):
                raise self._damaged(wanted.start_position, f"the file ends at {size}", operation=_OPEN)
        except BaseException:
            file.close()
            raise
        self._file, self._start = file, wanted.start_position
        self._progress = FileProgress(wanted, self.decoder, str(self.path))
        return 0

    def fetch(self) -> int:
        """Put the next event into the description, as `Stream.fetch` does. Returns 0; at the end, `size` is 0.

        If reading begins in the middle of a file, the first event is the FORMAT_DESCRIPTION, as from a server. At the
        end it may be called again: a file that is still being written may have grown. Raises `BinlogError` with file
        and position.
        """
        file, progress = self._require_open("fetch an event")
        replication = self.replication
        replication.size, replication.buffer, self._event = -1, b"", None
        data = self._read(file, self._at)
        if data is None:
            replication.size = 0
            return 0
        self._verify(data)
        progress.skip_to(self._at)
        self._event = progress.advance(data)
        self._at += len(data)
        self.next_file = self._event.filename if isinstance(self._event, RotateEvent) else ""
        if isinstance(self._event, FormatDescriptionEvent):
            self._checksums = self._event.checksum_algorithm == _CRC32
        if self._start > FIRST_POSITION:  # that was the FORMAT_DESCRIPTION
            self._at = replication.start_position = replication.position = self._start
            self._start = FIRST_POSITION
        replication.buffer = b"\0" + data
        replication.size = len(replication.buffer)
        return 0

    def close(self) -> None:
        """Close the file. Raises `MisuseError` unless open."""
        file, _ = self._require_open("close the file")
        self._closed = True
        file.close()

    def _open_progress(self) -> FileProgress:
        return self._require_open("fetch an event")[1]

    def _require_open(self, operation: str) -> tuple[BinaryIO, FileProgress]:
        if self._closed:
            raise MisuseError(Misuse.CLOSED, operation)
        if self._file is None or self._progress is None:
            raise MisuseError(Misuse.NOT_OPEN, operation)
        return self._file, self._progress

    def _check_kind(self, file: BinaryIO) -> None:
        """Raise `BinlogError` unless it is a readable binlog."""
        magic = file.read(len(_MAGIC))
        if magic == _MYSQL_ENCRYPTED:
            raise self._encrypted("MySQL encrypted it (binlog_encryption)")
        if magic != _MAGIC:
            raise BinlogError(
                ErrorCode.USAGE, _OPEN, f"it begins with {magic!r} instead of {_MAGIC!r}: it is not a binlog file",
                position=str(self.path), hint="give a file of SHOW BINARY LOGS, or a relay log; decompress it first",
            )  # fmt: skip
        if (first := self._read(file, FIRST_POSITION)) is None:
            return
        if first[4] != EventType.FORMAT_DESCRIPTION:
            raise self._damaged(
                FIRST_POSITION, f"it begins with an event of type {first[4]} instead of FORMAT_DESCRIPTION"
            )
        self._relay_log = bool(_HEADER.unpack_from(first)[2] & HeaderFlag.RELAY_LOG)
        file.seek(FIRST_POSITION + len(first))
        if file.read(5)[4:] == bytes([EventType.START_ENCRYPTION]):
            raise self._encrypted("MariaDB encrypted it (encrypt_binlog)")

    def _read(self, file: BinaryIO, at: int) -> bytes | None:
        """Read the event at `at`, None at the end of what is written. Raises `BinlogError`."""
        try:
            file.seek(at)
            header = file.read(HEADER_SIZE)
            size = self._size(at, header) if len(header) == HEADER_SIZE else HEADER_SIZE
            data = header + file.read(size - len(header))
        except OSError as error:
            raise BinlogError(
                ErrorCode.ENVIRONMENT, _READ, error, position=f"{self.path}:{at}", hint="check the disk"
            ) from error
        complete = len(header) == HEADER_SIZE and len(data) == size
        self.incomplete = 0 if complete else len(data)
        return data if complete else None

    def _size(self, at: int, header: bytes) -> int:
        """Return the size of the event at `at`. Raises `BinlogError` if there is none."""
        size, end, flags = cast(tuple[int, int, int], _HEADER.unpack_from(header))
        if not HEADER_SIZE <= size <= _LARGEST_EVENT:
            raise self._damaged(at, f"the event there declares {size} bytes")
        # In a relay log, the header has the end in the source's file; in transactions of MariaDB 11.4 and later, 0.
        own = end and not self._relay_log and not flags & _ARTIFICIAL
        if own and end != (at + size) & 0xFFFFFFFF:
            raise self._damaged(at, f"the event there declares {size} bytes and the end {end}")
        return size

    def _verify(self, data: bytes) -> None:
        """Raise `BinlogError` if the checksum is wrong; the decoder checks FORMAT_DESCRIPTION."""
        if not self._checksums or data[4] == EventType.FORMAT_DESCRIPTION:
            return
        stored = int.from_bytes(data[-_CHECKSUM_BYTES:], "little")
        artificial = int.from_bytes(data[17:19], "little") & _ARTIFICIAL  # in relay logs, stored as sent
        if zlib.crc32(memoryview(data)[:-_CHECKSUM_BYTES]) != stored and not artificial:
            raise self._damaged(self._at, "the event there does not match its checksum", StopCode.CHECKSUM_MISMATCH)

    def _encrypted(self, cause: str) -> BinlogError:
        return BinlogError(
            StopCode.UNKNOWN_EVENT, _OPEN, f"{cause}, and only the server has the key", position=str(self.path),
            hint="read it from the server, which sends it decrypted: Stream, or `relay tail --from FILE:4`",
        )  # fmt: skip

    def _damaged(
        self, at: int, cause: str, code: StopCode = StopCode.UNKNOWN_EVENT, operation: str = _READ
    ) -> BinlogError:
        return BinlogError(
            code, operation, cause, position=f"{self.path}:{at}",
            hint="the file is damaged there, or the position is not where an event begins: check with mysqlbinlog",
        )  # fmt: skip
