"""Split the text of a statement into tokens, as the server that executed it did: names, literals and marks."""

from __future__ import annotations

import re
from collections.abc import Iterator
from enum import Enum
from functools import cache
from typing import Final, NamedTuple

from relay.ddl.dialect import Dialect, SqlMode


class Kind(Enum):
    """The kind of a token."""

    WORD = "word"  # a keyword or a bare name
    NAME = "name"  # a quoted name
    TEXT = "text"  # a literal
    NUMBER = "number"
    BITS = "bits"  # x'..', 0x.., b'..', 0b..
    VARIABLE = "variable"
    MARK = "mark"
    END = "end"


class Token(NamedTuple):
    """A piece of a statement. `text` is its value: a name without quotes, a literal without escapes.

    Each byte of BITS is a character, U+0000 to U+00FF.
    """

    kind: Kind
    text: str
    word: str = ""
    """A bare word in lower case. A bare word is a keyword or a name."""


class Unreadable(Exception):
    """The text cannot be split into tokens: a literal or a comment has no end."""


_WORD: Final = r"[0-9A-Za-z_$\x80-\U0010ffff]"
_TOKENS: Final = rf"""\s+ | \x00
      | \#[^\n]* | --(?=[\s\x00-\x1f]|$)[^\n]*
      | (?P<comment>/\*)
      | (?P<close>\*/)
      | `(?P<back>(?:[^`]|``)*)`
      | "(?P<double>(?:[^"QUOTED]|DOUBLED"")*)"
      | [xX]'(?P<hex>[0-9A-Fa-f]*)' | 0x(?P<digits>[0-9A-Fa-f]+)(?!{_WORD})
      | [bB]'(?P<bits>[01]*)' | 0b(?P<binary>[01]+)(?!{_WORD})
      | [nN]?'(?P<text>(?:[^'ESCAPE]|ESCAPED'')*)'
      | (?P<number>(?:\d+\.\d*|\.\d+)(?:[eE][+-]?\d+)?(?!{_WORD})|\d+[eE][+-]\d+(?!{_WORD})|\d+(?!{_WORD}))
      | @@?(?P<variable>{_WORD}*)
      | (?P<word>{_WORD}+)
      | (?P<mark>.)"""
_VERSION: Final = re.compile(r"/\*(?P<mariadb>M?)!(?P<version>\d{6}|\d{5})?")
_COMMENT_MARK: Final = re.compile(r"/\*|\*/")
_ESCAPE: Final = re.compile(r"\\(.)|''|\"\"", re.DOTALL)
_ESCAPES: Final = {"0": "\0", "b": "\b", "n": "\n", "r": "\r", "t": "\t", "Z": "\x1a", "%": "\\%", "_": "\\_"}
_MYSQL_FEATURES: Final = range(50_700, 100_000)
"""MariaDB does not execute comments of these versions: they are for MySQL."""
END: Final = Token(Kind.END, "")


def tokens(text: str, dialect: Dialect) -> list[Token]:
    """Return the tokens of a statement, with those of comments that the server executed. Raises `Unreadable`."""
    return list(_tokens(text, dialect))


def _tokens(text: str, dialect: Dialect) -> Iterator[Token]:
    escapes = not dialect.has(SqlMode.NO_BACKSLASH_ESCAPES)
    quoted = Kind.NAME if dialect.has(SqlMode.ANSI_QUOTES) else Kind.TEXT
    pattern = _pattern(escapes, escapes and quoted is Kind.TEXT)
    at = 0
    executing = 0
    while match := pattern.match(text, at):
        group = match.lastgroup
        at = match.end()
        if group is None:
            continue
        value = match[group]
        match group:
            case "word":
                yield Token(Kind.WORD, value, value.lower())
            case "mark":
                if value in "'\"`":
                    raise Unreadable(f"a quote at {match.start()} has no end")
                yield Token(Kind.MARK, value)
            case "back":
                yield Token(Kind.NAME, value.replace("``", "`"))
            case "double":
                plain = value.replace('""', '"') if quoted is Kind.NAME else _unescaped(value, '"', escapes)
                yield Token(quoted, plain)
            case "text":
                yield Token(Kind.TEXT, _unescaped(value, "'", escapes))
            case "number":
                yield Token(Kind.NUMBER, value)
            case "comment":
                at, executed = _comment(text, match.start(), dialect)
                executing += executed
            case "close":
                if not executing:
                    raise Unreadable(f"a comment that ends at {match.start()} has no beginning")
                executing -= 1
            case "variable":
                yield Token(Kind.VARIABLE, value)
            case "hex" | "digits":
                yield Token(Kind.BITS, _bytes(value, 16))
            case _:
                yield Token(Kind.BITS, _bytes(value, 2))
    if executing:
        raise Unreadable("a comment has no end")


def _bytes(digits: str, base: int) -> str:
    """Return the bytes of a literal of digits, each as a character."""
    count = -(-len(digits) // (2 if base == 16 else 8))
    return int(digits or "0", base).to_bytes(count).decode("latin-1")


def _comment(text: str, start: int, dialect: Dialect) -> tuple[int, bool]:
    """Return the position behind the beginning or the end of a comment, and whether its content is executed."""
    head = _VERSION.match(text, start)
    if head is not None and _executes(head, dialect):
        return head.end(), True
    depth, at = 0, start
    while True:
        mark = _COMMENT_MARK.search(text, at)
        if mark is None:
            raise Unreadable(f"a comment at {start} has no end")
        # Only comments with a version may contain others.
        opens = mark[0] == "/*" and (depth == 0 or head is not None)
        depth += 1 if opens else -1 if mark[0] == "*/" else 0
        at = mark.end()
        if depth == 0:
            return at, False


def _executes(head: re.Match[str], dialect: Dialect) -> bool:
    if head["mariadb"] and not dialect.mariadb:
        return False
    version = int(head["version"] or 0)
    if dialect.mariadb and not head["mariadb"] and version in _MYSQL_FEATURES:
        return False
    return version <= dialect.version


def _unescaped(text: str, quote: str, escapes: bool) -> str:
    """Return the value of a literal; `escapes`: a backslash escapes the next character."""
    if not escapes:
        return text.replace(quote * 2, quote)

    def replacement(match: re.Match[str]) -> str:
        if match[1] is None:
            return quote if match[0] == quote * 2 else match[0]
        return _ESCAPES.get(match[1], match[1])

    return _ESCAPE.sub(replacement, text)


@cache
def _pattern(escapes: bool, in_double_quotes: bool) -> re.Pattern[str]:
    """Return the pattern of all tokens. With `escapes`, a backslash escapes the next character in a literal.

    With `in_double_quotes` it also does so between double quotes. In a name, a backslash is an ordinary character.
    """
    pattern = _TOKENS
    for escaped, plain, used in (("ESCAPED", "ESCAPE", escapes), ("DOUBLED", "QUOTED", in_double_quotes)):
        pattern = pattern.replace(escaped, r"\\.|" if used else "").replace(plain, r"\\" if used else "")
    return re.compile(pattern, re.VERBOSE | re.DOTALL)
