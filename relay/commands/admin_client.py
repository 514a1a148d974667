"""Send admin commands to a running relay, over the socket in DataDir or over TCP, and find its process.

A command is a classic request; its payload is a JSON object. Over TCP, ClientID and ClientToken are the low and high
word of the FNV-1a 64 hash of AdminSecret. The reply is Result 0 and a JSON object, or 0xFF and a text
(docs/protocol.md).
"""

from __future__ import annotations

import fcntl
import ipaddress
import socket
import ssl
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import Any, Final, Self, TypeVar

import click
import msgspec

from relay.base.errors import ErrorCode, RelayError
from relay.commands.app import configured
from relay.config.tree import Config
from relay.protocol import classic, classic_keys
from relay.runtime import admin_socket

TIMEOUT: Final = 10.0
"""Seconds that a command may take, connecting included."""

RELOAD_TIMEOUT: Final = 30.0
"""Seconds that a reload may take: the relay waits for its processes."""

T = TypeVar("T")

_BUFFER: Final = 1 << 16


class AdminConnection:
    """A connection for admin commands. All methods raise `RelayError` if the relay does not run or rejects the command.

    `key` is `fnv1a64` of AdminSecret. The relay's socket in DataDir needs none.
    """

    def __init__(self, connection: socket.socket, address: str, key: int = 0) -> None:
        self._socket = connection
        self._address = address
        self._key = key
        self._replies = classic.ReplyParser()

    _hint = "the relay's log has the command and its outcome"

    def __enter__(self) -> Self:
        """Return itself. The end of the `with` block closes the connection."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close the connection."""
        self.close()

    def close(self) -> None:
        """Close the connection."""
        self._socket.close()

    def stat(self) -> dict[str, Any]:
        """Return the stat document (`relay.monitoring.stat`)."""
        return self._request(classic.Command.STAT)

    def drain(self) -> dict[str, Any]:
        """Stop reading at the end of a transaction; the relay still serves the queued rows. Return at once."""
        return self._request(classic.Command.DRAIN)

    def stop(self) -> dict[str, Any]:
        """Stop the relay, which saves all state first. Return at once."""
        return self._request(classic.Command.STOP)

    def pause(self) -> dict[str, Any]:
        """Stop reading until `resume`; the relay still serves the queued rows."""
        return self._request(classic.Command.PAUSE)

    def resume(self) -> dict[str, Any]:
        """End a pause, or retry after a fatal error."""
        return self._request(classic.Command.RESUME)

    def flush(self, client: str) -> dict[str, Any]:
        """Drop the rows in the queue of that client."""
        return self._request(classic.Command.FLUSH_CLIENT, client=client)

    def forget(self, client: str) -> dict[str, Any]:
        """Remove that client with its filters, queue and counters."""
        return self._request(classic.Command.FORGET_CLIENT, client=client)

    def seek(self, client: str, position: str) -> dict[str, Any]:
        """Move that client to `position`: `newest`, `oldest` or `FILE:POS`."""
        return self._request(classic.Command.SEEK_CLIENT, client=client, position=position)

    def clients(self, client: str = "") -> dict[str, Any]:
        """Return the `clients` of the stat document, or one of them, with its last `deliveries`, newest first."""
        return self._request(classic.Command.LIST_CLIENTS, **({"client": client} if client else {}))

    def kick(self, client: str) -> dict[str, Any]:
        """Close the connection of that client, which keeps its queue."""
        return self._request(classic.Command.KICK_CLIENT, client=client)

    def skip(self, client: str) -> dict[str, Any]:
        """Skip the next row of that client. Return the row's `sequence`, 0 if no row waits."""
        return self._request(classic.Command.SKIP_ROW, client=client)

    def reload(self) -> dict[str, Any]:
        """Reload the configuration. Return when all processes use it (`runtime.reload.Outcome`)."""
        self._socket.settimeout(RELOAD_TIMEOUT)
        return self._request(classic.Command.RELOAD)

    def explain(self, schema: str, table: str) -> dict[str, Any]:
        """Which clients get the events of a table, and why (`relay.monitoring.explain.Explanation`)."""
        return self._request(classic.Command.EXPLAIN, schema=schema, table=table)

    def _request(self, command: classic.Command, **arguments: str) -> dict[str, Any]:
        operation = command.name.lower().replace("_", " ")
        payload = msgspec.json.encode(arguments) if arguments else b""
        try:
            self._socket.sendall(classic.encode_admin_request(command, self._key, payload))
            reply = self._receive()
        except OSError as error:
            raise _not_running(self._address, error) from None
        if reply.result != classic.Result.OK:
            cause = reply.text or "refused"
            raise RelayError(ErrorCode.ADMIN_REFUSED, operation, cause, position=self._address, hint=self._hint)
        try:
            return msgspec.json.decode(reply.payload or b"{}", type=dict[str, Any])
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise RelayError(ErrorCode.PROTOCOL, operation, error, position=self._address) from None

    def _receive(self) -> classic.Reply:
        while True:
            reply = self._replies.next()
            if reply is not None:
                return reply
            data = self._socket.recv(_BUFFER)
            if not data:
                raise ConnectionResetError("the relay closed the connection")
            self._replies.feed(data)


class AdminClient(AdminConnection):
    """An admin connection over TCP, with AdminSecret. A port that accepts only TLS needs a `context`."""

    _hint = ""  # the hint of the error's code

    def __init__(self, host: str, port: int, secret: str, context: ssl.SSLContext | None = None) -> None:
        address = f"{host}:{port}"
        try:
            connection = socket.create_connection((host, port), TIMEOUT)
            if context is not None:
                connection = context.wrap_socket(connection, server_hostname=host)
        except ssl.SSLCertVerificationError as error:
            hint = (
                "the program that answers has another certificate than TLSCert;"
                " SIGHUP (`systemctl reload relay`) makes a relay use a renewed one"
            )
            raise RelayError(ErrorCode.NOT_RUNNING, "connect", error, position=address, hint=hint) from None
        except OSError as error:
            raise _not_running(address, error) from None
        super().__init__(connection, address, classic_keys.fnv1a64(secret.encode("utf-8", "surrogateescape")))


def local(config: Config) -> AdminConnection:
    """Connect to the relay that runs with this DataDir, over its socket. Raises `RelayError`."""
    data_dir = Path(config.relay.data_dir)
    address = str(data_dir / admin_socket.NAME)
    try:
        return AdminConnection(admin_socket.connect(data_dir, TIMEOUT), address)
    except PermissionError as error:
        hint = "run the command as the user that the relay runs as, or as root"
        raise RelayError(ErrorCode.ADMIN_REFUSED, "connect", error, position=address, hint=hint) from None
    except OSError as error:
        raise _not_running(address, error) from None


def remote(config: Config) -> AdminConnection:
    """Connect to BindAddress and ServerPort, over TCP with AdminSecret. Raises `RelayError`."""
    server = config.server
    if not server.admin_secret:
        hint = "set AdminSecret in [Server] here and for the relay; on the relay's own machine omit --tcp"
        raise RelayError(ErrorCode.ADMIN_REFUSED, "connect", "there is no AdminSecret", hint=hint)
    return AdminClient(*classic_address(config), server.admin_secret, tls_context(config))


@dataclass(frozen=True)
class Target:
    """The relay that a command is for, and how to connect to it."""

    config: Config
    tcp: bool

    def connect(self) -> AdminConnection:
        """Connect to the relay. Raises `RelayError`."""
        return remote(self.config) if self.tcp else local(self.config)


def administrative(command: Callable[..., None]) -> Callable[..., None]:
    """Add `--tcp` and the options of `configured` to a command. Its first argument is a `Target`."""

    @configured
    @click.option("--tcp", is_flag=True, help="Connect to BindAddress and ServerPort over TCP, with AdminSecret.")
    @wraps(command)
    def wrapper(config: Config, tcp: bool, **arguments: Any) -> None:
        command(Target(config, tcp), **arguments)

    return wrapper


def classic_address(config: Config) -> tuple[str, int]:
    """Host and port at which this machine reaches the classic port."""
    address, port = config.server.bind_address, config.server.server_port
    if port == 0:
        hint = "add --set Server.ServerPort=N, N from the ready line"
        raise RelayError(ErrorCode.USAGE, "connect", "with ServerPort = 0, the port is not known", hint=hint)
    if ipaddress.ip_address(address).is_unspecified:
        return ("::1" if ":" in address else "127.0.0.1"), port
    return address, port


def tls_context(config: Config) -> ssl.SSLContext | None:
    """Return the TLS context for the classic port of this relay, None if the port accepts plain text."""
    if config.server.tls != "required":
        return None
    # The relay's own certificate is the anchor: the owner of its key is the relay, whatever host the certificate names.
    context = ssl.create_default_context(cafile=config.server.tls_cert)
    context.check_hostname = False
    context.verify_flags = (context.verify_flags | ssl.VERIFY_X509_PARTIAL_CHAIN) & ~ssl.VERIFY_X509_STRICT
    return context


def converted(document: object, form: type[T]) -> T:
    """Return a reply as a struct. Raises `RelayError` (protocol) if a relay of another version sent it."""
    try:
        return msgspec.convert(document, form)
    except msgspec.ValidationError as error:
        hint = "the running relay is of another version: see `relay --version`"
        raise RelayError(ErrorCode.PROTOCOL, "read answer", error, hint=hint) from None


def running_pid(config: Config) -> int | None:
    """Return the id of the process that holds the lock on DataDir, None if no process does."""
    try:
        with (Path(config.relay.data_dir) / "lock").open() as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                return int(lock.read().strip() or 0) or None
    except FileNotFoundError:
        return None
    except OSError as error:
        raise RelayError(ErrorCode.ENVIRONMENT, "read lock of DataDir", error) from None
    return None


def wait_until_ended(config: Config, seconds: float) -> bool:
    """Wait until no process holds the lock on DataDir. False if one still does after `seconds`."""
    deadline = time.monotonic() + seconds
    while running_pid(config) is not None:
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True


def _not_running(address: str, error: Exception) -> RelayError:
    return RelayError(ErrorCode.NOT_RUNNING, "connect", error, position=address)
