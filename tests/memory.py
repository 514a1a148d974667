"""What a process takes of the machine's memory for itself."""

from __future__ import annotations

import os
from pathlib import Path


def anonymous_bytes(pid: int | None = None) -> int:
    """Memory of a process, or of this one, that no file stands behind: no journal, no shared memory."""
    status = Path(f"/proc/{pid or os.getpid()}/status").read_text().splitlines()
    (line,) = [line for line in status if line.startswith("RssAnon")]
    return int(line.split()[1]) << 10
