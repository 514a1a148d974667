"""The AuthKeys of the classic protocol (docs/protocol.md): hashes of secrets. No I/O."""

from __future__ import annotations

import hmac
from collections.abc import Iterable
from typing import Final

_MASK63: Final = 0x7FFF_FFFF_FFFF_FFFF


def fnv1a64(data: bytes) -> int:
    """Return the 64-bit FNV-1a hash of `data`."""
    value = 0xCBF2_9CE4_8422_2325
    for byte in data:
        value = ((value ^ byte) * 0x100_0000_01B3) & 0xFFFF_FFFF_FFFF_FFFF
    return value


def shifted_fnv1a64(secret: bytes) -> int:
    """Return the hash in the original server and its Free Pascal client: of a NUL and all bytes except the last one."""
    return fnv1a64(b"\0" + secret[:-1] if secret else b"")


def accepted_keys(secret: bytes, *, legacy: bool) -> tuple[int, ...]:
    """Return the valid AuthKeys of a secret; with `legacy` also those that the original clients send."""
    key = fnv1a64(secret)
    if not legacy:
        return (key,)
    shifted = shifted_fnv1a64(secret)
    return (key, shifted, key & _MASK63, shifted & _MASK63)


def key_matches(key: int, accepted: Iterable[int]) -> bool:
    """Whether key is one of those accepted. Compares in constant time."""
    sent = key.to_bytes(8, "little")
    found = False
    for each in accepted:
        found |= hmac.compare_digest(sent, each.to_bytes(8, "little"))
    return found
