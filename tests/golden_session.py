"""The recording of a session with the original relay, as pairs of request and reply."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

RECORDING = Path(__file__).parent / "golden" / "freedelity-session.txt"


class Exchange(NamedTuple):
    """One request and its reply, whole; the reply is empty where the original gave none."""

    request: bytes
    reply: bytes


def exchanges() -> list[Exchange]:
    """All of the recording, in order."""
    messages: list[tuple[str, bytearray]] = []
    for line in RECORDING.read_text(errors="replace").splitlines():
        if line.endswith(" bytes"):
            messages.append((line[:3], bytearray()))
        elif line.startswith("    "):
            messages[-1][1].extend(bytes.fromhex(line[10:106]))
    found: list[Exchange] = []
    for side, data in messages:
        if side == "C>S":
            found.append(Exchange(bytes(data), b""))
        else:
            found[-1] = Exchange(found[-1].request, bytes(data))
    return found
