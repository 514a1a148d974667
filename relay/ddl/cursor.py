"""A cursor over the tokens of a statement."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from relay.ddl.dialect import Dialect
from relay.ddl.lexer import END, Kind, Token
from relay.ddl.syntax import Bytes, TableName


class NotUnderstood(Exception):
    """The statement has an unknown form; the text says what is unknown."""


class Cursor:
    """Tokens and a position. To take a token is to return it and to move the position behind it.

    Methods that take a token raise `NotUnderstood` if another one is next.
    """

    def __init__(self, tokens: Sequence[Token], schema: str = "") -> None:
        """Take `schema` as the default schema for table names."""
        self._tokens = tokens
        self._at = 0
        self._schema = schema

    @property
    def done(self) -> bool:
        """Whether no token is left."""
        return self._at >= len(self._tokens)

    def token(self, ahead: int = 0) -> Token:
        """Return the token that is `ahead` tokens behind the next one, without taking it; END behind the last."""
        at = self._at + ahead
        return self._tokens[at] if at < len(self._tokens) else END

    def peek(self, ahead: int = 0) -> str:
        """Return the bare word of a token, in lower case; empty for other tokens."""
        return self.token(ahead).word

    def take(self, *words: str) -> str:
        """Take the next bare word if it is one of these, and return it; else return ""."""
        word = self.peek()
        if not word or word not in words:
            return ""
        self._at += 1
        return word

    def phrase(self, text: str) -> bool:
        """Take these bare words if all of them come next; return whether they do."""
        words = text.split()
        if [self.peek(ahead) for ahead in range(len(words))] != words:
            return False
        self._at += len(words)
        return True

    def expect(self, text: str) -> None:
        """Take these bare words."""
        if not self.phrase(text):
            raise self.failure(f"{text.upper()} expected")

    def is_mark(self, mark: str, ahead: int = 0) -> bool:
        """Whether a token is this mark."""
        token = self.token(ahead)
        return token.kind is Kind.MARK and token.text == mark

    def mark(self, mark: str) -> bool:
        """Take the next token if it is this mark; return whether it is."""
        found = self.is_mark(mark)
        self._at += found
        return found

    def is_name(self) -> bool:
        """Whether a name or a bare word is next."""
        return self.token().kind in (Kind.NAME, Kind.WORD)

    def name(self) -> str:
        """Take a name, as spelled."""
        token = self.token()
        if not self.is_name() or not token.text or "\ufffd" in token.text:
            raise self.failure("a name expected")
        self._at += 1
        return token.text

    def table(self) -> TableName:
        """Take a table's name."""
        if self.mark("."):  # an ODBC form: in the default schema
            return TableName(self.default_schema(), self.name())
        first = self.name()
        return TableName(first, self.name()) if self.mark(".") else TableName(self.default_schema(), first)

    def default_schema(self) -> str:
        """Return the schema of table names without one."""
        if not self._schema or "\ufffd" in self._schema:
            raise self.failure("the default schema is not known")
        return self._schema

    def text_or_bytes(self) -> str | Bytes:
        """Take a text literal, or one of hexadecimal or binary digits."""
        token = self.token()
        if token.kind not in (Kind.TEXT, Kind.BITS):
            raise self.failure("a text expected")
        self._at += 1
        return token.text if token.kind is Kind.TEXT else Bytes(token.text.encode("latin-1"))

    def number(self) -> int:
        """Take a whole number."""
        token = self.token()
        if token.kind is not Kind.NUMBER or not token.text.isdecimal():
            raise self.failure("a number expected")
        self._at += 1
        return int(token.text)

    def value(self) -> str:
        """Take the value of an option, with or without `=`: a literal, a name or a word. Words are in lower case."""
        self.mark("=")
        token = self.token()
        if token.kind in (Kind.MARK, Kind.END, Kind.VARIABLE):
            raise self.failure("a value expected")
        self._at += 1
        return token.word or token.text

    def skip(self) -> None:
        """Skip the next token; if it opens parentheses, skip to their end."""
        if self.is_mark("("):
            self.parentheses()
        elif self.done:
            raise self.failure("more expected")
        else:
            self._at += 1

    def parentheses(self) -> Cursor:
        """Take a pair of parentheses; return their content."""
        if not self.mark("("):
            raise self.failure("( expected")
        start, depth = self._at, 1
        while depth:
            if self.done:
                raise self.failure(") expected")
            depth += self.is_mark("(") - self.is_mark(")")
            self._at += 1
        return Cursor(self._tokens[start : self._at - 1], self._schema)

    def rest(self) -> Cursor:
        """Take all remaining tokens."""
        rest = Cursor(self._tokens[self._at :], self._schema)
        self._at = len(self._tokens)
        return rest

    def until(self, *phrases: str) -> Cursor:
        """Take all remaining tokens; return those before the first of these phrases outside of parentheses."""
        start = end = self._at
        found = False
        while not (self.done or found):
            found = any(self.phrase(phrase) for phrase in phrases)
            if not found:
                self.skip()
                end = self._at
        self._at = len(self._tokens)
        return Cursor(self._tokens[start:end], self._schema)

    def elements(self) -> Iterator[Cursor]:
        """Take all remaining tokens, split at commas outside of parentheses."""
        start, depth = self._at, 0
        while not self.done:
            depth += self.is_mark("(") - self.is_mark(")")
            if self.is_mark(",") and depth == 0:
                yield Cursor(self._tokens[start : self._at], self._schema)
                start = self._at + 1
            self._at += 1
        yield Cursor(self._tokens[start:], self._schema)

    def has(self, word: str) -> bool:
        """Whether one of the remaining tokens is this bare word."""
        return any(token.word == word for token in self._tokens[self._at :])

    def end(self) -> None:
        """Raise `NotUnderstood` if anything but a semicolon is left."""
        self.mark(";")
        if not self.done:
            raise self.failure(f"{self.token().text!r} is not known here")

    def failure(self, what: str) -> NotUnderstood:
        """Return the error `what`, with the tokens before the position."""
        before = " ".join(token.text for token in self._tokens[max(0, self._at - 3) : self._at])
        return NotUnderstood(f"{what} after {before!r}" if before else what)

    def engine_option(self, dialect: Dialect) -> None:
        """Take an option that a storage engine of MariaDB defines."""
        if not (dialect.mariadb and (self.is_name() or self.token().kind is Kind.TEXT) and self.is_mark("=", 1)):
            raise self.failure(f"{self.token().text!r} is not known here")
        self.skip()
        self.value()
