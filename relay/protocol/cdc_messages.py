"""The texts of the CDC protocol (docs/cdc.md): replies, requests and credentials. No I/O.

A reply is a line and must be sent in one write: old clients read it with a single recv.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Sequence
from enum import StrEnum
from typing import Final, NamedTuple

from relay.base.errors import printable

OK: Final = b"OK\n"
AUTHENTICATION_FAILED: Final = b"ERROR: Authentication failed\n"
REGISTRATION_FAILED: Final = b"ERR, code 12, msg: Registration failed\n"
NO_DATA: Final = b"ERR REQUEST-DATA with no data.\n"
NO_NAME: Final = b"ERR NO-FILE Filename not specified.\n"
STREAMING_ALREADY: Final = b"ERR REQUEST-DATA while streaming.\n"
UNKNOWN_COMMAND: Final = b"ERR: Unknown command\n"

MAX_CREDENTIALS: Final = 128
"""The hex digits of the longest credentials."""

DIGEST: Final = hashlib.sha1().digest_size
MAX_USER: Final = MAX_CREDENTIALS // 2 - DIGEST - 1
"""The bytes of the longest user name."""

_MAX_U64: Final = 2**64 - 1
_U64_DIGITS: Final = 21  # one more than the largest number has, so that a truncated number is still larger
_NAME: Final = re.compile(r"(?P<schema>[^.]+)\.(?P<table>.+?)(?:\.0*(?P<version>[0-9]{1,6}))?", re.DOTALL)
_HEX: Final = re.compile(rb"[0-9A-Fa-f]*")
_LINE_ENDS: Final = b"\r\n"


class Form(StrEnum):
    """The form of a stream, as in REGISTER."""

    JSON = "JSON"
    AVRO = "AVRO"


class Gtid(NamedTuple):
    """The triplet for a transaction."""

    domain: int
    server_id: int
    sequence: int

    def __str__(self) -> str:
        """Return the triplet as `0-3000-11`."""
        return f"{self.domain}-{self.server_id}-{self.sequence}"


class Request(NamedTuple):
    """A request of REQUEST-DATA: a table, its first version (None: the oldest), and its first transaction."""

    schema: str
    table: str
    version: int | None = None
    gtid: Gtid | None = None

    @property
    def file(self) -> str:
        """The name of the file that MaxScale would have for the table; version 1 if there is none."""
        return _file(f"{self.schema}.{self.table}", self.version)


class Credentials(NamedTuple):
    """The identity that a client claims. `digest` is the SHA-1 of the password. Invalid UTF-8 in `user` is surrogates.

    `size` is the number of received bytes.
    """

    user: str
    digest: bytes
    size: int


class MalformedCredentials(ValueError):
    """The bytes cannot become credentials, whatever follows."""


def digest_of(password: bytes) -> bytes:
    """Return the digest of a password in credentials."""
    return hashlib.sha1(password, usedforsecurity=False).digest()


def stored_of(digest: bytes) -> str:
    """Return the entry in a user file for the digest of a password."""
    return hashlib.sha1(digest, usedforsecurity=False).hexdigest().upper()


def parse_credentials(data: bytes | bytearray) -> Credentials | None:
    """Return the credentials at the beginning of `data`, None while they are incomplete.

    Line ends in them are ignored.

    Raises `MalformedCredentials`.
    """
    bare = data.translate(None, _LINE_ENDS)
    found = _HEX.match(bare, 0, MAX_CREDENTIALS)
    assert found  # an empty match, if nothing is there
    digits = found.end()
    user, colon, digest = bytes.fromhex(bare[: digits & ~1].decode("ascii")).partition(b":")
    if colon and not user:
        raise MalformedCredentials("the name is empty")
    if len(digest) >= DIGEST:
        size = _with_line_ends(data, 2 * (len(user) + 1 + DIGEST))
        return Credentials(user.decode("utf-8", "surrogateescape"), digest[:DIGEST], size)
    if digits < len(bare) or digits == MAX_CREDENTIALS:
        raise MalformedCredentials("not the hex digits of a name and a digest")
    return None


def parse_request(arguments: bytes) -> tuple[str, Request | None]:
    """Parse the text behind REQUEST-DATA: the file name for the reply, and the request, None if it is invalid.

    `arguments` must not be blank.
    """
    raw, *rest = arguments.split(maxsplit=1)
    name = raw.decode("utf-8", "replace")
    match = _NAME.fullmatch(name)
    if not match or not _is_clean(raw, name):
        return _file(name, None), None
    request = Request(
        match["schema"],
        match["table"],
        int(match["version"]) if match["version"] else None,
        parse_gtid(rest[0]) if rest else None,
    )
    return request.file, request


def parse_gtid(text: bytes) -> Gtid | None:
    """Return the first three numbers in the text, whatever separates them; None if there are fewer."""
    runs = [run.lstrip(b"0")[:_U64_DIGITS] or b"0" for run in re.findall(rb"[0-9]+", text)[:3]]
    numbers = [min(int(run), _MAX_U64) for run in runs]
    return Gtid(*numbers) if len(numbers) == 3 else None


def no_file(file: str) -> bytes:
    """Return the reply to a request for a table that does not exist."""
    return f"ERR NO-FILE File '{printable(file)}' not found.\n".encode("utf-8", "replace")


def refusal(cause: str) -> bytes:
    """Return the reply to a request that is refused for another reason."""
    return _line("ERR ", cause)


def fatal(cause: str) -> bytes:
    """Return the last line of a stream that cannot continue."""
    return _line("ERR fatal error: ", cause)


def encode_transaction(gtid: str, events: int, timestamp: int, tables: Sequence[str]) -> bytes:
    """Return the reply to QUERY-LAST-TRANSACTION and QUERY-TRANSACTION.

    The timestamp is in seconds; tables are `schema.table`.
    """
    document = {"GTID": gtid, "events": events, "timestamp": timestamp, "tables": list(tables)}
    return json.dumps(document, ensure_ascii=False).encode("utf-8", "replace") + b"\n"


def _file(name: str, version: int | None) -> str:
    return f"{name}.{1 if version is None else version:06d}.avro"


def _with_line_ends(data: bytes | bytearray, digits: int) -> int:
    """Return the number of bytes that hold the first `digits` digits, including line ends between them."""
    size = 0
    while digits:
        digits -= data[size] not in _LINE_ENDS
        size += 1
    return size


def _is_clean(raw: bytes, name: str) -> bool:
    """Whether the name is valid for a table and for a file."""
    return name.encode() == raw and ".." not in name and not name.endswith(".") and not set(name) & {"/", "\0"}


def _line(head: str, cause: str) -> bytes:
    return f"{head}{printable(' '.join(cause.split()))}\n".encode("utf-8", "replace")
