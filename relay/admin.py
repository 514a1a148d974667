"""The admin commands over the classic port, and what can be asked of a relay without them.

A command is a classic request whose ClientID and ClientToken are the low and high word of the FNV-1a 64 hash of
AdminSecret; its payload is a JSON object. The answer is Result 0 and a JSON object, or 0xFF and a text
(docs/protocol.md).
"""

from __future__ import annotations

import fcntl
import http.client
import ipaddress
import socket
import ssl
import time
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self, TypeVar

import msgspec

from relay.config import Config
from relay.errors import ErrorCode, RelayError
from relay.stat import Stat
from relay.wire import classic

TIMEOUT: Final = 10.0
"""Seconds that a command may take, connecting included."""

RELOAD_TIMEOUT: Final = 30.0
"""Seconds that a reload may take, for which the relay waits for its processes."""

T = TypeVar("T")

_BUFFER: Final = 1 << 16


class AdminClient:
    """One connection for admin commands. Every method raises `RelayError` if the relay is away or refuses.

    `context` is given where the port speaks TLS only.
    """

    def __init__(self, host: str, port: int, secret: str, context: ssl.SSLContext | None = None) -> None:
        self._address = f"{host}:{port}"
        self._key = classic.fnv1a64(secret.encode("utf-8", "surrogateescape"))
        try:
            connection = socket.create_connection((host, port), TIMEOUT)
            self._socket = context.wrap_socket(connection, server_hostname=host) if context else connection
        except ssl.SSLCertVerificationError as error:
            away = _away(self._address, error)
            away.hint = (
                "whoever answers has another certificate than TLSCert;"
                " a relay takes a renewed one by SIGHUP, as of `systemctl reload relay`"
            )
            raise away from None
        except OSError as error:
            raise _away(self._address, error) from None
        self._replies = classic.ReplyParser()

    def __enter__(self) -> Self:
        """Use as a context manager closes the connection at the end."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the connection."""
        self.close()

    def close(self) -> None:
        """Close the connection."""
        self._socket.close()

    def stat(self) -> dict[str, Any]:
        """The stat document (`relay.stat`)."""
        return self._ask(classic.Command.STAT)

    def drain(self) -> dict[str, Any]:
        """Have it stop reading at a transaction's end and serve what is queued. Answers at once."""
        return self._ask(classic.Command.DRAIN)

    def stop(self) -> dict[str, Any]:
        """Have it persist and exit. Answers at once."""
        return self._ask(classic.Command.STOP)

    def pause(self) -> dict[str, Any]:
        """Have it stop reading until `resume`; what is queued is still served."""
        return self._ask(classic.Command.PAUSE)

    def resume(self) -> dict[str, Any]:
        """End a pause, or try again after a named stop."""
        return self._ask(classic.Command.RESUME)

    def flush(self, client: str) -> dict[str, Any]:
        """Drop what waits in the queue of the client of that name."""
        return self._ask(classic.Command.FLUSH_CLIENT, client=client)

    def forget(self, client: str) -> dict[str, Any]:
        """Remove the client of that name with its filters, queue and counters."""
        return self._ask(classic.Command.FORGET_CLIENT, client=client)

    def seek(self, client: str, position: str) -> dict[str, Any]:
        """Have the client of that name continue at `position`: `newest`, `oldest` or `FILE:POS`."""
        return self._ask(classic.Command.SEEK_CLIENT, client=client, position=position)

    def clients(self, client: str = "") -> dict[str, Any]:
        """`clients` as in the stat document; with a name that one, and its last `deliveries`, newest first."""
        return self._ask(classic.Command.LIST_CLIENTS, **({"client": client} if client else {}))

    def kick(self, client: str) -> dict[str, Any]:
        """End the connection of the client of that name; it keeps its queue."""
        return self._ask(classic.Command.KICK_CLIENT, client=client)

    def skip(self, client: str) -> dict[str, Any]:
        """Leave out the row that the client of that name is handed out next; its `sequence`, 0 if none waits."""
        return self._ask(classic.Command.SKIP_ROW, client=client)

    def reload(self) -> dict[str, Any]:
        """Have it read its configuration anew; answers when all processes work with it (`relay.reload.Outcome`)."""
        self._socket.settimeout(RELOAD_TIMEOUT)
        return self._ask(classic.Command.RELOAD)

    def explain(self, schema: str, table: str) -> dict[str, Any]:
        """Where events of a table go, and why (`relay.explain.Explanation`)."""
        return self._ask(classic.Command.EXPLAIN, schema=schema, table=table)

    def _ask(self, command: classic.Command, **arguments: str) -> dict[str, Any]:
        operation = command.name.lower().replace("_", " ")
        payload = msgspec.json.encode(arguments) if arguments else b""
        try:
            self._socket.sendall(classic.encode_admin_request(command, self._key, payload))
            reply = self._receive()
        except OSError as error:
            raise _away(self._address, error) from None
        if reply.result != classic.Result.OK:
            raise RelayError(ErrorCode.ADMIN_REFUSED, operation, reply.text or "refused", position=self._address)
        return _document(reply.payload, operation, self._address)

    def _receive(self) -> classic.Reply:
        while True:
            reply = self._replies.next()
            if reply is not None:
                return reply
            data = self._socket.recv(_BUFFER)
            if not data:
                raise ConnectionResetError("the relay closed the connection")
            self._replies.feed(data)


def connect(config: Config) -> AdminClient:
    """An admin connection to the relay that runs with `config`. Raises `RelayError`."""
    server = config.server
    if not server.admin_secret:
        raise RelayError(
            ErrorCode.ADMIN_REFUSED,
            "connect",
            "there is no AdminSecret",
            hint="set AdminSecret in [Server], then `relay reload`",
        )
    return AdminClient(*classic_address(config), server.admin_secret, tls_context(config))


def classic_address(config: Config) -> tuple[str, int]:
    """Host and port at which this machine reaches the classic port."""
    return _reachable(config.server.bind_address, config.server.server_port, "ServerPort")


def tls_context(config: Config) -> ssl.SSLContext | None:
    """How to speak TLS to our own classic port, None where plain text is accepted."""
    if config.server.tls != "required":
        return None
    # The relay's own certificate is the anchor: whoever holds its key is the relay, whatever host it names.
    context = ssl.create_default_context(cafile=config.server.tls_cert)
    context.check_hostname = False
    context.verify_flags = (context.verify_flags | ssl.VERIFY_X509_PARTIAL_CHAIN) & ~ssl.VERIFY_X509_STRICT
    return context


def stat(config: Config) -> dict[str, Any]:
    """The stat document, by admin command, or from the monitoring page where there is no AdminSecret."""
    if config.server.admin_secret:
        with connect(config) as client:
            return client.stat()
    host, port = _reachable(config.server.http_address, config.server.http_port, "HTTPPort")
    page = http.client.HTTPConnection(host, port, timeout=TIMEOUT)
    try:
        page.request("GET", "/api/stat?fresh=1")
        response = page.getresponse()
        body = response.read()
    except (OSError, http.client.HTTPException) as error:
        raise _away(f"{host}:{port}", error) from None
    finally:
        page.close()
    if response.status != http.client.OK:
        cause = f"HTTP {response.status} {response.reason}"
        raise RelayError(ErrorCode.PROTOCOL, "stat", cause, position=f"{host}:{port}")
    return _document(body, "stat", f"{host}:{port}")


def typed(document: dict[str, Any]) -> Stat:
    """The stat document as a struct. Raises `RelayError` (protocol) if a relay of another version wrote it."""
    return converted(document, Stat)


def converted(document: object, form: type[T]) -> T:
    """An answer as a struct. Raises `RelayError` (protocol) if a relay of another version gave it."""
    try:
        return msgspec.convert(document, form)
    except msgspec.ValidationError as error:
        hint = "the running relay is of another version: see `relay version`"
        raise RelayError(ErrorCode.PROTOCOL, "read answer", error, hint=hint) from None


def running_pid(config: Config) -> int | None:
    """The process that holds the lock on DataDir, None if none does."""
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
    """Wait until nobody holds the lock on DataDir; False if somebody still does after `seconds`."""
    deadline = time.monotonic() + seconds
    while running_pid(config) is not None:
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True


def _reachable(address: str, port: int, key: str) -> tuple[str, int]:
    if port == 0:
        raise RelayError(
            ErrorCode.USAGE,
            "connect",
            f"{key} = 0 does not tell the port",
            hint=f"add --set Server.{key}=N, N from the ready line",
        )
    if ipaddress.ip_address(address).is_unspecified:
        return ("::1" if ":" in address else "127.0.0.1"), port
    return address, port


def _document(answer: bytes, operation: str, address: str) -> dict[str, Any]:
    try:
        return msgspec.json.decode(answer or b"{}", type=dict[str, Any])
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise RelayError(ErrorCode.PROTOCOL, operation, error, position=address) from None


def _away(address: str, error: Exception) -> RelayError:
    return RelayError(ErrorCode.NOT_RUNNING, "connect", error, position=address)
