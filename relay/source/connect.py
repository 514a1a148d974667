"""Connect to the source with PyMySQL, and take over the connection's socket for the stream.

PyMySQL implements the handshakes and TLS. Its private parts are used only here and in `login`; its version is pinned.
"""

from __future__ import annotations

import socket
import ssl
from collections.abc import Mapping
from typing import Any, Final, cast

import pymysql
from pymysql.connections import Connection
from pymysql.constants import CR

from relay.base.errors import ErrorCode, RelayError
from relay.source import tls
from relay.source.commands import ServerError
from relay.source.errors import Misuse, MisuseError
from relay.source.failures import SourceLost, classify
from relay.source.login import Account as Account
from relay.source.login import SourceConnection

CONNECT_SECONDS: Final = 10
QUERY_SECONDS: Final = 20


def connect(account: Account, **options: Any) -> SourceConnection:
    """Connect and authenticate; `options` are PyMySQL's, and override `settings`.

    Raises `SourceLost` if a later attempt may succeed, else `RelayError` (source_denied, source_unreachable).
    """
    operation = f"connect to {account.address}"
    try:
        return SourceConnection(account, **(settings(account) | options))
    except pymysql.MySQLError as error:
        cause: BaseException | None = getattr(error, "original_exception", None)
        if isinstance(cause, ssl.SSLCertVerificationError):
            raise RelayError(
                ErrorCode.SOURCE_UNREACHABLE, operation, cause, hint="set SourceCA in [Server] to the source's CA"
            ) from error
        if error.args and error.args[0] == CR.CR_SSL_CONNECTION_ERROR:
            raise RelayError(
                ErrorCode.SOURCE_UNREACHABLE, operation, str(error.args[-1]),
                hint="configure a certificate on the source, or set SourceTLS = prefer in [Server]",
            ) from error  # fmt: skip
        raise classify_driver_error(error, operation) from error


def settings(account: Account) -> dict[str, Any]:
    """Return the options for PyMySQL, without the password, which each connection has from `SourceConnection`.

    Raises `SourceLost` for files of certificates that cannot be used: they may be about to be replaced.
    """
    options: dict[str, Any] = {"ssl_disabled": True} if account.tls == "off" else {}
    try:
        context = tls.context(account.tls, account.ca, account.login_cert, account.login_key)
    except RelayError as error:
        raise SourceLost(str(error), code=ErrorCode.CONFIG, hint=error.hint) from error
    if context is not None:
        options["ssl"] = context
    return options | {
        "host": account.host,
        "port": account.port,
        "user": account.login,
        "charset": "utf8mb4",
        "connect_timeout": CONNECT_SECONDS,
        "read_timeout": QUERY_SECONDS,
        "write_timeout": QUERY_SECONDS,
        "autocommit": True,
        "program_name": "binlog-relay",
    }


def query(
    connection: Connection[Any], sql: str, operation: str, on_error: Mapping[int, list[tuple[Any, ...]]] | None = None
) -> list[tuple[Any, ...]]:
    """All rows of a query.

    `on_error` maps numbers of the source's errors to rows that are returned in their place. Raises as `connect` does.
    """
    try:
        with connection.cursor() as cursor:
            cursor.execute(sql)
            return list(cursor.fetchall())
    except pymysql.MySQLError as error:
        if on_error and error.args and error.args[0] in on_error:
            return on_error[error.args[0]]
        raise classify_driver_error(error, operation) from error


def take_socket(connection: Connection[Any]) -> socket.socket:
    """Take the connection's socket, a TLS socket if TLS is on. The caller owns it from now on. No data is left unread.

    Any later use of the connection raises `MisuseError`; to close it closes the socket.
    """
    private = cast(Any, connection)
    taken = cast(socket.socket, private._sock)
    private._rfile.close()
    private._sock = private._rfile = None
    close = connection.close

    def close_both() -> None:
        taken.close()
        close()

    private._execute_command = private.connect = private.ping = _raise_taken
    private.close = close_both
    return taken


def is_mariadb(connection: Connection[Any]) -> bool:
    """Whether the server is MariaDB, by its greeting."""
    return "mariadb" in str(cast(Any, connection).get_server_info()).lower()


def is_taken(connection: Connection[Any]) -> bool:
    """Whether `take_socket` has taken the connection's socket."""
    return cast(Any, connection).connect is _raise_taken


def has_unread_result(connection: Connection[Any]) -> bool:
    """Whether rows or further results of a query are still to be read."""
    result = cast(Any, connection)._result
    return result is not None and bool(result.unbuffered_active or result.has_next)


def _raise_taken(*_: object, **__: object) -> None:
    raise MisuseError(Misuse.CONNECTION_TAKEN, "use the connection")


def classify_driver_error(error: pymysql.MySQLError, operation: str) -> RelayError | SourceLost:
    """Classify an error of PyMySQL: `SourceLost` if another attempt may succeed."""
    if len(error.args) >= 2 and isinstance(error.args[0], int):
        return classify(ServerError(error.args[0], "", str(error.args[1])), operation)
    return SourceLost(f"{operation}: {error}")
