"""Check this machine: folders, disk space, ports, and the lake."""

from __future__ import annotations

import os
import shutil
import socket
import stat
from collections.abc import Iterator
from pathlib import Path

from relay.base.errors import RelayError
from relay.cdc.users import path_of
from relay.commands.checks.finding import Finding, failed, gib, ok, warning
from relay.config.tree import EXPOSURE_HINT, Config
from relay.config.values import is_url


def surroundings(config: Config, running: int | None) -> Iterator[Finding]:
    """Check DataDir, disk space, exposure of the port, free ports. `running`: process id of a running relay."""
    folder = Path(config.relay.data_dir)
    existing = _existing(folder)
    yield _folder("DataDir", folder, "DataDir")
    yield from _open_to_others("DataDir mode", folder, stat.S_IXOTH)
    if config.cdc.enabled:
        yield from _open_to_others("CDC users", path_of(config), stat.S_IROTH)
    free = shutil.disk_usage(existing).free
    wanted = config.relay.journal_max_bytes
    if free < wanted:
        text = f"{gib(free)} free in {existing}, but JournalMaxBytes is {gib(wanted)}"
        yield warning("disk space", text, "free some space, or lower JournalMaxBytes")
    else:
        yield ok("disk space", f"{gib(free)} free; the journal takes at most {gib(wanted)}")
    server = config.server
    if server.exposure:
        yield warning("TLS for clients", server.exposure, EXPOSURE_HINT)
    if running is not None:
        yield ok("ports", f"in use by the running relay, process {running}")
        return
    for key, address, port in (
        ("ServerPort", server.bind_address, server.server_port),
        ("HTTPPort", server.http_address, server.http_port),
    ):
        yield _port(key, address, port)


def lake(path: str) -> Finding:
    """Check whether the export can write to the lake, and say where an earlier export ended. Write nothing."""
    try:
        import relay.lake.arrow  # noqa: F401  (its error names the missing extra)
        from relay.lake.log import LakeLog
        from relay.lake.storage import open_storage

        end = LakeLog(open_storage(path)).state().place
    except RelayError as error:
        return failed("lake", str(error), error.hint)
    if end is not None:
        return ok("lake", f"{path} has all rows up to {end.file}:{end.offset}")
    return ok("lake", f"{path} is empty") if is_url(path) else _folder("lake", Path(path), "Path in [Lake]")


def _open_to_others(subject: str, path: Path, right: int) -> Iterator[Finding]:
    """Yield a warning if every user of this machine has that permission on the path."""
    try:
        mode = path.stat().st_mode
    except OSError:  # missing or not accessible: other findings report that
        return
    if mode & right:
        yield warning(subject, f"every user of this machine may read {path}", f"chmod o-rwx {path}")


def _existing(folder: Path) -> Path:
    return next(path for path in (folder, *folder.parents) if path.exists())


def is_usable(folder: Path) -> bool:
    """Whether this user can write to the folder, or create it."""
    existing = _existing(folder)
    return existing.is_dir() and os.access(existing, os.W_OK | os.X_OK)


def _folder(subject: str, folder: Path, key: str) -> Finding:
    existing = _existing(folder)
    if is_usable(folder):
        return ok(subject, f"{folder} is writable" if existing == folder else f"{folder} can be created")
    return failed(subject, f"{existing} is not writable", f"chown it to user {os.geteuid()}, or set another {key}")


def _port(key: str, address: str, port: int) -> Finding:
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with socket.socket(family) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((address, port))
        except OSError as error:
            return failed(key, f"{address}:{port}: {error.strerror}", f"free the port, or set another {key}")
    return ok(key, f"{address}:{port} is free")
