"""Statements as words: names, literals and marks, without comments, by the rules of both servers."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from typing import Final, NamedTuple
from unicodedata import combining, normalize

_TOKEN: Final = r"""\s+
      | \#[^\n]* | --(?=[\s\x00-\x1f]|$)[^\n]*
      | (?P<open>/\*M?!\d*)            # executable: what is inside counts
      | /\*.*?(?:\*/|$)
      | (?P<close>\*/)
      | `(?P<quoted>(?:[^`]|``)*)`
      | "(?P<double>(?:[^"ESCAPE]|ESCAPED"")*)"
      | '(?P<literal>(?:[^'ESCAPE]|ESCAPED'')*)'
      | (?P<word>[^\W\d][\w$]*|\d+[^\W\d][\w$]*|[\d]+)
      | (?P<mark>.)"""


class Token(NamedTuple):
    """A piece of a statement; one of `name`, `mark` and `literal` is there."""

    word: str = ""  # a bare word, in lower case
    name: str = ""  # an identifier, bare or quoted, folded
    spelled: str = ""  # the same as it stands
    mark: str = ""
    literal: bool = False  # a text in single quotes


def folded(name: str) -> str:
    """A name without case and marks: at least as generous as any server is with names (İ and i are one to some)."""
    if name.isascii():
        return name.lower()
    return "".join(mark for mark in normalize("NFKD", name.casefold()) if not combining(mark))


def read_tokens(statement: str, *, escapes: bool = True) -> Iterator[Token]:
    """The tokens of a statement; `escapes`: a backslash in quotes is one (not so under NO_BACKSLASH_ESCAPES)."""
    for match in _pattern(escapes).finditer(statement):
        group = match.lastgroup
        if group == "word":
            word = folded(match["word"])
            yield Token(word, word, match["word"])
        elif group in ("quoted", "double"):
            # Under ANSI_QUOTES "x" is a name; taking a text for a name does no harm.
            quote = "`" if group == "quoted" else '"'
            name = match[group].replace(quote * 2, quote)
            yield Token(name=folded(name), spelled=name)
        elif group == "literal":
            yield Token(literal=True)
        elif group == "mark":
            yield Token(mark=match["mark"])


@cache
def _pattern(escapes: bool) -> re.Pattern[str]:
    pattern = _TOKEN.replace("ESCAPED", r"\\.|" if escapes else "").replace("ESCAPE", r"\\" if escapes else "")
    return re.compile(pattern, re.VERBOSE | re.DOTALL)
