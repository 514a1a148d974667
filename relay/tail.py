"""`relay tail` without a relay: events straight from the source, or from binlog files."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pymysql.connections import Connection

from relay.binlog import BinlogError, BinlogFile, Flag, Replication, Stream, facts, resume
from relay.binlog.facts import ServerFacts
from relay.binlog.failures import SourceLost
from relay.binlog.sources import Sources
from relay.config import Config
from relay.errors import ErrorCode, RelayError
from relay.eventlines import Form, lines
from relay.log import logger


def from_source(config: Config, place: str, to_end: bool, form: Form) -> Iterator[str]:
    """Events of the source from `place` on (oldest, newest, FILE:POS or a GTID set), as lines.

    With `to_end` up to where its binlog ends, else for ever. Raises `RelayError`; of a source that is lost, its hint
    says where to go on.
    """
    with _opened(config, place, to_end) as stream:
        try:
            yield from lines(stream, form)
        except BinlogError as error:
            if error.code is ErrorCode.SOURCE_UNREACHABLE:
                here = stream.replication
                error.hint = f"go on with --from {here.file_name}:{here.start_position}"
            raise


def from_files(paths: Sequence[Path], form: Form, note: Callable[[str], None]) -> Iterator[str]:
    """Events of binlog files in the order in which they are named, as lines. Raises `RelayError`.

    What a file tells of definitions holds in the next, if that is the one which follows it. A file whose last event is
    not whole is no error: `note` is told.
    """
    before: BinlogFile | None = None
    for path in paths:
        follows = before is not None and before.next_file == path.name
        with BinlogFile(path, decoder=before.decoder if before and follows else None) as log:
            yield from lines(log, form)
            before = log
            if log.incomplete:
                end = log.replication.position
                note(f"{path}:{end}: the last event is not whole: the file is being written, or was cut")


@contextmanager
def _opened(config: Config, place: str, to_end: bool) -> Iterator[Stream]:
    try:
        connection, server = _connected(config)
        if place == "oldest":
            start = facts.binlog_start(connection, server)
        elif place == "newest":
            start = facts.binlog_end(connection, server)
        else:
            start = resume.spelled_out(place)
    except SourceLost as lost:
        raise RelayError(ErrorCode.SOURCE_UNREACHABLE, "tail", str(lost)) from lost
    flags = Flag.SKIP_HEARTBEAT | (Flag.NON_BLOCK if to_end else Flag(0)) | (Flag(0) if start.file else Flag.GTID)
    wanted = Replication(
        file_name=start.file,
        start_position=start.position,
        # Not the relay's own id, which may be at work; another one each time, so that several can look on.
        server_id=0 if to_end else 2**31 + secrets.randbelow(2**31),
        flags=flags | (Flag.SEND_ANNOTATE_ROWS if server.mariadb else Flag(0)),
        gtid_set=start.gtid_set,
    )
    with connection, Stream(connection, wanted) as stream:
        yield stream


def _connected(config: Config) -> tuple[Connection[Any], ServerFacts]:
    """To the first host of the source that answers. Raises `SourceLost` if none does, `RelayError`."""
    sources = Sources(config, logger("tail"))
    for _ in config.server.ip_addr[1:]:
        try:
            return sources.connect()
        except SourceLost:
            continue
    return sources.connect()
