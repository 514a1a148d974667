"""TLS verifies the other side by names, dates and issuers: for clients, at the CDC port, and for the source."""

from __future__ import annotations

import ipaddress
import signal
import socket
import ssl
import struct
import threading
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import NamedTuple

import msgspec
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from examples.dbserver import PASSWORD, USER, DatabaseServer
from relay.client import RelayClient
from relay.commands import admin_client
from relay.commands.admin_client import AdminClient
from relay.config.load import load
from relay.errors import ErrorCode, RelayError, StopCode
from relay.net import tls
from relay.source.connect import Account, connect, query
from tests.support.cdc_client import CdcClient
from tests.support.cdc_relay import CdcRelay
from tests.support.relay_process import ADMIN_SECRET, SECRET, RelayProcess
from tests.support.waiting import patience, until

HERE = "127.0.0.1"
REFUSED = {
    "another host": "IP address mismatch",
    "expired": "certificate has expired",
    "not yet": "certificate is not yet valid",
    "foreign": "unable to get local issuer certificate",
}

# MySQL itself takes no certificate that its own CA does not vouch for today.
SERVED = {"mysql97": ["another host"], "mariadb118": [*REFUSED]}


class Authority(NamedTuple):
    """Who signs."""

    certificate: x509.Certificate
    key: ec.EllipticCurvePrivateKey


def named(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


def authority(name: str) -> Authority:
    """One that signs itself."""
    key = ec.generate_private_key(ec.SECP256R1())
    now = datetime.now(UTC)
    builder = x509.CertificateBuilder(named(name), named(name), key.public_key(), x509.random_serial_number())
    builder = builder.not_valid_before(now - timedelta(days=9)).not_valid_after(now + timedelta(days=9))
    usage = x509.KeyUsage(True, False, False, False, False, True, True, False, False)
    identifier = x509.SubjectKeyIdentifier.from_public_key(key.public_key())
    for extension, critical in ((x509.BasicConstraints(True, 0), True), (usage, True), (identifier, False)):
        builder = builder.add_extension(extension, critical)
    return Authority(builder.sign(key, hashes.SHA256()), key)


def issue(signer: Authority, hosts: str, start: int, end: int) -> tuple[bytes, bytes]:
    """A certificate for addresses (with commas), from `start` to `end` in days from now, and its key; both PEM."""
    key = ec.generate_private_key(ec.SECP256R1())
    now = datetime.now(UTC)
    issuer = signer.certificate.subject
    builder = x509.CertificateBuilder(issuer, named("relay"), key.public_key(), x509.random_serial_number())
    builder = builder.not_valid_before(now + timedelta(days=start)).not_valid_after(now + timedelta(days=end))
    names = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address(host)) for host in hosts.split(",")])
    issuer_key = x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.key.public_key())
    builder = builder.add_extension(names, False).add_extension(issuer_key, False)
    certificate = builder.sign(signer.key, hashes.SHA256())
    return certificate.public_bytes(serialization.Encoding.PEM), pem(key)


class Certificates:
    """Files of certificates of each kind; those in use are replaced by `use`."""

    def __init__(self, folder: Path) -> None:
        ours, foreign = authority("ours"), authority("ours")  # of the same name, as an impostor's would be
        self.ca, self.cert, self.key = folder / "ca.pem", folder / "cert.pem", folder / "key.pem"
        self.ca.write_bytes(ours.certificate.public_bytes(serialization.Encoding.PEM))
        self._made = {
            "right": issue(ours, f"{HERE},127.0.0.2", -1, 5),
            "another host": issue(ours, "127.0.0.9", -1, 5),
            "expired": issue(ours, HERE, -5, -1),
            "not yet": issue(ours, HERE, 1, 5),
            "foreign": issue(foreign, HERE, -1, 5),
        }
        self.use("right")

    def use(self, kind: str) -> None:
        """Put that certificate and its key into the files."""
        cert, key = self._made[kind]
        self.cert.write_bytes(cert)
        self.key.write_bytes(key)

    @property
    def trust(self) -> ssl.SSLContext:
        """A client's context as Python makes it."""
        return ssl.create_default_context(cafile=str(self.ca))


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return Certificates(tmp_path_factory.mktemp("certificates"))


def test_clients_notice_who_is_not_the_relay_at_either_port(
    mariadb1011: DatabaseServer, start_relay: Callable[..., RelayProcess], certificates: Certificates
) -> None:
    certificates.use("right")
    settings = {"Server.TLS": "required", "Server.TLSCert": certificates.cert, "Server.TLSKey": certificates.key}
    running = CdcRelay(start_relay, mariadb1011, TLS="required", **settings)
    port = running.relay.port

    def classic() -> None:
        with RelayClient(HERE, port, "c", SECRET, patience=0, tls=certificates.trust):
            pass

    def cdc() -> None:
        plain = socket.create_connection((HERE, running.port), patience(20))
        with certificates.trust.wrap_socket(plain, server_hostname=HERE) as wrapped:
            assert wrapped.version() in ("TLSv1.2", "TLSv1.3")
            CdcClient(0, connection=wrapped).login(USER, PASSWORD).register()

    for ask in (classic, cdc):
        ask()
    for kind, words in REFUSED.items():
        certificates.use(kind)
        before = running.relay.stderr.read_text().count(" reloaded ")
        running.relay.signal(signal.SIGHUP)  # an admin command would be for the holder of the new key
        until(lambda: running.relay.stderr.read_text().count(" reloaded ") > before)  # noqa: B023
        for ask in (classic, cdc):
            with pytest.raises((RelayError, ssl.SSLCertVerificationError), match=words):
                ask()
    log = running.relay.stderr.read_text()
    assert "auth_failed" not in log, "nobody who noticed has sent a secret"


def test_nothing_older_than_tls_12_is_spoken(certificates: Certificates) -> None:
    certificates.use("right")
    flags = {"Server.AuthSecret": "s", "Server.Login": "l", "Server.TLSCert": str(certificates.cert),
             "Server.TLSKey": str(certificates.key), "Server.TLS": "required"}  # fmt: skip
    config = load(None, {}, flags)[0].server
    context = tls.server_context(config.tls, config)
    assert context is not None and context.minimum_version >= ssl.TLSVersion.TLSv1_2


class Impostor:
    """Listens where a relay or a source would, and keeps what it is told. `greet` is said to who comes."""

    def __init__(self, context: ssl.SSLContext | None = None, greet: Callable[[socket.socket], bytes] | None = None):
        self._context, self._greet = context, greet
        self._listener = socket.create_server((HERE, 0))
        self.port: int = self._listener.getsockname()[1]
        self.heard = b""
        self._thread = threading.Thread(target=self._serve)

    def __enter__(self) -> Impostor:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._thread.join(patience(20))
        self._listener.close()

    def _serve(self) -> None:
        peer, _ = self._listener.accept()
        peer.settimeout(patience(10))
        try:
            if self._context:
                peer = self._context.wrap_socket(peer, server_side=True)
            if self._greet:
                self.heard += self._greet(peer)
            while data := peer.recv(1000):
                self.heard += data
        except OSError:  # they hang up, as they should
            return
        finally:
            peer.close()


def paused_at(port: int, context: ssl.SSLContext) -> None:
    """The admin command, with little patience."""
    with AdminClient(HERE, port, ADMIN_SECRET, context) as client:
        client._socket.settimeout(0.2)
        client.pause()


def test_admin_commands_are_given_to_nobody_but_the_holder_of_the_relays_own_key(certificates: Certificates) -> None:
    certificates.use("right")
    flags = {"Server.AuthSecret": "s", "Server.Login": "l", "Server.TLSCert": str(certificates.cert),
             "Server.TLSKey": str(certificates.key), "Server.TLS": "required"}  # fmt: skip
    config = load(None, {}, flags)[0]
    for kind, right in (("right", True), ("foreign", False)):
        trusted = admin_client.tls_context(config)
        assert trusted is not None
        certificates.use(kind)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificates.cert, certificates.key)
        certificates.use("right")
        with Impostor(context) as impostor:
            # Whoever holds the key is believed, and here says nothing; anybody else hears nothing.
            with pytest.raises(RelayError) as away:
                paused_at(impostor.port, trusted)
            assert away.value.code is ErrorCode.NOT_RUNNING
            assert ("SIGHUP" in away.value.hint) != right, "the certificate may just have been renewed"
        assert bool(impostor.heard) == right


@pytest.fixture
def secure(own_server: Callable[..., DatabaseServer], certificates: Certificates, kind: str) -> DatabaseServer:
    certificates.use("right")
    return own_server(
        kind, f"--ssl-ca={certificates.ca}", f"--ssl-cert={certificates.cert}", f"--ssl-key={certificates.key}"
    )


@pytest.mark.parametrize("kind", ["mysql97", "mariadb118"])
def test_a_source_is_believed_by_its_certificate_only(
    secure: DatabaseServer, certificates: Certificates, kind: str, start_relay: Callable[..., RelayProcess]
) -> None:
    account = Account(HERE, secure.port, USER, PASSWORD, "verify", str(certificates.ca))
    connect(account).close()
    system = msgspec.structs.replace(account, ca="")
    with pytest.raises(RelayError, match="certificate verify failed"):
        connect(system)
    for wrong in SERVED[kind]:
        certificates.use(wrong)
        secure.execute("ALTER INSTANCE RELOAD TLS" if secure.kind.mysql else "FLUSH SSL")
        with pytest.raises(RelayError, match=REFUSED[wrong]) as refused:
            connect(account)
        assert refused.value.code is ErrorCode.SOURCE_UNREACHABLE and "SourceCA" in refused.value.hint
        connect(msgspec.structs.replace(account, tls="required")).close()
    settings = {"Server.SourceTLS": "verify", "Server.SourceCA": certificates.ca}
    assert "state=streaming" not in start_relay(secure, settings).ready, "the whole relay asks for it"
    certificates.use("right")
    secure.execute("ALTER INSTANCE RELOAD TLS" if secure.kind.mysql else "FLUSH SSL")
    assert "state=streaming" in start_relay(secure, settings).ready


def packet(number: int, body: bytes) -> bytes:
    """A packet of the servers' protocol."""
    return struct.pack("<I", len(body))[:3] + bytes((number,)) + body


def asking(plugin: bytes) -> Callable[[socket.socket], bytes]:
    """A server that greets, hears the login, and asks for the password by this plugin."""

    def greet(peer: socket.socket) -> bytes:
        capabilities = 0x000A8209  # LONG_PASSWORD, CONNECT_WITH_DB, PROTOCOL_41, SECURE_CONNECTION, PLUGIN_AUTH; no SSL
        body = b"\x0a" + b"8.0.0\0" + struct.pack("<I", 1) + b"a" * 8 + b"\0" + struct.pack("<H", capabilities & 0xFFFF)
        body += b"\x21" + struct.pack("<H", 2) + struct.pack("<H", capabilities >> 16) + b"\x15" + bytes(10)
        body += b"b" * 12 + b"\0" + b"mysql_native_password\0"
        peer.sendall(packet(0, body))
        heard = peer.recv(10_000)
        peer.sendall(packet(heard[3] + 1, b"\xfe" + plugin + b"\0" + b"c" * 20 + b"\0"))
        if plugin == b"dialog":
            peer.sendall(packet(heard[3] + 3, b"\x02Password: "))
        return heard

    return greet


@pytest.mark.parametrize("plugin", [b"mysql_clear_password", b"dialog", b"mysql_old_password"])
@pytest.mark.parametrize("mode", ["off", "prefer"])
def test_a_source_that_nobody_vouches_for_gets_no_password_in_clear_text(plugin: bytes, mode: str) -> None:
    with Impostor(greet=asking(plugin)) as impostor, pytest.raises(RelayError) as refused:
        connect(Account(HERE, impostor.port, "relay", "a-secret-password", mode))
    assert refused.value.code is StopCode.SOURCE_DENIED and "SourceTLS = verify" in refused.value.hint
    assert b"relay" in impostor.heard and b"a-secret-password" not in impostor.heard


def test_a_source_that_asks_for_a_file_gets_none(tmp_path: Path) -> None:
    precious = tmp_path / "precious"
    precious.write_text("precious")

    def greet(peer: socket.socket) -> bytes:
        heard = asking(b"mysql_native_password")(peer)
        for number in (4, 1):  # the password, and SET NAMES
            heard += peer.recv(10_000)
            peer.sendall(b"\x07\0\0" + bytes((number,)) + b"\0\0\0\2\0\0\0")
        heard += peer.recv(10_000)
        name = str(precious).encode()
        peer.sendall(struct.pack("<I", 1 + len(name))[:3] + b"\1\xfb" + name)
        return heard

    with Impostor(greet=greet) as impostor:
        connection = connect(Account(HERE, impostor.port, "relay", "x", "off"))
        with pytest.raises(RuntimeError, match="local_infile"):
            query(connection, "SELECT 1", "ask")
        connection.close()
    assert b"SELECT 1" in impostor.heard
    assert b"precious" not in impostor.heard
