"""One word for one thing: nothing here uses the words that the glossaries replaced."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Final

import pytest

from relay.base.log_events import EVENTS
from relay.commands.app import cli
from relay.config.keys import CLIENT_KEYS, KEYS
from relay.errors import MEANINGS
from tests.docs.prose import BANNED, GLOSSARIES, INSTEAD, PAGES, found_in, help_texts, prose_of, shown
from tests.support import ROOT

LOG_FIELDS: Final = frozenset(name for event in EVENTS.values() for name in event.fields.split())
"""Names that are promised: a parameter or an attribute may have them, as log lines do."""


@cache
def words_of(identifier: str) -> frozenset[str]:
    """`NamedStop`, `named_stop` and `kNamedStop` have the words named and stop, two of them Named and Stop as well."""
    words = re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+", identifier)
    return frozenset({*words, *(word.lower() for word in words)})


def python_names(source: str) -> Iterator[tuple[int, str]]:
    """What a module names: variables, parameters, functions, classes, attributes; not keywords of calls."""
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Name(id=name) | ast.Attribute(attr=name) | ast.arg(arg=name):
                yield node.lineno, name
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                yield node.lineno, name


def names_beside_text(source: str, suffix: str) -> Iterator[tuple[int, str]]:
    """The words of a source in another language, without comments and literals."""
    comment = r'""".*?"""|#[^\n]*' if suffix in (".pyx", ".pxd") else r"//[^\n]*|/\*.*?\*/"
    blank = re.compile(rf"""{comment}|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'|`(?:\\.|[^`\\])*`""", re.DOTALL)
    kept = re.sub(r"^\s*#include[^\n]*", "", source, flags=re.MULTILINE)
    kept = blank.sub(lambda part: "\n" * part[0].count("\n"), kept)
    for number, line in enumerate(kept.splitlines(), 1):
        for name in re.findall(r"[A-Za-z_]\w*", line):
            yield number, name


@cache
def sources() -> tuple[Path, ...]:
    """Hand-written code: no vendored files, nothing that a build made."""
    suffixes = {".py", ".hpp", ".cpp", ".pyx", ".pxd", ".js"}
    folders = ("relay", "native", "tests")
    every = (path for folder in folders for path in sorted((ROOT / folder).rglob("*")))
    made = {"vendor", "__pycache__"}
    return tuple(
        path
        for path in every
        if path.suffix in suffixes
        and not made & set(path.parts)
        and not (path.suffix == ".cpp" and path.with_suffix(".pyx").exists())
        and path not in (Path(__file__), ROOT / "tests/docs/prose.py")
    )


@cache
def named_in(path: Path) -> frozenset[tuple[int, str]]:
    """The identifiers of a source, with their lines; its own name stands on line 0."""
    text = path.read_text()
    names = python_names(text) if path.suffix == ".py" else names_beside_text(text, path.suffix)
    return frozenset({(0, path.stem), *names})


@pytest.mark.parametrize("path", PAGES, ids=shown)
def test_a_page_uses_the_words_of_the_glossary(path: Path) -> None:
    found = found_in(prose_of(path.read_text()), shown(path))
    assert not found, "\n".join(found)


def test_help_texts_use_the_words_of_the_glossary() -> None:
    texts = [*help_texts(cli, "relay"), *((f"[{key.section}] {key.name}", key.doc) for key in (*KEYS, *CLIENT_KEYS))]
    found = [f"{name}: {hit}" for name, text in texts for hit in found_in(text)]
    assert not found, "\n".join(found)


def test_meanings_of_log_events_and_codes_use_the_words_of_the_glossary() -> None:
    texts = [*((name, event.meaning) for name, event in EVENTS.items())]
    texts += [(str(code), " ".join(map(str, meaning))) for code, meaning in MEANINGS.items()]
    found = [f"{name}: {hit}" for name, text in texts for hit in found_in(text)]
    assert not found, "\n".join(found)


@pytest.mark.parametrize("word", [word for word, banned in BANNED.items() if banned.names])
def test_no_identifier_has_a_word_that_is_not_used(word: str) -> None:
    banned = BANNED[word]
    found: dict[str, None] = {}
    for path in sources():
        if re.match(banned.where, shown(path)):
            for line, name in sorted(named_in(path)):
                if words_of(name) & set(banned.names) and name not in LOG_FIELDS:
                    found[f"{shown(path)}:{line}: {name}"] = None
    assert not found, "\n".join(found)


def test_every_word_that_is_not_used_has_one_to_write_instead() -> None:
    assert [*INSTEAD] == [*BANNED]
    assert all(INSTEAD.values())


@pytest.mark.parametrize("page", GLOSSARIES, ids=shown)
def test_words_are_in_alphabetical_order_and_each_has_a_sentence(page: Path) -> None:
    head, *rows = [line.strip("|").split("|") for line in page.read_text().splitlines() if line.startswith("| ")]
    words = [row[0].strip().lower() for row in rows]
    assert words == sorted(words)
    assert not [row for row in rows if len(row) != len(head) or not row[1].strip().endswith(".") or not row[-1].strip()]


@pytest.mark.parametrize(
    "text",
    ["what is on board", "it answers in 3 ms", "a dashboard", "verbatim", "rows by column name", "metric families",
     "the log level is info", "a stop of the relay", "in place", "`peer`", "[a](told.md)", "rooms of the code",
     "labels that it cannot tell apart", "the largest number of rows that the queue has held", "a hidden page",
     "look for a second relay"],
)  # fmt: skip
def test_innocent_words_are_not_found(text: str) -> None:
    assert not found_in(prose_of(text))


@pytest.mark.parametrize(
    "text",
    ["it stops by name", "stop `disk_full`", "The Verbs", "each board", "it was told", "the lake is level",
     "places in the binlog", "a peer that never reads", "a stop for an error", "set aside", "a held request",
     "a lane of values", "hidden types", "one look: take a look"],
)  # fmt: skip
def test_banned_words_are_found(text: str) -> None:
    assert len(found_in(prose_of(text))) == 1
