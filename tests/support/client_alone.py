"""The client's wheel in a Python without any package, beside the client of this Python."""

from __future__ import annotations

import json
import subprocess
import zipfile
from collections.abc import Sequence
from pathlib import Path

from relay.client import RelayClient
from scripts.wheels import build_client
from tests.support.classic_client import SECRET
from tests.support.server_processes import Serving
from tests.support.waiting import patience

_SCRIPT = """
import importlib.util, json, sys
assert not any(importlib.util.find_spec(name) for name in ("msgspec", "click", "pymysql")), sys.path
from relay.client import RelayClient
with RelayClient("127.0.0.1", int(sys.argv[1]), "alone", sys.argv[2]) as client:
    client.add_filter("shop", "orders", limit=1000)
    print(json.dumps([repr(filter) for filter in client.filters()]), flush=True)
    rows = []
    while len(rows) < 300:
        rows += client.poll_many(100, wait=20)
    print(json.dumps([repr(row) for row in rows]))
"""


def gets_the_same_rows(python: Sequence[str], folder: Path) -> None:
    """Fails unless this Python, with the client's wheel alone, gets the filters and rows that this process gets."""
    zipfile.ZipFile(build_client(folder / "sources", folder)).extractall(folder / "client")
    with Serving(folder) as serving, RelayClient("127.0.0.1", serving.port, "beside", SECRET) as client:
        client.add_filter("shop", "orders", limit=1000)
        # -S: without site-packages.
        alone = subprocess.Popen(
            [*python, "-S", "-P", "-c", _SCRIPT, str(serving.port), SECRET],
            env={"PYTHONPATH": str(folder / "client")},
            stdout=subprocess.PIPE,
            text=True,
        )
        assert alone.stdout is not None
        assert json.loads(alone.stdout.readline()) == list(map(repr, client.filters()))
        for number in range(100):
            serving.insert((number, "größe"))
            serving.update(((number, "größe"), (number, None)))
            serving.delete((number, None))
        rows = client.poll_many(100, wait=patience(20))
        while len(rows) < 300:
            rows += client.poll_many(100, wait=patience(20))
        output, _ = alone.communicate(timeout=patience(60))
    assert alone.returncode == 0
    assert json.loads(output) == list(map(repr, rows))
