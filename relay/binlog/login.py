"""Logging in at a source: which plugins tell it the password, and who may be told.

PyMySQL knows the handshakes. Some of them keep the password secret (mysql_native_password, ed25519, the fast path of
caching_sha2). The others give it to the server readable: inside TLS, by the server's RSA key, or as it is. A source is
told only if it is proven: by a certificate that SourceCA vouches for, or by a key that is pinned. Stock servers on this
machine are told, too, as is everybody with PasswordToUnverifiedSource = send.
"""

from __future__ import annotations

import fcntl
import hashlib
import ipaddress
import os
import socket
import ssl
from typing import Any, Final, NoReturn, Self, cast

import msgspec
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from pymysql import _auth as pymysql_auth
from pymysql.connections import Connection

from relay.config import Config
from relay.config_keys import FIRST_USE
from relay.errors import RelayError, StopCode

_PINS: Final = "source-keys"
"""The file in DataDir of the keys that were seen first: a line `host:port sha256:HEX` for each source."""

_SHA2: Final = frozenset({"caching_sha2_password", "sha256_password"})
_CLEAR: Final = frozenset({"mysql_clear_password", "dialog", "mysql_old_password"})
"""Plugins that tell the password to whoever asks, or as good as."""

_FULL: Final = b"\x01\x04"  # of caching_sha2: the fast path failed
_VERSION: Final = 0xA0  # the tag of a certificate's version, which may be left out
_KEY_AT: Final = 5  # behind serial number, algorithm, issuer, validity and subject
_auth: Any = pymysql_auth
_WANTS_KEY: Final = {"caching_sha2_password": b"\x02", "sha256_password": b"\x01"}


class Account(msgspec.Struct, frozen=True):
    """Where and as whom to connect. `tls` is off, prefer, required or verify; `ca` a file of CA certificates.

    `keys` are the pinned keys, `sha256:HEX` or `first-use`; `pins` the file that keeps those of the first use. `send`
    tells the password to whoever asks.
    """

    host: str
    port: int
    login: str
    password: str
    tls: str = "prefer"
    ca: str = ""
    keys: tuple[str, ...] = ()
    pins: str = ""
    send: bool = False

    @classmethod
    def at(cls, config: Config, host: str, port: int = 0, login: str = "", password: str = "") -> Self:
        """The account of `[Server]` at this host, or another login there, with the rules of `[Server]`."""
        server = config.server
        return cls(
            host,
            port or server.port,
            login or server.login,
            password if login else server.password,
            server.source_tls,
            server.source_ca,
            tuple(server.source_key),
            os.path.join(config.relay.data_dir, _PINS),
            server.password_to_unverified_source == "send",
        )

    @property
    def address(self) -> str:
        """`host:port`."""
        return f"{self.host}:{self.port}"


class SourceConnection(Connection):
    """A connection that tells the password to nobody who may not know it. Raises `RelayError` (source_denied) then.

    Like PyMySQL's own class it connects when it is made; `options` are PyMySQL's.
    """

    def __init__(self, account: Account, **options: Any) -> None:
        self._account = account
        self._proven = account.tls == "verify"
        self._looked = False
        self.by_cache = False
        """Whether it logged in by what the source has cached. A restarted source would have asked for the password."""
        super().__init__(**options)

    def _get_server_information(self) -> None:
        cast(Any, super())._get_server_information()
        self._auth_plugin_name: str
        if self._auth_plugin_name == "sha256_password":
            # PyMySQL answers that greeting with the password. Answered with another plugin, the server asks again.
            self._auth_plugin_name = "caching_sha2_password"

    def write_packet(self, payload: bytes) -> None:
        """PyMySQL's, which sends the login as the first packet inside TLS: the certificate is looked at before."""
        sock = cast(Any, self)._sock
        if isinstance(sock, ssl.SSLSocket) and not self._looked:
            self._looked = True
            if self._account.keys:
                self._look(_of_certificate(sock.getpeercert(binary_form=True) or b""))
        cast(Any, super()).write_packet(payload)

    def _get_auth_plugin_handler(self, name: bytes | str | None) -> _Teller | None:
        """Who answers for this plugin, None for PyMySQL itself."""
        plugin = name.decode("ascii", "replace") if isinstance(name, bytes) else name or ""
        if self._proven or (plugin in _SHA2 and self._is_told):
            return None
        self.by_cache = plugin in _SHA2 and not self._account.keys
        return _Teller(self, plugin) if plugin in _SHA2 | _CLEAR else None

    @property
    def _is_told(self) -> bool:
        """Whether this source is told what stock servers ask for, though nothing proves that it is the one meant."""
        return self._account.send or _is_here(cast(Any, self)._sock)

    def _look(self, key: str) -> None:
        """The source shows this key: it has to be a pinned one, where there are any."""
        account = self._account
        keys = account.keys
        if keys == (FIRST_USE,):
            keys = (self._pinned(key),) if account.pins else ()
        if keys and key not in keys:
            hint = f"if it is the source's new key, {_correction(account)}; if not, find out who answers there"
            raise self.refusal(f"the source shows the key {key}, and {' or '.join(keys)} is pinned", hint)
        self._proven = self._proven or bool(keys)

    def _pinned(self, key: str) -> str:
        account = self._account
        try:
            return _first_of(account.pins, account.address, key)
        except OSError as error:
            cause = f"the source's key cannot be kept: {error.strerror}: {account.pins}"
            raise self.refusal(cause, "make DataDir writable for the relay, or name the key in SourceKey") from None

    def show(self, pem: bytes) -> None:
        """The source shows this RSA key. Returns if it is pinned, or is by now."""
        key = _of_key(pem)
        self._look(key)
        if not self._proven:
            self.refuse(key)

    @property
    def remedy(self) -> str:
        """What to set so that the source may be told."""
        sock = cast(Any, self)._sock
        shown = isinstance(sock, ssl.SSLSocket)
        return self._remedy(_of_certificate(sock.getpeercert(binary_form=True) or b"") if shown else "")

    def _remedy(self, key: str) -> str:
        pin = f"SourceKey = {key}, if that is the source's key" if key else "SourceKey, and give the source TLS"
        return f"set in [Server] {pin}, or SourceTLS = verify and SourceCA"

    def refuse(self, key: str = "") -> NoReturn:
        """The source asks for the password, and nothing proves it. Raises."""
        cause = "the source asks for the password in a form that it can read, and nothing proves that it is the source"
        raise self.refusal(cause, self._remedy(key) if key else self.remedy)

    def refusal(self, cause: str, hint: str) -> RelayError:
        """The error that ends the login."""
        return RelayError(StopCode.SOURCE_DENIED, f"connect to {self._account.address}", cause, hint=hint)


class _Teller:
    """Answers a source that is not proven, for a plugin that tells it the password. PyMySQL calls it."""

    def __init__(self, connection: SourceConnection, plugin: str) -> None:
        self._connection: Any = connection
        self._plugin = plugin

    def authenticate(self, packet: Any) -> Any:
        """The answer to the source's packet; returns the one that follows."""
        connection = self._connection
        if self._plugin in _CLEAR:
            connection.refuse()
        if packet.is_auth_switch_request():
            connection.salt = packet.read_all().removesuffix(b"\0")
            if self._plugin == "caching_sha2_password":
                fast = _auth.scramble_caching_sha2(connection.password, connection.salt)
                return _auth._roundtrip(connection, fast)
        elif self._plugin == "caching_sha2_password" and not packet.get_all_data().startswith(_FULL):
            return _auth.caching_sha2_password_auth(connection, packet)
        if connection._secure:
            connection.refuse()
        pem = _auth._roundtrip(connection, _WANTS_KEY[self._plugin]).get_all_data()[1:]
        connection.show(pem)
        encrypted = _auth.sha2_rsa_encrypt(connection.password, connection.salt, pem)
        return _auth._roundtrip(connection, encrypted)


def _correction(account: Account) -> str:
    if account.keys == (FIRST_USE,):
        return f"remove the line of {account.address} from {account.pins}"
    return "set SourceKey in [Server]"


def _first_of(file: str, source: str, key: str) -> str:
    """The key that the source showed first: the one in the file, else this one, which is in the file from now on."""
    fd = os.open(file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_APPEND, 0o600)
    with os.fdopen(fd, "r+") as lines:
        fcntl.flock(lines, fcntl.LOCK_EX)
        for line in lines:
            name, _, known = line.strip().partition(" ")
            if name == source:
                return known
        lines.write(f"{source} {key}\n")
        lines.flush()
        os.fsync(fd)
    return key


def _of_certificate(der: bytes) -> str:
    """The key in a certificate. The certificates that MariaDB makes for itself are too lax for a strict parser."""
    signed = _parts(_parts(der)[0])
    return _name(signed[_KEY_AT + (signed[0][0] == _VERSION)])


def _of_key(pem: bytes) -> str:
    try:
        key = serialization.load_pem_public_key(pem)
    except (ValueError, UnsupportedAlgorithm):
        return "unreadable"
    return _name(key.public_bytes(serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo))


def _name(spki: bytes) -> str:
    """A key as SourceKey names it, by its SubjectPublicKeyInfo."""
    return f"sha256:{hashlib.sha256(spki).hexdigest()}"


def _parts(der: bytes) -> list[bytes]:
    """The elements of a DER sequence that the TLS library has read before; each with its head."""
    found, rest = [], _content(der)[0]
    while rest:
        _, after = _content(rest)
        found.append(rest[: len(rest) - len(after)])
        rest = after
    return found


def _content(der: bytes) -> tuple[bytes, bytes]:
    """The content of the first element, and what comes after it."""
    size, start = der[1], 2
    if size & 0x80:
        start += size & 0x7F
        size = int.from_bytes(der[2:start], "big")
    return der[start : start + size], der[start + size :]


def _is_here(sock: socket.socket) -> bool:
    """Whether the other end is on this machine, over loopback."""
    host = ipaddress.ip_address(str(sock.getpeername()[0]).partition("%")[0])
    return (getattr(host, "ipv4_mapped", None) or host).is_loopback
