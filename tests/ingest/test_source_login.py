"""The source's password is sent only to a verified source or to one on this host."""

from __future__ import annotations

import importlib
import re
import socket
import ssl
import struct
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import padding, rsa

from examples.dbserver import PASSWORD, USER, DatabaseServer
from relay.errors import ErrorCode, RelayError, StopCode
from relay.source.connect import Account, connect
from relay.source.failures import SourceLost
from tests.net.test_certificates import authority, issue, packet
from tests.serving.test_admin import own_address
from tests.support.relay_process import RelayProcess
from tests.support.waiting import patience, until

pytestmark = pytest.mark.brands

WORD = b"a-secret-password"
_SSL = 0x800


class FakeSource:
    """Answers at `host` as a server would that wants to know the password: `told` is what it could read of it.

    `greeting` is the plugin that it greets with, `switch` the one that it switches to; `tls` whether it encrypts.
    """

    def __init__(self, host: str, folder: Path, greeting: bytes, switch: bytes = b"", *, tls: bool) -> None:
        self._greeting, self._switch, self.told = greeting, switch, b""
        self._key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        cert, key = issue(authority("fake"), host, -1, 5)
        (folder / "fake.pem").write_bytes(cert + key)
        self._context: ssl.SSLContext | None = None
        if tls:
            self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            self._context.load_cert_chain(folder / "fake.pem")
        self._listener = socket.create_server((host, 0))
        self.port: int = self._listener.getsockname()[1]
        self._thread = threading.Thread(target=self._serve)

    def __enter__(self) -> FakeSource:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._thread.join(patience(20))
        self._listener.close()

    def _serve(self) -> None:
        while True:
            try:
                peer, _ = self._listener.accept()
            except OSError:
                return
            peer.settimeout(patience(3))
            try:
                self._talk(peer)
            except OSError:
                pass
            finally:
                peer.close()

    def _talk(self, peer: socket.socket) -> None:
        capabilities = 0x000A8209 | (_SSL if self._context else 0)
        salt = b"a" * 8 + b"b" * 12
        body = b"\x0a8.4.0\0" + struct.pack("<I", 1) + salt[:8] + b"\0" + struct.pack("<H", capabilities & 0xFFFF)
        body += b"\x21" + struct.pack("<H", 2) + struct.pack("<H", capabilities >> 16) + b"\x15" + bytes(10)
        peer.sendall(packet(0, body + salt[8:] + b"\0" + self._greeting + b"\0"))
        number, heard = self._hear(peer)
        if self._context and len(heard) == 32:
            peer = self._context.wrap_socket(peer, server_side=True)
            number, heard = self._hear(peer)
        plugin = self._greeting
        # Whoever is greeted with another plugin than it has says so, and is asked again.
        named = heard.rstrip(b"\0").split(b"\0")
        if self._switch or self._greeting not in named:
            plugin, salt = self._switch or self._greeting, b"c" * 20
            peer.sendall(packet(number + 1, b"\xfe" + plugin + b"\0" + salt + b"\0"))
            number, heard = self._hear(peer)
        if plugin == b"caching_sha2_password":
            peer.sendall(packet(number + 1, b"\x01\x04"))
            number, heard = self._hear(peer)
        if heard in (b"\x01", b"\x02"):
            public = self._key.public_key().public_bytes(
                serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
            )
            peer.sendall(packet(number + 1, b"\x01" + public))
            number, heard = self._hear(peer)
        if len(heard) == 256:
            sha1 = padding.OAEP(padding.MGF1(hashes.SHA1()), hashes.SHA1(), None)
            scrambled = self._key.decrypt(heard, sha1)
            heard = bytes(byte ^ salt[at % 20] for at, byte in enumerate(scrambled))
        self.told += heard
        self._hear(peer)

    def _hear(self, peer: socket.socket) -> tuple[int, bytes]:
        head = self._exactly(peer, 4)
        body = self._exactly(peer, int.from_bytes(head[:3], "little"))
        if WORD in body:
            self.told += body
        return head[3], body

    def _exactly(self, peer: socket.socket, size: int) -> bytes:
        got = b""
        while len(got) < size:
            if not (more := peer.recv(size - len(got))):
                raise ConnectionResetError
            got += more
        return got


def test_a_login_by_ed25519_without_its_package_names_the_extra(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "path", [folder for folder in sys.path if not Path(folder, "nacl").is_dir()])
    for name in [name for name in sys.modules if name.partition(".")[0] == "nacl"]:
        monkeypatch.delitem(sys.modules, name)
    importlib.invalidate_caches()
    fake = FakeSource("127.0.0.1", tmp_path, b"mysql_native_password", b"client_ed25519", tls=False)
    with fake, pytest.raises(RelayError) as missing:
        connect(Account("127.0.0.1", fake.port, "relay", WORD.decode(), "off"))
    assert missing.value.code == ErrorCode.ENVIRONMENT
    assert missing.value.hint == "pip install 'binlog-relay[ed25519]'"


@pytest.mark.parametrize("tls", [False, True], ids=["plain", "tls"])
@pytest.mark.parametrize(
    ("greeting", "switch"),
    [
        (b"caching_sha2_password", b""),
        (b"sha256_password", b""),
        (b"mysql_native_password", b"caching_sha2_password"),
        (b"caching_sha2_password", b"sha256_password"),
        (b"caching_sha2_password", b"mysql_clear_password"),
    ],
)
def test_a_fake_source_is_never_told_the_password(tmp_path: Path, greeting: bytes, switch: bytes, tls: bool) -> None:
    host = own_address()
    for mode in ("prefer", "required") if tls else ("prefer", "off"):
        with FakeSource(host, tmp_path, greeting, switch, tls=tls) as fake:
            account = Account(host, fake.port, "relay", WORD.decode(), mode)
            with pytest.raises((RelayError, SourceLost)) as refused:
                connect(account)
        assert WORD not in fake.told, mode
        assert isinstance(refused.value, RelayError)
        assert refused.value.code is StopCode.SOURCE_DENIED
        assert "SourceKey" in refused.value.hint


def at(host: str, server: DatabaseServer, **changes: object) -> Account:
    return msgspec.structs.replace(Account(host, server.port, USER, PASSWORD), **changes)


@pytest.fixture
def reachable(own_server: Callable[..., DatabaseServer], kind: str) -> DatabaseServer:
    """A server as it is installed, at an address that is not loopback's."""
    return own_server(kind, "--bind-address=*")


def forget(server: DatabaseServer) -> None:
    """The cache of caching_sha2 knows no password: the next login is a full one."""
    server.execute("FLUSH PRIVILEGES")


def key_of(refused: pytest.ExceptionInfo[RelayError]) -> str:
    found = re.search(r"sha256:[0-9a-f]{64}", refused.value.hint)
    assert found, refused.value.hint
    return found[0]


@pytest.mark.parametrize("kind", ["mysql97"])
@pytest.mark.parametrize("mode", ["prefer", "off"])
def test_a_stock_mysql_is_logged_in_at(reachable: DatabaseServer, kind: str, mode: str, tmp_path: Path) -> None:
    host = own_address()
    stock = at(host, reachable, tls=mode)
    forget(reachable)
    with pytest.raises(RelayError) as refused:
        connect(stock)
    assert refused.value.code is StopCode.SOURCE_DENIED
    key = key_of(refused)
    # A full login at loopback fills the cache, and the fast path tells nobody the password.
    with connect(at("127.0.0.1", reachable, tls=mode)) as here:
        assert not here.by_cache
    with connect(stock) as there:
        assert there.by_cache
        assert key in there.remedy or mode == "off", "without TLS no key is shown until it is asked for"
    # The key that the refusal names is enough, and no other is.
    forget(reachable)
    connect(msgspec.structs.replace(stock, keys=(key,))).close()
    forget(reachable)
    with pytest.raises(RelayError, match="is pinned"):
        connect(msgspec.structs.replace(stock, keys=("sha256:" + 64 * "0",)))
    # The first use pins it, and a source that shows another one is refused from then on.
    pins = tmp_path / "source-keys"
    first = msgspec.structs.replace(stock, keys=("first-use",), pins=str(pins))
    for _ in range(2):
        forget(reachable)
        connect(first).close()
    assert pins.read_text() == f"{stock.address} {key}\n"
    assert pins.stat().st_mode & 0o777 == 0o600
    pins.write_text(f"{stock.address} sha256:{64 * '0'}\n")
    forget(reachable)
    with pytest.raises(RelayError, match="is pinned") as other:
        connect(first)
    assert "source-keys" in other.value.hint
    # And whoever wants it as it was says so.
    connect(msgspec.structs.replace(stock, send=True)).close()


@pytest.mark.parametrize("kind", ["mysql97", "mariadb118", "mariadb1011"])
def test_logins_that_keep_the_password_secret_need_nothing(reachable: DatabaseServer, kind: str) -> None:
    host = own_address()
    if reachable.kind.mysql:
        forget(reachable)
        connect(at("127.0.0.1", reachable)).close()
    for mode in ("prefer", "off"):
        connect(at(host, reachable, tls=mode)).close()


@pytest.mark.parametrize("kind", ["mysql97"])
def test_a_relay_that_may_not_log_in_says_what_to_do(
    reachable: DatabaseServer, kind: str, start_relay: Callable[..., RelayProcess]
) -> None:
    settings: dict[str, object] = {"Server.IPAddr": own_address()}
    relay = start_relay(reachable, settings)
    forget(reachable)
    assert "state=stopped" in relay.ready and "source_denied" in relay.ready, relay.ready
    found = re.search(r"SourceKey = (sha256:[0-9a-f]{64})", relay.stderr.read_text())
    assert found
    assert "state=streaming" in start_relay(reachable, settings | {"Server.SourceKey": found[1]}).ready
    forget(reachable)
    pinning = start_relay(reachable, settings | {"Server.SourceKey": "first-use"})
    assert "state=streaming" in pinning.ready


@pytest.mark.parametrize("kind", ["mysql97"])
@pytest.mark.parametrize("mode", ["prefer", "off"])
def test_only_a_relay_that_logs_in_without_tls_loads_the_library_for_rsa_keys(
    reachable: DatabaseServer, kind: str, mode: str, start_relay: Callable[..., RelayProcess]
) -> None:
    forget(reachable)
    relay = start_relay(reachable, {"Server.SourceTLS": mode})
    assert "state=streaming" in relay.ready, relay.ready
    until(lambda: relay.stat()["source"]["lag_bytes"] is not None)  # the monitor has logged in, too
    mapped = {name for name, pid in relay.pids().items() if "cryptography" in Path(f"/proc/{pid}/maps").read_text()}
    assert mapped == ({"reader", "monitor"} if mode == "off" else set())
