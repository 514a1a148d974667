"""Connecting to the source with PyMySQL, and taking its socket over for the stream.

PyMySQL knows the handshakes and TLS. All that is private of it and used is in `take_socket` and in `login`; its version
is pinned.
"""

from __future__ import annotations

import socket
import ssl
from collections.abc import Mapping
from typing import Any, Final, cast

import pymysql
from pymysql.connections import Connection
from pymysql.constants import CR

from relay.binlog.commands import ServerError
from relay.binlog.errors import Misuse, MisuseError
from relay.binlog.failures import SourceLost, judge
from relay.binlog.login import Account as Account
from relay.binlog.login import SourceConnection
from relay.errors import ErrorCode, RelayError

CONNECT_SECONDS: Final = 10
QUERY_SECONDS: Final = 20


def connect(account: Account, **options: Any) -> SourceConnection:
    """An authenticated connection; `options` are PyMySQL's, over those of `settings`.

    Raises `SourceLost` if it may work later, `RelayError` (source_denied, source_unreachable) if not.
    """
    operation = f"connect to {account.address}"
    try:
        return SourceConnection(account, **(settings(account) | options))
    except pymysql.MySQLError as error:
        cause: BaseException | None = getattr(error, "original_exception", None)
        if isinstance(cause, ssl.SSLCertVerificationError):
            raise RelayError(
                ErrorCode.SOURCE_UNREACHABLE, operation, cause, hint="name the source's CA in SourceCA, in [Server]"
            ) from error
        if error.args and error.args[0] == CR.CR_SSL_CONNECTION_ERROR:
            raise RelayError(
                ErrorCode.SOURCE_UNREACHABLE, operation, str(error.args[-1]),
                hint="give the source a certificate, or set SourceTLS = prefer in [Server]",
            ) from error  # fmt: skip
        raise failed(error, operation) from error


def settings(account: Account) -> dict[str, Any]:
    """What PyMySQL has to be given to connect. Raises `OSError` for a file of CA certificates that cannot be read."""
    options: dict[str, Any] = {"ssl_disabled": True} if account.tls == "off" else {}
    if account.tls in ("required", "verify"):
        options["ssl"] = _tls(account)
    return options | {
        "host": account.host,
        "port": account.port,
        "user": account.login,
        # Taken as bytes it is not squeezed through latin1.
        "password": account.password.encode(),
        "charset": "utf8mb4",
        "connect_timeout": CONNECT_SECONDS,
        "read_timeout": QUERY_SECONDS,
        "write_timeout": QUERY_SECONDS,
        "autocommit": True,
        "program_name": "binlog-relay",
    }


def query(
    connection: Connection[Any], sql: str, operation: str, instead: Mapping[int, list[tuple[Any, ...]]] | None = None
) -> list[tuple[Any, ...]]:
    """All rows of a query; those of `instead` where the source's error has a number in it. Raises as `connect` does."""
    try:
        with connection.cursor() as cursor:
            cursor.execute(sql)
            return list(cursor.fetchall())
    except pymysql.MySQLError as error:
        if instead and error.args and error.args[0] in instead:
            return instead[error.args[0]]
        raise failed(error, operation) from error


def take_socket(connection: Connection[Any]) -> socket.socket:
    """The connection's socket, a TLS one where TLS is on. It is the caller's from now on; nothing is left unread.

    Whatever the connection is used for later raises `MisuseError`; closing it closes the socket.
    """
    private = cast(Any, connection)
    taken = cast(socket.socket, private._sock)
    private._rfile.close()
    private._sock = private._rfile = None
    close = connection.close

    def close_both() -> None:
        taken.close()
        close()

    private._execute_command = private.connect = private.ping = _refuse
    private.close = close_both
    return taken


def is_mariadb(connection: Connection[Any]) -> bool:
    """Whether the server said so when it was connected to."""
    return "mariadb" in str(cast(Any, connection).get_server_info()).lower()


def is_taken(connection: Connection[Any]) -> bool:
    """Whether `take_socket` has its socket."""
    return cast(Any, connection).connect is _refuse


def has_unread_result(connection: Connection[Any]) -> bool:
    """Whether a query's rows, or further results of it, are still to come over the connection."""
    result = cast(Any, connection)._result
    return result is not None and bool(result.unbuffered_active or result.has_next)


def _refuse(*_: object, **__: object) -> None:
    raise MisuseError(Misuse.CONNECTION_TAKEN, "use the connection")


def _tls(account: Account) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=account.ca or None)
    # The certificates that servers make for themselves are not strictly X.509.
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    if account.tls == "required":
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context


def failed(error: pymysql.MySQLError, operation: str) -> RelayError | SourceLost:
    """What an error of PyMySQL means: `SourceLost` if another attempt may succeed."""
    if len(error.args) >= 2 and isinstance(error.args[0], int):
        return judge(ServerError(error.args[0], "", str(error.args[1])), operation)
    return SourceLost(f"{operation}: {error}")
