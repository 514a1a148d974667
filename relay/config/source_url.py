"""The URL of a source, `mysql://LOGIN[:PASSWORD]@HOST[:PORT]/`, as configuration keys. Pure: text in, settings out."""

from __future__ import annotations

import re
from typing import Final, NamedTuple
from urllib.parse import unquote

from relay.base.errors import ErrorCode, RelayError

_HINT: Final = "write mysql://LOGIN@HOST/ or mysql://LOGIN:PASSWORD@HOST:PORT/; %25 stands for % in the password"
_PORT: Final = "3306"
# The login ends at the first colon and the password at the last @, so that a password may contain any of :/@?#.
_URL: Final = re.compile(
    r"(?:mysql|mariadb)://(?:(?P<login>[^:@]*)(?::(?P<password>.*))?@)?(?P<host>\[[^]]*\]|[^@/:?#]*)(?::(?P<port>[^@/?#]*))?"
    r"(?P<rest>[^@]*)",
    re.IGNORECASE | re.DOTALL,
)


class SourceURL(NamedTuple):
    """What a URL says: keys as `--set` has them, and apart from them the password, None if there is none."""

    settings: dict[str, str]
    password: str | None


def is_source_url(text: str) -> bool:
    """Whether the text begins as the URL of a source does."""
    return _URL.match(text) is not None


def parse(text: str) -> SourceURL:
    """Parse the URL of a source. Raises `RelayError` (usage), which does not show the password."""
    found = _URL.fullmatch(text)
    if found is None:
        raise _error("it is not mysql://LOGIN@HOST/")
    login, password, host, port, rest = found.group("login", "password", "host", "port", "rest")
    if not login:
        raise _error("it has no login")
    if not host:
        raise _error("it has no host")
    if port is not None and not (port.isascii() and port.isdecimal()):
        raise _error("its port is not a number")
    if rest.strip("/"):
        hint = "name tables as arguments, such as 'shop.*', and settings with --set, such as Server.SourceTLS=verify"
        raise _error("text follows the host", hint)
    settings = {"Server.IPAddr": host.strip("[]"), "Server.Port": port or _PORT, "Server.Login": unquote(login)}
    return SourceURL(settings, None if password is None else unquote(password))


def without_password(text: str) -> str:
    """Return an argument of a command line without the password, if it is the URL of a source that has one."""
    found = _URL.match(text)
    return text[: found.start("password") - 1] + text[found.end("password") :] if found and found["password"] else text


def _error(cause: str, hint: str = _HINT) -> RelayError:
    return RelayError(ErrorCode.USAGE, "read the URL of the source", cause, hint=hint)
