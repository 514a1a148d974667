"""What a power failure leaves of a folder: everything that was flushed, and any combination of other sectors.

tests/faults/mirror.c, preloaded into the relay, records what was flushed. For each sector that was written since then,
chance decides whether it is on disk; likewise for names whose last change no flush of their folder covered.
"""

from __future__ import annotations

import os
import random
import re
import shutil
import subprocess
from pathlib import Path

from relay.runtime import admin_socket
from relay.runtime.shm import find

_SECTORS = (512, 4096)
_UNFINISHED = re.compile(r".*~\d+")  # a copy that was being made when its process was killed


def compiled(folder: Path) -> Path:
    """The library to be preloaded."""
    library = folder / "mirror.so"
    source = Path(__file__).with_name("mirror.c")
    flags = ("-O1", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC")
    subprocess.run([os.environ.get("CC", "cc").split()[-1], *flags, "-o", library, source, "-ldl"], check=True)
    return library


def lose_power(data: Path, mirror: Path, dice: random.Random) -> None:
    """Leave in `data`, whose processes were killed, what a disk could have of it; and that is what is flushed then."""
    if (block := find(data)) is not None:
        Path(f"/dev/shm/{block.name}").unlink()
    names = {path.relative_to(folder) for folder in (data, mirror) for path in folder.rglob("*") if path.is_file()}
    whole = dice.random()  # how much of what was not flushed is there: in each loss another part
    for name in sorted({Path(str(name).removesuffix("~")) for name in names}):
        if _UNFINISHED.fullmatch(name.name) or name.name.endswith("!"):
            continue
        left = _left(_content(data / name), _content(mirror / name), _content(mirror / f"{name}~"), whole, dice)
        if left is None:
            (data / name).unlink(missing_ok=True)
        else:
            (data / name).write_bytes(left)
    for note in (data / "journal" / "sync", *data.glob("*-sync")):
        note.unlink(missing_ok=True)  # it counts for the host's present life only, by its boot id
    shutil.rmtree(mirror)
    shutil.copytree(data, mirror, ignore=shutil.ignore_patterns(admin_socket.NAME))  # a socket has nothing to be copied


def _content(path: Path) -> bytes | None:
    return path.read_bytes() if path.exists() else None


def _left(
    written: bytes | None, flushed: bytes | None, before: bytes | None, whole: float, dice: random.Random
) -> bytes | None:
    """A file's content; None: no such name. `before` is what stood under it until a rename that was not flushed."""
    if before is not None and dice.random() > whole:
        return before
    if written is None:
        return None
    if flushed is None:
        if dice.random() > whole:
            return dice.choice((None, b""))
        flushed = b""
    sector, size = dice.choice(_SECTORS), max(len(flushed), len(written))
    if len(written) > len(flushed):
        size = dice.choice((len(flushed), len(written)))
    old, new = bytearray(flushed.ljust(size, b"\0")), written.ljust(size, b"\0")
    for at in range(0, size, sector):
        if old[at : at + sector] != new[at : at + sector] and dice.random() < whole:
            old[at : at + sector] = new[at : at + sector]
    return bytes(old[:size])
