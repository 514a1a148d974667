"""The source may require a certificate of the relay: with the right one it logs in, and each wrong one is named."""

from __future__ import annotations

import signal
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import msgspec
import pymysql
import pytest
from cryptography.hazmat.primitives import serialization

from examples.dbserver import PASSWORD, USER, DatabaseServer
from relay.config.load import load
from relay.errors import ErrorCode, RelayError, StopCode
from relay.runtime.reload import check_usable
from relay.source.connect import Account, connect
from relay.source.failures import SourceLost
from tests.net.test_certificates import HERE, Certificates, authority, issue
from tests.support.reader_process import Reader
from tests.support.relay_process import RelayProcess, run_relay
from tests.support.replicating_pair import HOSTS, executed, pair_of
from tests.support.waiting import until

pytestmark = pytest.mark.brands


class LoginCertificates(Certificates):
    """Beside the server's certificates, files of those of the relay, by name."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.folder = folder
        for name in ("right", "expired", "not yet"):
            self.write(name, *self._made[name])
        self.write("foreign", *issue(authority("another"), HERE, -1, 5))

    def write(self, name: str, cert: bytes, key: bytes) -> None:
        (self.folder / f"{name}.cert").write_bytes(cert)
        (self.folder / f"{name}.key").write_bytes(key)

    def of(self, name: str) -> tuple[str, str]:
        return str(self.folder / f"{name}.cert"), str(self.folder / f"{name}.key")

    @property
    def options(self) -> tuple[str, ...]:
        """Of a server that trusts them."""
        return f"--ssl-ca={self.ca}", f"--ssl-cert={self.cert}", f"--ssl-key={self.key}"


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> LoginCertificates:
    return LoginCertificates(tmp_path_factory.mktemp("certificates"))


def require(server: DatabaseServer, user: str, what: str) -> None:
    server.execute(f"CREATE USER {user}@'%' IDENTIFIED BY 'p' REQUIRE {what}", f"GRANT ALL ON *.* TO {user}@'%'")


@pytest.mark.parametrize("kind", ["mysql97", "mariadb118", "mariadb1011"])
def test_a_source_that_requires_a_certificate_gets_it_and_each_wrong_one_is_named(
    own_server: Callable[..., DatabaseServer], kind: str, certificates: LoginCertificates
) -> None:
    server = own_server(kind, *certificates.options)
    require(server, "any_cert", "X509")
    require(server, "one_cert", "SUBJECT '/CN=relay'")
    require(server, "other_cert", "SUBJECT '/CN=other'")

    def account(user: str, name: str = "") -> Account:
        cert, key = certificates.of(name) if name else ("", "")
        return Account(HERE, server.port, user, "p", "verify", str(certificates.ca), login_cert=cert, login_key=key)

    for user in ("any_cert", "one_cert"):
        connect(account(user, "right")).close()
        connect(msgspec.structs.replace(account(user, "right"), tls="required")).close()
    for denied in (account("other_cert", "right"), account("any_cert")):
        with pytest.raises(RelayError) as refused:
            connect(denied)
        assert refused.value.code is StopCode.SOURCE_DENIED and "LoginCert" in refused.value.hint
    wrong = {"expired": "it expired at 20", "not yet": "it is valid only from 20", "foreign": "none of this issuer"}
    for name, what in wrong.items():
        with pytest.raises(SourceLost, match=what) as lost:
            connect(account("any_cert", name))
        assert f"the login that shows LoginCert {certificates.of(name)[0]}" in str(lost.value)
        assert "LoginKey" in lost.value.hint


@pytest.fixture
def settings(certificates: LoginCertificates) -> dict[str, str]:
    cert, key = certificates.of("right")
    of_server = {"Server.SourceTLS": "verify", "Server.SourceCA": str(certificates.ca)}
    return of_server | {"Server.LoginCert": cert, "Server.LoginKey": key}


NEEDED = {"Server.AuthSecret": "s", "Server.Login": "l"}


@pytest.mark.parametrize(
    ("change", "what"),
    [
        ({"Server.LoginKey": ""}, "only one of LoginCert and LoginKey"),
        ({"Server.SourceTLS": "prefer"}, "no effect with SourceTLS = prefer"),
        ({"Server.LoginCert": "/nowhere/cert.pem"}, "cannot read /nowhere/cert.pem"),
    ],
)
def test_what_is_set_of_a_certificate_has_to_fit(settings: dict[str, str], change: dict[str, str], what: str) -> None:
    assert load(None, {}, NEEDED | settings)[0].server.login_cert == settings["Server.LoginCert"]
    with pytest.raises(RelayError, match=what) as refused:
        load(None, {}, NEEDED | settings | change)
    assert refused.value.code is ErrorCode.CONFIG


def test_a_key_that_is_not_of_the_certificate_is_refused_at_the_start(
    settings: dict[str, str], certificates: LoginCertificates, tmp_path: Path
) -> None:
    key = serialization.load_pem_private_key(Path(certificates.of("right")[1]).read_bytes(), None)
    locked = tmp_path / "locked.key"
    locked.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.BestAvailableEncryption(b"x")
        )
    )
    check_usable(load(None, {}, NEEDED | settings)[0])
    wrong = {certificates.of("foreign")[1]: "KEY_VALUES_MISMATCH", str(locked): "passphrase", __file__: "PEM"}
    for file, what in wrong.items():
        with pytest.raises(RelayError, match=what) as refused:
            check_usable(load(None, {}, NEEDED | settings | {"Server.LoginKey": file})[0])
        assert refused.value.code is ErrorCode.CONFIG and "LoginKey" in refused.value.hint


@pytest.mark.parametrize("kind", ["mariadb118"])
def test_the_certificate_and_a_command_for_each_host_outlive_a_failover(
    kind: str, certificates: LoginCertificates, settings: dict[str, str], make_reader: Callable[..., Reader],
    tmp_path: Path,
) -> None:  # fmt: skip
    for host in HOSTS:
        (tmp_path / host).write_text("p\n")
    with pair_of(kind, *certificates.options) as (first, second):
        require(first, "certified", "SUBJECT '/CN=relay'")
        first.execute("CREATE DATABASE d", "CREATE TABLE d.t (id INT PRIMARY KEY)")
        of_hosts = {"Server.IPAddr": ", ".join(HOSTS), "Server.Login": "certified", "Server.Password": "",
                    "Server.PasswordCommand": f"cat {tmp_path}/{{host}}"}  # fmt: skip
        running = make_reader(first, settings | of_hosts).streaming()
        first.execute("INSERT INTO d.t VALUES (1), (2)")
        running.until(lambda: running.count() == 2)
        until(lambda: executed(first).issubset(executed(second)), 30, "the replica does not follow")
        first.kill()
        second.execute("STOP REPLICA" if second.kind.mysql else "STOP SLAVE", "INSERT INTO d.t VALUES (3)")
        running.until(lambda: running.count() == 3, 40)
        assert running.arena.source()["host"] == HOSTS[1]


@pytest.mark.parametrize("kind", ["mariadb118"])
def test_a_certificate_is_taken_up_by_a_reload_and_renewed_without_one(
    own_server: Callable[..., DatabaseServer], kind: str, certificates: LoginCertificates, settings: dict[str, str],
    start_relay: Callable[..., RelayProcess], tmp_path: Path,
) -> None:  # fmt: skip
    server = own_server(kind, *certificates.options)
    server.execute("CREATE DATABASE d", "CREATE TABLE d.t (id INT PRIMARY KEY)")
    cert, key = tmp_path / "cert", tmp_path / "key"
    with_tls: dict[str, object] = {"Server.SourceTLS": "required", "Relay.LogFormat": "json"}
    relay = start_relay(server, with_tls)
    before = relay.conf.read_text()

    def put(name: str) -> None:
        for file, made in zip((cert, key), certificates.of(name), strict=True):
            file.write_bytes(Path(made).read_bytes())

    def reload(**lines: Path) -> None:
        text = "".join(f"{name} = {path}\n" for name, path in lines.items())
        relay.conf.write_text(before.replace("[Server]\n", f"[Server]\n{text}"))

    put("right")
    reload(LoginCert=cert, LoginKey=Path(certificates.of("foreign")[1]))
    refused = run_relay("reload", "-c", relay.conf)
    assert refused.returncode == 10 and "KEY_VALUES_MISMATCH" in refused.stderr
    reload(LoginCert=cert, LoginKey=key)
    assert "[Server] LoginCert" in run_relay("reload", "-c", relay.conf).stdout
    server.execute(f"ALTER USER {USER}@'%' IDENTIFIED BY '{PASSWORD}' REQUIRE X509", "INSERT INTO d.t VALUES (1)")
    for name, shown in (("right", ""), ("expired", "it expired at 20"), ("right", "")):
        put(name)
        seen = len(relay.logged("streaming"))
        for row in server.execute(f"SELECT id FROM information_schema.processlist WHERE user = '{USER}'"):
            with suppress(pymysql.err.OperationalError):  # one that has ended meanwhile
                server.execute(f"KILL {row[0]}")
        if shown:
            until(lambda: any(shown in line["cause"] for line in relay.logged("source_lost")))  # noqa: B023
        else:
            until(lambda: len(relay.logged("streaming")) > seen)  # noqa: B023
    until(lambda: relay.stat()["source"]["state"] == "streaming")
    relay.signal(signal.SIGTERM)
    assert relay.wait() == 0
