"""The recording of a session with the original relay, as pairs of request and reply."""

from __future__ import annotations

from typing import NamedTuple

from relay.protocol.classic import HEADER, Header
from tests.support import ROOT

RECORDING = ROOT / "tests" / "golden" / "freedelity-session.txt"


class Exchange(NamedTuple):
    """One request and its reply, complete. The reply is empty if the original sent none."""

    request: bytes
    reply: bytes


def header_of(request: bytes) -> Header:
    """The header of a request."""
    return Header(*HEADER.unpack_from(request))


def exchanges() -> list[Exchange]:
    """The whole recording, in order."""
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
