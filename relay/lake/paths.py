"""Names of the lake's folders and files, and their parsing. Table names are percent-encoded as in Hive and Spark.

changes/cdc_schema=shop/cdc_table=order%2Fitems/cdc_date=2026-11-20/part-<first>-<last>-v<version>.parquet
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

from relay.lake.documents import ChangeKind, Table

LOG: Final = "_log"
CHANGES: Final = "changes"
CURRENT: Final = "current"
_DIGITS: Final = 20
# The characters that Spark's ExternalCatalogUtils.escapePathName escapes, on all systems except Windows.
_ESCAPED: Final = re.compile("[\x01-\x1f\x7f\"#%'*/:=?\\\\{\\[\\]^]")
_OF_TABLE: Final = re.compile(f"{CHANGES}/cdc_schema=([^/]+)/cdc_table=([^/]+)/")
_COMMIT: Final = re.compile(rf"(\d{{{_DIGITS}}})\.json")
_CHECKPOINT: Final = re.compile(rf"checkpoint-(\d{{{_DIGITS}}})\.json")


def encode(name: str) -> str:
    """Encode a name for a folder: each character that Spark escapes becomes `%` and two upper-case hex digits."""
    return _ESCAPED.sub(lambda found: f"%{ord(found[0]):02X}", name)


def decode(text: str) -> str:
    """Reverse `encode`."""
    return re.sub("%([0-9A-F]{2})", lambda found: chr(int(found[1], 16)), text)


@lru_cache(maxsize=4096)  # a state has many files of few tables
def table_key(table: Table) -> str:
    """`schema.table`, encoded, dots within the names too: the key of LakeState.tables, unique for each table."""
    return ".".join(encode(name).replace(".", "%2E") for name in (table.schema, table.table))


def table_folder(table: Table, under: str = CHANGES) -> str:
    """`changes/cdc_schema=.../cdc_table=...`, relative to the lake."""
    return f"{under}/cdc_schema={encode(table.schema)}/cdc_table={encode(table.table)}"


def table_of(path: str) -> Table:
    """Return the table of a data file's path. Raises ValueError for any other path."""
    found = _OF_TABLE.match(path)
    if found is None:
        raise ValueError(f"{path} is not in the folder of a table")
    return Table(decode(found[1]), decode(found[2]))


def part_name(table: Table, date: str, kind: ChangeKind, first: int, last: int, version: int, chunk: str = "") -> str:
    """Return the path of a data file, relative to the lake, derived from its contents.

    The same rows get the same name, so a writer that repeats its work after a kill replaces its own file. `chunk`
    distinguishes the files of a snapshot, which may have the same `_seq`, and marks the files of a compaction.
    """
    stem = "snapshot" if kind == "snapshot" else "part"
    tail = f"-{chunk}" if chunk else ""
    folder = f"{table_folder(table)}/cdc_date={date}"
    return f"{folder}/{stem}-{first:0{_DIGITS}}-{last:0{_DIGITS}}-v{version}{tail}.parquet"


def commit_name(number: int) -> str:
    """Return the path of a commit's document."""
    return f"{LOG}/{number:0{_DIGITS}}.json"


def checkpoint_name(number: int) -> str:
    """Return the path of the state after commit `number`."""
    return f"{LOG}/checkpoint-{number:0{_DIGITS}}.json"


def files_name(number: int, unique: str) -> str:
    """Return the path of files that count after commit `number`; `unique` distinguishes the parts of checkpoints."""
    return f"{LOG}/files-{number:0{_DIGITS}}-{unique}.parquet"


def commit_number(name: str) -> int | None:
    """Return the number of a commit's document, None for any other path."""
    return _number(_COMMIT, name)


def checkpoint_number(name: str) -> int | None:
    """Return the number of a checkpoint, None for any other path."""
    return _number(_CHECKPOINT, name)


def is_of_checkpoint(name: str) -> bool:
    """Whether that is the path of a checkpoint, or of one of its parts."""
    return checkpoint_number(name) is not None or name.startswith(f"{LOG}/files-")


def _number(pattern: re.Pattern[str], name: str) -> int | None:
    found = pattern.fullmatch(name.removeprefix(f"{LOG}/"))
    return int(found[1]) if found else None
