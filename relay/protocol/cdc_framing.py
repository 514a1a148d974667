"""Split the bytes of a CDC client into messages. The protocol has no delimiter between them. No I/O.

Credentials are complete with name and digest, REGISTER with its form. Any other command ends with LF, CRLF, the end of
the connection, or a silence. Blanks and line ends before a command are ignored.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from relay.protocol import cdc_messages as words
from relay.protocol.cdc_messages import Credentials, Form, MalformedCredentials
from relay.protocol.cdc_states import Message

MAX_COMMAND: Final = 4096
"""The bytes of the longest command; a longer one is an unknown command."""

_BEGINNING: Final = b"REGISTER UUID="
_FORMS: Final = tuple(b"TYPE=%s" % form.encode() for form in Form)
# Text directly behind the form that cannot begin a command belongs to the form: `TYPE=JSONx` is JSON.
_REGISTER: Final = re.compile(
    _BEGINNING + rb"(?P<uuid>[^, \r\n]*+)[, ]++TYPE=(?P<form>JSON|AVRO)(?:[^ \r\nCQR][^ \r\n]*)?"
)
# With the form first, nothing marks the end of the id: it ends as any command does.
_FORM_FIRST: Final = re.compile(rb"REGISTER TYPE=(?P<form>JSON|AVRO)[^, \r\n]*+[, ]++UUID=(?P<uuid>[^, \r\n]*)")
_REGISTER_BEGUN: Final = re.compile(_BEGINNING + rb"[^, \r\n]*+[, ]*+")
_BLANKS: Final = re.compile(rb"[ \r\n]*")
_CLOSE: Final = b"CLOSE"
_REQUEST: Final = b"REQUEST-DATA"
_LAST: Final = b"QUERY-LAST-TRANSACTION"
_TRANSACTION: Final = b"QUERY-TRANSACTION"


class Parsed(NamedTuple):
    """A complete message: its kind, the text behind its command word, and the content of credentials and REGISTER."""

    message: Message
    arguments: bytes = b""
    credentials: Credentials | None = None
    registration: Registration | None = None


class Registration(NamedTuple):
    """The content of REGISTER: the client's free text about itself, and the form of its stream."""

    uuid: str
    form: Form


class Framer:
    """The received bytes that are not yet parsed."""

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._overlong = False  # the beginning of the current command was dropped

    def __len__(self) -> int:
        """Return the number of unparsed bytes."""
        return len(self._buffer)

    def feed(self, data: bytes) -> None:
        """Add received bytes."""
        self._buffer += data

    def clear(self) -> None:
        """Discard unparsed bytes."""
        self._buffer.clear()

    @property
    def begun(self) -> bool:
        """Whether there are bytes that an end would turn into a command."""
        return bool(self._buffer) or self._overlong

    @property
    def may_register(self) -> bool:
        """Whether the unparsed bytes may become a complete registration."""
        if not self._buffer:
            return False
        begun = _REGISTER_BEGUN.match(self._buffer)
        if not begun:
            return _BEGINNING.startswith(self._buffer)
        return any(form.startswith(self._buffer[begun.end() :]) for form in _FORMS)

    def credentials(self, ended: bool) -> Parsed | None:
        """Return the first message, None while credentials are incomplete; with `ended` they stay incomplete."""
        try:
            found = words.parse_credentials(self._buffer[:MAX_COMMAND])
        except MalformedCredentials:
            return Parsed(Message.OTHER)
        if found:
            del self._buffer[: found.size]
            return Parsed(Message.CREDENTIALS, credentials=found)
        return Parsed(Message.OTHER) if ended or len(self._buffer) > MAX_COMMAND else None

    def registration(self) -> Parsed | None:
        """Return the registration that is complete without an end, None if there is none."""
        if self._overlong:
            return None
        self._skip_blanks()
        line_end = self._buffer.find(b"\n", 0, MAX_COMMAND)
        found = _REGISTER.search(self._buffer, 0, line_end if line_end >= 0 else MAX_COMMAND)
        if not found:
            return None
        parsed = _parse_registration(found)
        del self._buffer[: found.end()]
        return parsed

    def command(self, ended: bool) -> Parsed | None:
        """Return the next command, None while it has no end; with `ended`, the unparsed bytes are one."""
        if not self._overlong:
            self._skip_blanks()
        line_end = self._buffer.find(b"\n")
        if line_end < 0 and not (ended and self.begun):
            if self._overlong or len(self._buffer) > MAX_COMMAND:
                self._overlong = True
                self._buffer.clear()
            return None
        size = line_end if line_end >= 0 else len(self._buffer)
        overlong, self._overlong = self._overlong or size > MAX_COMMAND, False
        parsed = Parsed(Message.OTHER) if overlong else _parse_line(bytes(self._buffer[:size]), line_end >= 0)
        del self._buffer[: size + 1]
        return parsed

    def _skip_blanks(self) -> None:
        blanks = _BLANKS.match(self._buffer)
        assert blanks  # an empty match, if there are none
        del self._buffer[: blanks.end()]


def _parse_line(line: bytes, has_line_end: bool) -> Parsed:
    """Parse a line without its LF. The command word may be anywhere in it."""
    command = line.removesuffix(b"\r")
    if not has_line_end and _CLOSE.startswith(command):
        return Parsed(Message.CLOSE)
    if command == _CLOSE:
        return Parsed(Message.CLOSE_LINE)
    if registration := _REGISTER.search(command) or _FORM_FIRST.search(command):
        return _parse_registration(registration)
    for word, message in ((_REQUEST, Message.REQUEST), (_LAST, Message.LAST), (_TRANSACTION, Message.TRANSACTION)):
        _, found, arguments = command.partition(word)
        if not found:
            continue
        if message is Message.REQUEST and len(arguments) <= 1:
            return Parsed(Message.REQUEST_NOTHING)
        if message is Message.REQUEST and not arguments.strip():
            return Parsed(Message.REQUEST_BLANKS)
        return Parsed(message, arguments.strip())
    return Parsed(Message.OTHER)


def _parse_registration(found: re.Match[bytes]) -> Parsed:
    registration = Registration(found["uuid"].decode("utf-8", "replace"), Form(found["form"].decode()))
    return Parsed(Message.REGISTER, registration=registration)
