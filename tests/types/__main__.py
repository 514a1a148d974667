"""Every type on every server, with and without metadata, as a matrix: python -m tests.types (make test-types)."""

from __future__ import annotations

import sys
import tempfile
from contextlib import closing
from itertools import groupby
from pathlib import Path

from examples.dbserver import KINDS, DatabaseServer
from tests.types.case import METADATA, Case
from tests.types.cases import cases
from tests.types.listed import reason
from tests.types.run import Outcome, Tables

NAMES = 46
Column = tuple[str, str]


def main() -> int:
    """Print the matrix; 1 if anything is wrong, or listed and right."""
    found: dict[Column, list[Outcome]] = {}
    for kind in reversed(KINDS):
        with DatabaseServer(kind) as server, closing(Tables(server, cases(server))) as tables:
            for metadata in METADATA:
                print(f"{KINDS[kind].title}, binlog_row_metadata {metadata} ...", file=sys.stderr, flush=True)
                with tempfile.TemporaryDirectory(prefix="relay-types-") as folder:
                    found[kind, metadata] = tables.run(metadata, Path(folder) / "journal")
    words = {column: {_key(each.table.case): _word(each, *column) for each in some} for column, some in found.items()}
    rows = {_key(each.table.case): each.table.case for some in found.values() for each in some}
    _print_matrix(sorted(rows.values(), key=lambda case: case.family), words)
    _print_listed(found)
    failed = _print_wrong(found)
    _print_counts(words)
    return int(failed)


def _key(case: Case) -> Column:
    return case.family, case.name


def _word(outcome: Outcome, server: str, metadata: str) -> str:
    listed = reason(outcome.table.case, server, metadata)
    if outcome.wrong:
        return "listed" if listed else "WRONG"
    return "RIGHT?" if listed else "ok"


def _print_matrix(rows: list[Case], words: dict[Column, dict[Column, str]]) -> None:
    titles = [KINDS[kind].title.replace("MariaDB ", "Maria").replace("MySQL ", "MySQL") for kind, _ in words]
    print(f"{'':{NAMES}}" + "".join(f"{title:>9}" for title in titles))
    print(f"{'binlog_row_metadata':{NAMES}}" + "".join(f"{metadata:>9}" for _, metadata in words))
    for family, some in groupby(rows, key=lambda case: case.family):
        print(f"\n{family}")
        for case in some:
            name = case.name if len(case.name) < NAMES - 2 else case.name[: NAMES - 5] + "..."
            print(f"  {name:{NAMES - 2}}" + "".join(f"{there.get(_key(case), '-'):>9}" for there in words.values()))


def _print_listed(found: dict[Column, list[Outcome]]) -> None:
    cases: dict[str, dict[str, set[str]]] = {}
    for (kind, metadata), outcomes in found.items():
        for outcome in outcomes:
            if outcome.wrong and (why := reason(outcome.table.case, kind, metadata)):
                where = f"{KINDS[kind].title} {metadata}"
                cases.setdefault(why, {}).setdefault(outcome.table.case.family, set()).add(where)
    print("\nListed: not what the server prints, and why" if cases else "\nNothing is listed.")
    for why, families in cases.items():
        for family, places in families.items():
            print(f"  {family} ({', '.join(sorted(places))})")
        print(f"    {why}")


def _print_wrong(found: dict[Column, list[Outcome]]) -> bool:
    failed = False
    for (kind, metadata), outcomes in found.items():
        for outcome in outcomes:
            case = outcome.table.case
            where = f"{KINDS[kind].title}, {metadata}: {case.family}, {case.name}"
            match _word(outcome, kind, metadata):
                case "WRONG":
                    failed = True
                    print(f"\nWRONG: {where}", *outcome.wrong[:3], sep="\n  ")
                case "RIGHT?":
                    failed = True
                    print(f"\nListed, and right: {where}")
    return failed


def _print_counts(words: dict[Column, dict[Column, str]]) -> None:
    print()
    for (kind, metadata), there in words.items():
        every = list(there.values())
        bad = len(every) - every.count("ok") - every.count("listed")
        print(
            f"{KINDS[kind].title:<14} {metadata:<8} {len(every):>4} cases: {every.count('ok'):>4} equal to SELECT,"
            f" {every.count('listed'):>3} listed, {bad:>3} wrong"
        )


if __name__ == "__main__":
    sys.exit(main())
