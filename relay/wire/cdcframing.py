"""Where one message of a CDC client ends and the next begins, though nothing says so; without I/O.

Credentials are whole when name and digest are there, and REGISTER is when it has named a form. Any other command ends
with LF, CRLF, the end of the connection, or a silence. Blanks and line ends before a command mean nothing.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from relay.wire import cdcwords as words
from relay.wire.cdcstates import Message
from relay.wire.cdcwords import Credentials, Form, MalformedCredentials

MAX_COMMAND: Final = 4096
"""Bytes of the longest command; one that is longer is not understood."""

_BEGINNING: Final = b"REGISTER UUID="
_FORMS: Final = tuple(b"TYPE=%s" % form.encode() for form in Form)
# Behind the form, what is glued to it and cannot begin a command belongs to it: `TYPE=JSONx` is JSON.
_REGISTER: Final = re.compile(
    _BEGINNING + rb"(?P<uuid>[^, \r\n]*+)[, ]++TYPE=(?P<form>JSON|AVRO)(?:[^ \r\nCQR][^ \r\n]*)?"
)
# With the form first nothing says where the id ends: it ends as any command does.
_FORM_FIRST: Final = re.compile(rb"REGISTER TYPE=(?P<form>JSON|AVRO)[^, \r\n]*+[, ]++UUID=(?P<uuid>[^, \r\n]*)")
_REGISTER_BEGUN: Final = re.compile(_BEGINNING + rb"[^, \r\n]*+[, ]*+")
_BLANKS: Final = re.compile(rb"[ \r\n]*")
_CLOSE: Final = b"CLOSE"
_REQUEST: Final = b"REQUEST-DATA"
_LAST: Final = b"QUERY-LAST-TRANSACTION"
_TRANSACTION: Final = b"QUERY-TRANSACTION"


class Said(NamedTuple):
    """A whole message: what it is, what follows its verb, and what credentials and a registration hold."""

    message: Message
    arguments: bytes = b""
    credentials: Credentials | None = None
    registration: Registration | None = None


class Registration(NamedTuple):
    """What REGISTER tells: what the client calls itself, whatever it likes, and what its stream is to be made of."""

    uuid: str
    form: Form


class Framer:
    """The bytes that have come and were not understood yet."""

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._overlong = False  # the command that is coming has lost its beginning

    def __len__(self) -> int:
        """How many bytes wait."""
        return len(self._buffer)

    def feed(self, data: bytes) -> None:
        """Take bytes as they arrived."""
        self._buffer += data

    def clear(self) -> None:
        """Forget what waits."""
        self._buffer.clear()

    @property
    def begun(self) -> bool:
        """Whether something waits that an end would make a command."""
        return bool(self._buffer) or self._overlong

    @property
    def may_register(self) -> bool:
        """Whether what waits may yet become a whole registration."""
        if not self._buffer:
            return False
        begun = _REGISTER_BEGUN.match(self._buffer)
        if not begun:
            return _BEGINNING.startswith(self._buffer)
        return any(form.startswith(self._buffer[begun.end() :]) for form in _FORMS)

    def credentials(self, ended: bool) -> Said | None:
        """The first message, None while it may become credentials; with `ended` it may not."""
        try:
            found = words.parse_credentials(self._buffer[:MAX_COMMAND])
        except MalformedCredentials:
            return Said(Message.OTHER)
        if found:
            del self._buffer[: found.size]
            return Said(Message.CREDENTIALS, credentials=found)
        return Said(Message.OTHER) if ended or len(self._buffer) > MAX_COMMAND else None

    def registration(self) -> Said | None:
        """The registration that is whole without an end, None if what comes next is none."""
        if self._overlong:
            return None
        self._skip_blanks()
        line_end = self._buffer.find(b"\n", 0, MAX_COMMAND)
        found = _REGISTER.search(self._buffer, 0, line_end if line_end >= 0 else MAX_COMMAND)
        if not found:
            return None
        said = _registered(found)
        del self._buffer[: found.end()]
        return said

    def command(self, ended: bool) -> Said | None:
        """The next command, None while it has no end; with `ended`, whatever waits is one."""
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
        said = Said(Message.OTHER) if overlong else _understood(bytes(self._buffer[:size]), line_end >= 0)
        del self._buffer[: size + 1]
        return said

    def _skip_blanks(self) -> None:
        blanks = _BLANKS.match(self._buffer)
        assert blanks  # of nothing, if there are none
        del self._buffer[: blanks.end()]


def _understood(line: bytes, has_line_end: bool) -> Said:
    """What a line without its LF says; a verb may stand anywhere in it."""
    command = line.removesuffix(b"\r")
    if not has_line_end and _CLOSE.startswith(command):
        return Said(Message.CLOSE)
    if command == _CLOSE:
        return Said(Message.CLOSE_LINE)
    if registration := _REGISTER.search(command) or _FORM_FIRST.search(command):
        return _registered(registration)
    for verb, message in ((_REQUEST, Message.REQUEST), (_LAST, Message.LAST), (_TRANSACTION, Message.TRANSACTION)):
        _, found, arguments = command.partition(verb)
        if not found:
            continue
        if message is Message.REQUEST and len(arguments) <= 1:
            return Said(Message.REQUEST_NOTHING)
        if message is Message.REQUEST and not arguments.strip():
            return Said(Message.REQUEST_BLANKS)
        return Said(message, arguments.strip())
    return Said(Message.OTHER)


def _registered(found: re.Match[bytes]) -> Said:
    registration = Registration(found["uuid"].decode("utf-8", "replace"), Form(found["form"].decode()))
    return Said(Message.REGISTER, registration=registration)
