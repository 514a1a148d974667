"""A statement's tokens, taken one after the other."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from relay.binlog.tokens import Token
from relay.lake.documents import Table

_NOTHING: Final = Token()


class NotUnderstood(Exception):
    """The statement is of no form that is known here."""


class Words:
    """A cursor on tokens."""

    def __init__(self, tokens: Iterable[Token]) -> None:
        self._tokens = list(tokens)
        self._at = 0

    @property
    def done(self) -> bool:
        """Whether nothing is left."""
        return self._at >= len(self._tokens)

    def peek(self, ahead: int = 0) -> str:
        """The keyword that a token would be, in lower case; empty if it is none."""
        token = self._token(ahead)
        return token.word if token.spelled.isascii() else ""

    def take(self, *words: str) -> str:
        """Take the next keyword if it is one of these; it, or nothing."""
        word = self.peek()
        if not word or word not in words:
            return ""
        self._at += 1
        return word

    def phrase(self, text: str) -> bool:
        """Take these keywords, if all of them come next."""
        words = text.split()
        if [self.peek(ahead) for ahead in range(len(words))] != words:
            return False
        self._at += len(words)
        return True

    def skip(self) -> None:
        """Pass over the next token, and all that stands in parentheses with it. Raises `NotUnderstood`."""
        if self.is_mark("("):
            self.parentheses()
        elif self.done:
            raise NotUnderstood
        else:
            self._at += 1

    def has(self, word: str) -> bool:
        """Whether a token is this keyword, or could be it."""
        return any(token.word == word for token in self._tokens)

    def mark(self, mark: str) -> bool:
        """Take the next token if it is this mark."""
        found = self._token().mark == mark
        self._at += found
        return found

    def is_mark(self, mark: str) -> bool:
        """Whether the next token is this mark."""
        return self._token().mark == mark

    def name(self) -> str:
        """Take a name, as spelled. Raises `NotUnderstood`."""
        token = self._token()
        if not token.spelled:
            raise NotUnderstood
        self._at += 1
        return token.spelled

    def table(self, schema: str) -> Table:
        """Take a table's name; `schema` is the default. Raises `NotUnderstood`."""
        first = self.name()
        if self.mark("."):
            return Table(first, self.name())
        if not schema:
            raise NotUnderstood
        return Table(schema, first)

    def tables(self, schema: str) -> Iterator[Table]:
        """Take names of tables with commas between them."""
        yield self.table(schema)
        while self.mark(","):
            yield self.table(schema)

    def value(self) -> str:
        """Take a value, with `=` or without: a literal, a name, a keyword or a number; that word, or nothing.

        Raises `NotUnderstood`.
        """
        self.mark("=")
        token = self._token()
        if not (token.literal or token.spelled):
            raise NotUnderstood
        self._at += 1
        return token.word

    def wait(self) -> None:
        """Take how long MariaDB is to wait for its lock, if that comes next."""
        if self.take("wait"):
            self.value()
        else:
            self.take("nowait")

    def parentheses(self) -> Words:
        """Take what stands in parentheses. Raises `NotUnderstood`."""
        if not self.mark("("):
            raise NotUnderstood
        start, depth = self._at, 1
        while depth:
            if self.done:
                raise NotUnderstood
            depth += self.is_mark("(") - self.is_mark(")")
            self._at += 1
        return Words(self._tokens[start : self._at - 1])

    def rest(self) -> Words:
        """Take all that is left."""
        rest = Words(self._tokens[self._at :])
        self._at = len(self._tokens)
        return rest

    def clauses(self) -> Iterator[Words]:
        """Take all that is left, cut at commas that stand in no parentheses."""
        start, depth = self._at, 0
        while not self.done:
            depth += self.is_mark("(") - self.is_mark(")")
            if self.is_mark(",") and depth == 0:
                yield Words(self._tokens[start : self._at])
                start = self._at + 1
            self._at += 1
        yield Words(self._tokens[start:])

    def end(self) -> None:
        """Raises `NotUnderstood` if something is left, but for a semicolon."""
        self.mark(";")
        if not self.done:
            raise NotUnderstood

    def _token(self, ahead: int = 0) -> Token:
        at = self._at + ahead
        return self._tokens[at] if at < len(self._tokens) else _NOTHING
