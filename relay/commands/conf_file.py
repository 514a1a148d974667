"""Write a configuration file for the relay."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from relay.config import ini
from relay.config.load import Given

_NOTES: Final = {
    "BindAddress": "Listen address of the client port. 0.0.0.0 lets other machines connect: docs/security.md says how.",
}
"""Comments that say more than the meaning of the key."""


def content(settings: Iterable[Given], command: str) -> bytes:
    """Return the file that `command` writes: each key with a comment. Raises `RelayError` if it cannot hold a value."""
    lines = [
        f"; Configuration of the relay, written by `{command}`. docs/config.md describes these and all other keys.",
        "; It has secrets: only the relay's user may read it.",
    ]
    section = ""
    for one in settings:
        if one.key.section != section:
            section = one.key.section
            lines += ["", f"[{section}]"]
        meaning = _NOTES.get(one.key.name) or f"{one.key.doc[0].upper()}{one.key.doc[1:]}."
        lines += [f"; {meaning}", ini.line(one.name, one.content)]
    return ("\n".join(lines) + "\n").encode("utf-8", "surrogateescape")


def write(target: Path, content: bytes, owner: tuple[int, int] | None = None) -> None:
    """Write the file with mode 0600 and this owner (user, group), or leave everything as it was."""
    handle, made = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            if owner is not None:
                os.fchown(handle, *owner)
        os.replace(made, target)
    except BaseException:
        os.unlink(made)
        raise
