"""Every type on every server, with and without metadata, as a matrix: python -m tests.types (make test-types).

Words select the cases with one of them in family or name: python -m tests.types vector json.
"""

from __future__ import annotations

import sys
import tempfile
import textwrap
from collections.abc import Sequence
from contextlib import closing
from itertools import groupby
from pathlib import Path

from examples.dbserver import KINDS, DatabaseServer
from tests.types.case import METADATA, TableCase
from tests.types.cases import cases
from tests.types.listed import KNOWN, RIGHT, SPARE, WRONG, listing, verdict
from tests.types.run import Outcome, Tables

WIDTH, NAME = 80, 32
CELLS = {"default": 9, "FULL": 7}  # widths
Where = tuple[str, str]  # kind of server, metadata
Key = tuple[str, str]  # family, name


def main(words: Sequence[str]) -> int:
    """Print the matrix. Returns 1 if a case is wrong, or is right although it is listed."""
    found: dict[Where, list[Outcome]] = {}
    for kind in reversed(KINDS):
        print(f"{KINDS[kind].title} ...", file=sys.stderr, flush=True)
        with DatabaseServer(kind) as server, closing(Tables(server, chosen(cases(server), words))) as tables:
            for metadata in METADATA:
                with tempfile.TemporaryDirectory(prefix="relay-types-") as folder:
                    found[kind, metadata] = tables.run(metadata, Path(folder) / "journal")
    verdicts = {where: {key(each.table.case): verdict(each, *where) for each in some} for where, some in found.items()}
    print_matrix(found, verdicts)
    print_listed(found)
    print_wrong(found)
    print_counts(verdicts)
    return int(any(word in (WRONG, SPARE) for there in verdicts.values() for word in there.values()))


def chosen(every: list[TableCase], words: Sequence[str]) -> list[TableCase]:
    """The cases with one of the words in family or name; without words all."""
    return [case for case in every if not words or any(word.lower() in " ".join(key(case)).lower() for word in words)]


def key(case: TableCase) -> Key:
    return case.family, case.name


def print_matrix(found: dict[Where, list[Outcome]], verdicts: dict[Where, dict[Key, str]]) -> None:
    every = {key(each.table.case): each.table.case for some in found.values() for each in some}
    order = {family: number for number, family in reversed([*enumerate(case.family for case in every.values())])}
    titles = [f"{KINDS[kind].title:>{sum(CELLS.values())}}" for kind in dict.fromkeys(kind for kind, _ in found)]
    print(f"{'':{NAME}}" + "".join(titles))
    print(f"{'binlog_row_metadata':{NAME}}" + "".join(f"{metadata:>{CELLS[metadata]}}" for _, metadata in found))
    for family, some in groupby(sorted(every, key=lambda key: order[key[0]]), key=lambda key: key[0]):
        print(f"\n{family}")
        for case in some:
            name = case[1] if len(case[1]) <= NAME - 2 else case[1][: NAME - 5] + "..."
            words = (f"{there.get(case, '-'):>{CELLS[metadata]}}" for (_, metadata), there in verdicts.items())
            print(f"  {name:{NAME - 2}}" + "".join(words))


def print_listed(found: dict[Where, list[Outcome]]) -> None:
    """Print each reason once, with its cases, servers and metadata modes."""
    listed: dict[str, dict[str, list[str]]] = {}
    for (kind, metadata), outcomes in found.items():
        for outcome in outcomes:
            if verdict(outcome, kind, metadata) == KNOWN and (entry := listing(outcome.table.case, kind, metadata)):
                case = f"{outcome.table.case.family}: {outcome.table.case.name}"
                listed.setdefault(entry.reason, {}).setdefault(case, []).append(f"{KINDS[kind].title} {metadata}")
    print("\nListed: what is not as the server prints it, and why" if listed else "\nNothing is listed.")
    for why, names in listed.items():
        print()
        print(textwrap.fill(why, WIDTH))
        for places, some in groupby(names.items(), key=lambda item: item[1]):
            print(textwrap.fill(f"On {', '.join(places)}:", WIDTH, initial_indent="  ", subsequent_indent="    "))
            print(*(f"    {case}" for case, _ in some), sep="\n")


def print_wrong(found: dict[Where, list[Outcome]]) -> None:
    for (kind, metadata), outcomes in found.items():
        for outcome in outcomes:
            case = outcome.table.case
            where = f"{KINDS[kind].title}, {metadata}: {case.family}, {case.name}"
            word = verdict(outcome, kind, metadata)
            if word == WRONG:
                print(f"\nWRONG: {where}", *outcome.wrong[:3], sep="\n  ")
            elif word == SPARE:
                print(f"\nListed, and right: {where}")


def print_counts(verdicts: dict[Where, dict[Key, str]]) -> None:
    print()
    for (kind, metadata), there in verdicts.items():
        words = list(there.values())
        right, listed = words.count(RIGHT), words.count(KNOWN)
        print(
            f"{KINDS[kind].title:<14}{metadata:<8}{len(words):>4} cases: {right:>4} equal to SELECT,"
            f" {listed:>3} listed, {len(words) - right - listed:>3} wrong"
        )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
