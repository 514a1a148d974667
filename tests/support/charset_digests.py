"""One number for what the core makes of every code of some character sets, here and in another Python."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence

from tests.support import ROOT

CHARSETS = """
import hashlib, sys
from relay import _native
from relay._native import decode_text
codes = [bytes([a]) for a in range(256)] + [bytes([a, b]) for a in range(128, 256) for b in range(256)]
codes += [b"\\x8f" + code for code in codes[256:]]
codes += [bytes([a, b, 0x90, 0x30]) for a in range(129, 255) for b in range(48, 58)]
digest = hashlib.sha256()
for charset in sys.argv[1:]:
    for code in codes:
        digest.update(decode_text(charset, code).encode("utf-8", "surrogatepass"))
print(_native.__file__, digest.hexdigest())
"""
"""A script: with the names of character sets as arguments, it prints where the core is, and the digest."""


def digest_here(names: Sequence[str]) -> str:
    """The digest of the core of this process."""
    done = subprocess.run(
        [sys.executable, "-c", CHARSETS, *names], cwd=ROOT, capture_output=True, text=True, check=True
    )
    return done.stdout.split()[1]
