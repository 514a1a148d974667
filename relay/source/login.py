"""Login at a source: decides which authentication plugins may send the password, and to which sources.

PyMySQL implements the handshakes. Some of them keep the password secret (mysql_native_password, ed25519, the fast path
of caching_sha2). The others send it in a form that the server can read: inside TLS, encrypted with the server's RSA
key, or in clear text. It is sent only to a proven source: by a certificate that SourceCA verifies, or by a pinned key.
Two exceptions: standard servers on this machine, and everything with PasswordToUnverifiedSource = send. The output of a
PasswordCommand is sent in such a form only with SourceTLS = verify, without exceptions.
"""

from __future__ import annotations

import fcntl
import hashlib
import importlib.util
import ipaddress
import os
import ssl
from collections.abc import Callable
from typing import Any, Final, NoReturn, Self, cast

import msgspec
import pymysql
from pymysql import _auth as pymysql_auth
from pymysql.connections import Connection
from pymysql.constants import CR

from relay.base.errors import ErrorCode, RelayError, StopCode
from relay.config.tree import Config
from relay.config.values import FIRST_USE, Command
from relay.source import passwords, rsa, tls
from relay.source.failures import SourceLost

_PINS: Final = "source-keys"
"""The file in DataDir with the keys seen at the first login: a line `host:port sha256:HEX` for each source."""

_SHA2: Final = frozenset({"caching_sha2_password", "sha256_password"})
_CLEAR: Final = frozenset({"mysql_clear_password", "dialog", "mysql_old_password"})
"""Plugins that send the password in clear text, or nearly so."""

_ED25519: Final = "client_ed25519"  # MariaDB's; PyMySQL signs with PyNaCl
_FULL: Final = b"\x01\x04"  # caching_sha2 sends this if the fast path failed
_CLOSED: Final = frozenset({CR.CR_SERVER_GONE_ERROR, CR.CR_SERVER_LOST})
_VERSION: Final = 0xA0  # the tag of a certificate's version, which is optional
_KEY_AT: Final = 5  # in a certificate: behind serial number, algorithm, issuer, validity and subject
_auth: Any = pymysql_auth
_KEY_REQUESTS: Final = {"caching_sha2_password": b"\x02", "sha256_password": b"\x01"}


def idle() -> None:
    """Do nothing: the `alive` of an account that nothing watches."""


class Account(msgspec.Struct, frozen=True):
    """The address and account to connect to.

    `tls` is off, prefer, required or verify; `ca` is a file of CA certificates. `keys` are the pinned keys,
    `sha256:HEX` or `first-use`; `pins` is the file with the keys of first use. `send` allows sending the password to
    any source. `login_cert` and `login_key` are the files of the certificate that the login shows, "" for none. `alive`
    is called while a command gets the password, and may raise.
    """

    host: str
    port: int
    login: str
    password: str | Command
    tls: str = "prefer"
    ca: str = ""
    keys: tuple[str, ...] = ()
    pins: str = ""
    send: bool = False
    login_cert: str = ""
    login_key: str = ""
    alive: Callable[[], None] = idle

    @classmethod
    def at(
        cls,
        config: Config,
        host: str,
        port: int = 0,
        login: str = "",
        password: str | Command = "",
        alive: Callable[[], None] = idle,
    ) -> Self:
        """Return the account of `[Server]` at this host, or another login there, with the rules of `[Server]`."""
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
            server.login_cert,
            server.login_key,
            alive,
        )

    @property
    def address(self) -> str:
        """`host:port`."""
        return f"{self.host}:{self.port}"


class SourceConnection(Connection):
    """A connection that does not send the password to an unproven source. Raises `RelayError` (source_denied) then.

    Like PyMySQL's class, it connects on creation; `options` are PyMySQL's.
    """

    def __init__(self, account: Account, **options: Any) -> None:
        self._account = account
        self._proven = account.tls == "verify"
        self._certificate_checked = False
        self.by_cache = False
        """Whether the login used the source's cache. A restarted source would have asked for the password."""
        values = {"host": account.host, "port": str(account.port), "login": account.login}
        options["password"] = passwords.current(account.password, values, account.alive)
        try:
            super().__init__(**options)
        except pymysql.OperationalError as error:
            if account.login_cert and self._closed_after_certificate(error):
                raise self._certificate_refused(error) from error
            raise

    def _create_ssl_ctx(self, options: dict[str, Any] | ssl.SSLContext) -> ssl.SSLContext:
        # With SourceTLS = prefer there is no context yet.
        return options if isinstance(options, ssl.SSLContext) else tls.unverified()

    def _get_server_information(self) -> None:
        cast(Any, super())._get_server_information()
        self._auth_plugin_name: str
        if self._auth_plugin_name == "sha256_password":
            # PyMySQL would reply to this greeting with the password. After a reply with another plugin, the server
            # asks again.
            self._auth_plugin_name = "caching_sha2_password"

    def write_packet(self, payload: bytes) -> None:
        """Check the certificate before PyMySQL sends the login as the first packet inside TLS."""
        sock = cast(Any, self)._sock
        if isinstance(sock, ssl.SSLSocket) and not self._certificate_checked:
            self._certificate_checked = True
            if self._account.keys:
                self._check_key(_key_of_certificate(sock.getpeercert(binary_form=True) or b""))
        cast(Any, super()).write_packet(payload)

    def _get_auth_plugin_handler(self, name: bytes | str | None) -> _PasswordHandler | None:
        """Return the handler for an authentication plugin, None to use PyMySQL's."""
        plugin = name.decode("ascii", "replace") if isinstance(name, bytes) else name or ""
        if plugin == _ED25519 and importlib.util.find_spec("nacl") is None:
            raise RelayError(
                ErrorCode.ENVIRONMENT, f"connect to {self._account.address}",
                "the account uses ed25519, and the package pynacl is not installed",
                hint="pip install 'binlog-relay[ed25519]'",
            )  # fmt: skip
        if plugin in _SHA2 and not cast(Any, self)._secure:
            rsa.load()
        if self._proven or (plugin in _SHA2 and self._may_get_password):
            return None
        self.by_cache = plugin in _SHA2 and not self._account.keys
        return _PasswordHandler(self, plugin) if plugin in _SHA2 | _CLEAR else None

    def _closed_after_certificate(self, error: pymysql.OperationalError) -> bool:
        """Whether the source may have ended this login because of LoginCert.

        With TLS 1.3, a source refuses it after the handshake, and its reason may be lost with the connection.
        """
        cause = getattr(error, "original_exception", None)
        in_handshake = isinstance(cause, ssl.SSLError) and "ALERT" in (cause.reason or "")
        return in_handshake or (self._certificate_checked and error.args[0] in _CLOSED)

    def _certificate_refused(self, error: pymysql.OperationalError) -> SourceLost:
        cert = self._account.login_cert
        why = tls.validity(cert) or f"it accepts none of this issuer, or is not running: {error.args[-1]}"
        cause = f"connect to {self._account.address}: the source ended the login that shows LoginCert {cert}: {why}"
        return SourceLost(cause, hint="set LoginCert and LoginKey in [Server] to a certificate that the source accepts")

    @property
    def is_local(self) -> bool:
        """Whether the other end is on this machine, over loopback."""
        host = ipaddress.ip_address(str(cast(Any, self)._sock.getpeername()[0]).partition("%")[0])
        return (getattr(host, "ipv4_mapped", None) or host).is_loopback

    @property
    def _may_get_password(self) -> bool:
        """Whether an unproven source gets the password by the plugins of standard servers."""
        return not self._has_token and (self._account.send or self.is_local)

    @property
    def _has_token(self) -> bool:
        """Whether the password is a command's output, which only a verified certificate allows to send."""
        return isinstance(self._account.password, Command)

    def _check_key(self, key: str) -> None:
        """Check the source's key: if keys are pinned, it must be one of them."""
        account = self._account
        keys = account.keys
        if keys == (FIRST_USE,):
            keys = (self._pinned(key),) if account.pins else ()
        if keys and key not in keys:
            fix = "set SourceKey in [Server]"
            if account.keys == (FIRST_USE,):
                fix = f"remove the line of {account.address} from {account.pins}"
            hint = f"if this is the source's new key, {fix}; if not, find out who replies there"
            raise self.denied(f"the source has the key {key}, but {' or '.join(keys)} is pinned", hint)
        self._proven = self._proven or (bool(keys) and not self._has_token)

    def _pinned(self, key: str) -> str:
        account = self._account
        try:
            return _first_use_key(account.pins, account.address, key)
        except OSError as error:
            cause = f"cannot save the source's key: {error.strerror}: {account.pins}"
            raise self.denied(cause, "make DataDir writable for the relay, or set the key in SourceKey") from None

    def check_rsa_key(self, pem: bytes) -> None:
        """Check the source's RSA key. Raises `RelayError` unless it is pinned, before or by this login."""
        key = _key_of_pem(pem)
        self._check_key(key)
        if not self._proven:
            self.raise_unproven(key)

    @property
    def remedy(self) -> str:
        """The settings that would allow sending the password."""
        sock = cast(Any, self)._sock
        shown = isinstance(sock, ssl.SSLSocket)
        return self._remedy(_key_of_certificate(sock.getpeercert(binary_form=True) or b"") if shown else "")

    def _remedy(self, key: str) -> str:
        if self._has_token:
            return "set SourceTLS = verify and SourceCA in [Server]: the output of PasswordCommand needs it"
        pin = f"SourceKey = {key}, if this is the source's key" if key else "SourceKey, and enable TLS on the source"
        return f"set in [Server] {pin}, or SourceTLS = verify and SourceCA"

    def raise_unproven(self, key: str = "") -> NoReturn:
        """Raise the error for an unproven source that asks for the password."""
        cause = "the source requests the password in readable form, and nothing proves its identity"
        raise self.denied(cause, self._remedy(key) if key else self.remedy)

    def denied(self, cause: str, hint: str) -> RelayError:
        """Return the error that ends the login."""
        return RelayError(StopCode.SOURCE_DENIED, f"connect to {self._account.address}", cause, hint=hint)


class _PasswordHandler:
    """Handle an authentication plugin that would send the password to an unproven source. PyMySQL calls it."""

    def __init__(self, connection: SourceConnection, plugin: str) -> None:
        self._connection: Any = connection
        self._plugin = plugin

    def authenticate(self, packet: Any) -> Any:
        """Reply to the source's packet; return the next one."""
        connection = self._connection
        if self._plugin in _CLEAR:
            connection.raise_unproven()
        if packet.is_auth_switch_request():
            connection.salt = packet.read_all().removesuffix(b"\0")
            if self._plugin == "caching_sha2_password":
                fast = _auth.scramble_caching_sha2(connection.password, connection.salt)
                return _auth._roundtrip(connection, fast)
        elif self._plugin == "caching_sha2_password" and not packet.get_all_data().startswith(_FULL):
            return _auth.caching_sha2_password_auth(connection, packet)
        if connection._secure:
            connection.raise_unproven()
        pem = _auth._roundtrip(connection, _KEY_REQUESTS[self._plugin]).get_all_data()[1:]
        connection.check_rsa_key(pem)
        encrypted = _auth.sha2_rsa_encrypt(connection.password, connection.salt, pem)
        return _auth._roundtrip(connection, encrypted)


def _first_use_key(file: str, source: str, key: str) -> str:
    """Return the key in the file of a source that was seen before; else this key, which is added to the file."""
    fd = os.open(file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_APPEND, 0o600)
    with os.fdopen(fd, "r+") as lines:
        fcntl.flock(lines, fcntl.LOCK_EX)
        for line in lines:
            name, _, known = line.strip().partition(" ")
            if name == source:
                return known
        end = os.fstat(fd).st_size
        lines.write(f"{source} {key}\n")
        lines.flush()
        try:
            os.fsync(fd)
        except OSError:
            os.ftruncate(fd, end)  # otherwise a later login would trust a key that a power loss can remove
            raise
    return key


def _key_of_certificate(der: bytes) -> str:
    """Return the key in a certificate, for SourceKey.

    A strict parser would reject the certificates that MariaDB generates for itself.
    """
    signed = _der_elements(_der_elements(der)[0])
    return _key_name(signed[_KEY_AT + (signed[0][0] == _VERSION)])


def _key_of_pem(pem: bytes) -> str:
    """Return the RSA key, for SourceKey."""
    from cryptography.exceptions import UnsupportedAlgorithm  # takes time, and only logins without TLS need it
    from cryptography.hazmat.primitives import serialization

    try:
        key = serialization.load_pem_public_key(pem)
    except (ValueError, UnsupportedAlgorithm):
        return "unreadable"
    return _key_name(key.public_bytes(serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo))


def _key_name(spki: bytes) -> str:
    """Return a key in the form of SourceKey, from its SubjectPublicKeyInfo."""
    return f"sha256:{hashlib.sha256(spki).hexdigest()}"


def _der_elements(der: bytes) -> list[bytes]:
    """Return the elements of a DER sequence, each with its header. The TLS library has validated it."""
    found, rest = [], _der_content(der)[0]
    while rest:
        _, after = _der_content(rest)
        found.append(rest[: len(rest) - len(after)])
        rest = after
    return found


def _der_content(der: bytes) -> tuple[bytes, bytes]:
    """Return the content of the first DER element, and the bytes behind the element."""
    size, start = der[1], 2
    if size & 0x80:
        start += size & 0x7F
        size = int.from_bytes(der[2:start], "big")
    return der[start : start + size], der[start + size :]
