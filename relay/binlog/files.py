"""Binlog files, read as a stream from a server is: archives, relay logs, and files that are still being written."""

from __future__ import annotations

import os
import struct
import zlib
from pathlib import Path
from typing import BinaryIO, Final, cast

from relay.binlog.commands import FIRST_POSITION
from relay.binlog.decoder import Decoder
from relay.binlog.errors import BinlogError, DescriptionError, Misuse, MisuseError
from relay.binlog.events import EventType, FormatDescriptionEvent, HeaderFlag, RotateEvent
from relay.binlog.eventstream import EventStream
from relay.binlog.progress import HEADER_SIZE, FileProgress
from relay.binlog.replication import Flag, Replication
from relay.errors import ErrorCode, StopCode

_OPEN: Final = "open the binlog file"
_READ: Final = "read the binlog file"
_MAGIC: Final = b"\xfebin"
_MYSQL_ENCRYPTED: Final = b"\xfdbin"
_LARGEST_EVENT: Final = (1 << 30) + (1 << 20)  # max_allowed_packet at its highest, and what an event adds
_CRC32: Final = 1
_MADE_UP: Final = int(HeaderFlag.ARTIFICIAL)
_CHECKSUM_BYTES: Final = 4
_HEADER: Final = struct.Struct("<9xIIH")  # size, end, flags


class BinlogFile(EventStream):
    """One binlog file as a stream. Iteration ends at the end of what was written.

    `replication`, if given, says with `start_position` where in the file to begin; its `file_name` becomes the file's.
    `decoder` is that of the file before this one, if that was read to its end: what it knows of definitions goes on.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        replication: Replication | None = None,
        *,
        decoder: Decoder | None = None,
    ) -> None:
        super().__init__(replication or Replication(flags=Flag.NON_BLOCK), decoder)
        self.path = Path(path)
        """The file. Positions in the description are those in it, also of a relay log."""
        self.next_file = ""
        """At the end of a file that its server closed: the name of the next one; "" if it was not closed so."""
        self.incomplete = 0
        """At the end: how many bytes of an event stand there whose rest was not written, yet or ever."""
        self._file: BinaryIO | None = None
        self._progress: FileProgress | None = None
        self._checksums = False
        self._at = self._start = FIRST_POSITION
        self._relay_log = False

    def open(self) -> int:
        """Open the file and read what it is. Returns 0.

        Raises `BinlogError` if it is no binlog, is encrypted, or cannot be read; `DescriptionError`, `MisuseError`.
        """
        if self._closed:
            raise MisuseError(Misuse.CLOSED, _OPEN)
        if self._file is not None:
            raise MisuseError(Misuse.ALREADY_OPEN, _OPEN)
        wanted = self.replication
        if isinstance(wanted.flags, int) and wanted.flags & Flag.GTID:
            raise DescriptionError(
                ErrorCode.USAGE, _OPEN, "a file is read from a position, not by GTID", position="flags",
                hint="leave Flag.GTID out, and pass over what is not wanted",
            )  # fmt: skip
        wanted.file_name = self.path.name
        wanted.check_place()
        try:
            file = self.path.open("rb")
        except OSError as error:
            raise BinlogError(
                ErrorCode.ENVIRONMENT, _OPEN, error, hint="check that the path is there and permitted"
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

        From the middle of a file it gives the FORMAT_DESCRIPTION first, as a server does. At the end it may be called
        again: a file that is still being written may have grown. Raises `BinlogError` with file and position.
        """
        file, progress = self._opened("fetch an event")
        replication = self.replication
        replication.size, replication.buffer, self._event = -1, b"", None
        data = self._read(file, self._at)
        if data is None:
            replication.size = 0
            return 0
        self._verify(data)
        progress.skip_to(self._at)
        self._event = progress.passed(memoryview(data))
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
        file, _ = self._opened("close the file")
        self._closed = True
        file.close()

    def _reading(self) -> FileProgress:
        return self._opened("fetch an event")[1]

    def _opened(self, operation: str) -> tuple[BinaryIO, FileProgress]:
        if self._closed:
            raise MisuseError(Misuse.CLOSED, operation)
        if self._file is None or self._progress is None:
            raise MisuseError(Misuse.NOT_OPEN, operation)
        return self._file, self._progress

    def _check_kind(self, file: BinaryIO) -> None:
        """Raise `BinlogError` unless it is a binlog that can be read."""
        magic = file.read(len(_MAGIC))
        if magic == _MYSQL_ENCRYPTED:
            raise self._refused("MySQL encrypted it (binlog_encryption)")
        if magic != _MAGIC:
            raise BinlogError(
                ErrorCode.USAGE, _OPEN, f"it begins with {magic!r} and not with {_MAGIC!r}: it is no binlog file",
                position=str(self.path), hint="name a file of SHOW BINARY LOGS, or a relay log; unpack it before",
            )  # fmt: skip
        if (first := self._read(file, FIRST_POSITION)) is None:
            return
        if first[4] != EventType.FORMAT_DESCRIPTION:
            raise self._damaged(
                FIRST_POSITION, f"it begins with an event of type {first[4]}, and not with FORMAT_DESCRIPTION"
            )
        self._relay_log = bool(_HEADER.unpack_from(first)[2] & HeaderFlag.RELAY_LOG)
        file.seek(FIRST_POSITION + len(first))
        if file.read(5)[4:] == bytes([EventType.START_ENCRYPTION]):
            raise self._refused("MariaDB encrypted it (encrypt_binlog)")

    def _read(self, file: BinaryIO, at: int) -> bytes | None:
        """The event that begins there, None at the end of what was written. Raises `BinlogError`."""
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
        """Of the event that begins there. Raises `BinlogError` if none does."""
        size, end, flags = cast(tuple[int, int, int], _HEADER.unpack_from(header))
        if not HEADER_SIZE <= size <= _LARGEST_EVENT:
            raise self._damaged(at, f"an event there says that it has {size} bytes")
        # In a relay log the end is the source's; 0 stands inside of transactions of MariaDB 11.4 and later.
        own = end and not self._relay_log and not flags & _MADE_UP
        if own and end != (at + size) & 0xFFFFFFFF:
            raise self._damaged(at, f"an event there says that it has {size} bytes and ends at {end}")
        return size

    def _verify(self, data: bytes) -> None:
        """Raise `BinlogError` if the event is not what was written; the decoder does so for FORMAT_DESCRIPTION."""
        if not self._checksums or data[4] == EventType.FORMAT_DESCRIPTION:
            return
        told = int.from_bytes(data[-_CHECKSUM_BYTES:], "little")
        made_up = int.from_bytes(data[17:19], "little") & _MADE_UP  # in relay logs, as they were sent
        if zlib.crc32(memoryview(data)[:-_CHECKSUM_BYTES]) != told and not made_up:
            raise self._damaged(self._at, "the event there does not have its checksum", StopCode.CHECKSUM_MISMATCH)

    def _refused(self, cause: str) -> BinlogError:
        return BinlogError(
            StopCode.UNKNOWN_EVENT, _OPEN, f"{cause}, and the key is the server's", position=str(self.path),
            hint="read it from the server, which sends it decrypted: Stream, or `relay tail --from FILE:4`",
        )  # fmt: skip

    def _damaged(
        self, at: int, cause: str, code: StopCode = StopCode.UNKNOWN_EVENT, operation: str = _READ
    ) -> BinlogError:
        return BinlogError(
            code, operation, cause, position=f"{self.path}:{at}",
            hint="the file is damaged there, or the position is not where an event begins: look with mysqlbinlog",
        )  # fmt: skip
