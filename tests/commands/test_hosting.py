"""`relay check` and managed servers: it knows them by their facts, and its remedies are those of the service.

No managed server is at hand. Amazon RDS is imitated on real servers: a folder named as there, its table and its
procedure. The other services are known by variables that no server lets a test set, so these come from records.
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from examples.dbserver import DatabaseServer, free_port
from relay.commands.check import run
from relay.commands.checks import hosting, settings
from relay.commands.checks.finding import Finding, Level
from relay.commands.checks.hosting import AURORA, AZURE, CLOUD_SQL, OWN_MARIADB, OWN_MYSQL, RDS, Hosting
from relay.config.load import load
from relay.config.tree import Config
from relay.source.connect import Account, connect
from relay.source.facts import query_facts
from tests.support.relay_process import write_conf

SERVICES = [RDS, AURORA, CLOUD_SQL, AZURE]
OWNERS_WAYS = ("SET GLOBAL", "SET PERSIST", "configuration file", "start the server", "--log-bin")
"""What an owner of a server does, and a user of a service cannot."""


def config(**flags: str) -> Config:
    """The defaults, with keys of [Server]."""
    needed = {"Server.Login": "r", "Server.AuthSecret": "s"}
    return load(None, {}, needed | {f"Server.{key}": value for key, value in flags.items()})[0]


def of(findings: list[Finding], subject: str) -> Finding:
    """The one finding about a subject."""
    (found,) = (finding for finding in findings if finding.subject == subject)
    return found


@pytest.mark.parametrize(
    ("host", "variables", "expected"),
    [
        ("10.0.0.1", {"version": "8.0.35", "basedir": "/rdsdbbin/mysql-8.0.35.R1/"}, RDS),
        ("10.0.0.1", {"version": "10.11.6-MariaDB-log", "basedir": "/rdsdbbin/mariadb-10.11.6.R1"}, RDS),
        ("x.cnyq.eu-west-1.rds.amazonaws.com", {"version": "8.0.46", "basedir": "/usr/"}, RDS),
        ("X.CNYQ.RDS.cn-north-1.amazonaws.com.cn", {"version": "8.0.46", "basedir": "/usr/"}, OWN_MYSQL),
        ("X.cnyq.cn-north-1.RDS.amazonaws.com.cn.", {}, RDS),
        (
            "10.0.0.1",
            {"version": "8.0.28", "basedir": "/rdsdbbin/oscar-8.0.mysql_aurora.3.04.0/", "aurora_version": "3.04.0"},
            AURORA,
        ),
        ("127.0.0.1", {"version": "8.0.26-google", "basedir": "/usr/"}, CLOUD_SQL),
        ("127.0.0.1", {"version": "5.7.44-google-log", "basedir": "/usr/"}, CLOUD_SQL),
        ("10.0.0.1", {"version": "8.0.42-azure", "basedir": "/usr/"}, AZURE),
        ("shop.mysql.database.azure.com", {"version": "8.0.35", "basedir": "/usr/"}, AZURE),
        ("shop.mysql.database.azure.com", {}, AZURE),
        ("rds.amazonaws.com.example.org", {"version": "8.0.35", "basedir": "/usr/"}, OWN_MYSQL),
        ("10.0.0.1", {"version": "10.11.18-MariaDB-0+deb12u1-log", "basedir": "/usr"}, OWN_MARIADB),
        ("10.0.0.1", {"version": "9.7.4-2", "basedir": "/usr/"}, OWN_MYSQL),
    ],
)
def test_a_service_is_known_by_what_a_connection_shows(
    host: str, variables: Mapping[str, str], expected: Hosting
) -> None:
    assert hosting.detect(host, variables) is expected


@pytest.mark.parametrize("kind", ["mariadb118", "mysql97"])
@pytest.mark.parametrize("service", SERVICES, ids=[service.name for service in SERVICES])
def test_no_remedy_for_a_setting_is_one_that_only_the_owner_of_a_server_has(
    request: pytest.FixtureRequest, kind: str, service: Hosting
) -> None:
    server: DatabaseServer = request.getfixturevalue(kind)
    with server.connect() as connection:
        variables = settings.read(connection)
    wrong = {
        "log_bin": "OFF",
        "binlog_format": "MIXED",
        "binlog_row_image": "MINIMAL",
        "binlog_row_metadata": "MINIMAL",
        "binlog_checksum": "NONE",
        "binlog_row_value_options": "PARTIAL_JSON",
        "gtid_mode": "OFF",
    }
    found = list(settings.check(config(), variables | wrong, kind != "mysql97", service))
    bad = [finding for finding in found if finding.level is not Level.OK]
    assert {finding.subject for finding in bad} == set(wrong) - ({"gtid_mode"} if kind != "mysql97" else set())
    assert not [str(finding) for finding in bad if any(way in finding.remedy for way in OWNERS_WAYS)]
    for way in (service.filters, service.start_with("log_replica_updates", "ON"), service.expiry):
        assert not any(words in way for words in OWNERS_WAYS)


def test_the_binlog_and_its_age_are_set_in_the_way_of_each_service() -> None:
    assert "backup retention period" in RDS.log_bin
    assert "DB cluster parameter group" in AURORA.log_bin and "endpoint of the writer" in AURORA.log_bin
    assert "--enable-bin-log" in CLOUD_SQL.log_bin
    assert RDS.expiry == AURORA.expiry and "mysql.rds_set_configuration('binlog retention hours', 24)" in RDS.expiry
    assert "86400 or more in the instance's database flags" in CLOUD_SQL.expiry
    assert "86400 or more in the server parameters" in AZURE.expiry


@pytest.mark.parametrize("service", SERVICES, ids=[service.name for service in SERVICES])
def test_a_source_in_a_service_that_nothing_proves_is_a_warning_with_the_services_certificates(
    service: Hosting,
) -> None:
    proof = "set in [Server] SourceTLS = verify"
    unproven = of(list(hosting.service(service, config(), "db", proof)), "TLS to the source")
    assert unproven.level is Level.WARN
    assert unproven.remedy == f"{proof} ({service.tls})" and "CA" in service.tls
    for key, value in (("SourceTLS", "verify"), ("SourceKey", f"sha256:{'0' * 64}")):
        (only,) = hosting.service(service, config(**{key: value}), "db", proof)
        assert (only.subject, only.level) == ("managed service", Level.OK)
    assert len(list(hosting.service(service, config(), "127.0.0.1", proof=""))) == 1


def test_a_host_of_a_service_that_lets_nobody_in_is_reported_with_what_its_user_can_do(
    mysql97: DatabaseServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    host = "shop.mysql.database.azure.com"
    resolve = socket.getaddrinfo

    def here(name: str, *arguments: Any, **options: Any) -> Any:
        return resolve("127.0.0.1" if name == host else name, *arguments, **options)

    monkeypatch.setattr(socket, "getaddrinfo", here)

    def look(**keys: object) -> Finding:
        settings: dict[str, object] = {f"Server.{key}": value for key, value in {"IPAddr": host, **keys}.items()}
        findings = list(run(load(str(write_conf(tmp_path, mysql97, settings)), {}, {})[0]))
        (found,) = (finding for finding in findings if finding.subject.startswith(host))
        return found

    assert look().level is Level.OK
    denied = look(Password="wrong")
    assert ", or CREATE USER" in denied.remedy and denied.remedy.endswith("as the server's administrator")
    assert AZURE.tls in look(SourceTLS="verify").remedy
    assert "Azure Database lets this machine in" in look(Port=free_port()).remedy


@pytest.mark.parametrize("kind", ["mariadb1011", "mysql97"])
def test_on_rds_the_hours_of_the_service_count_and_its_procedure_sets_them(
    own_server: Callable[..., DatabaseServer], kind: str, tmp_path: Path
) -> None:
    base = tmp_path / "rdsdbbin" / "mysql"
    base.mkdir(parents=True)
    server = own_server(kind, f"--basedir={base}")
    tested = load(str(write_conf(tmp_path, server)), {}, {})[0]

    account = Account.at(tested, "127.0.0.1")

    def expiry() -> int | None:
        with connect(account) as connection:
            return query_facts(connection).expiry

    def look() -> Finding:
        findings = list(run(tested))
        assert of(findings, "managed service").text.startswith("Amazon RDS")
        assert not [str(found) for found in findings if any(way in found.remedy for way in OWNERS_WAYS)]
        assert of(findings, "heartbeats").level is Level.OK
        return of(findings, "binlog expiry")

    missing = look()
    assert missing.level is Level.WARN and "SELECT from mysql.rds_configuration" in missing.remedy
    assert expiry() is None
    server.execute(
        "CREATE TABLE mysql.rds_configuration (name VARCHAR(100) PRIMARY KEY, value VARCHAR(100), description TEXT)",
        "INSERT INTO mysql.rds_configuration VALUES ('binlog retention hours', NULL, 'hours')",
        "CREATE PROCEDURE mysql.rds_set_configuration(new_name VARCHAR(30), new_value INT)"
        " UPDATE mysql.rds_configuration SET value = new_value WHERE name = new_name",
    )
    unset = look()
    assert unset.level is Level.WARN and "not set" in unset.text
    assert expiry() is None
    server.execute(unset.remedy.partition(";")[0])
    assert (look().level, look().text) == (Level.OK, "after 24 h (binlog retention hours)")
    server.execute("CALL mysql.rds_set_configuration('binlog retention hours', 2)")
    short = look()
    assert expiry() == 2 * 3600
    assert short.level is Level.WARN and short.text.startswith("after 2 h") and short.remedy == unset.remedy


@pytest.mark.parametrize("kind", ["mariadb1011", "mysql97"])
def test_the_tables_that_a_service_writes_to_by_statements_are_reported(
    own_server: Callable[..., DatabaseServer], kind: str, tmp_path: Path
) -> None:
    base = tmp_path / "rdsdbbin" / "mysql"
    base.mkdir(parents=True)
    server = own_server(kind, f"--basedir={base}")
    tested = load(str(write_conf(tmp_path, server)), {}, {})[0]
    assert "sees none" in of(list(run(tested)), "heartbeats").text
    server.execute(
        "CREATE TABLE mysql.rds_heartbeat2 (id INT PRIMARY KEY)", "CREATE TABLE mysql.ha_health_check (id INT)"
    )
    assert of(list(run(tested)), "heartbeats").text.startswith("mysql.ha_health_check, mysql.rds_heartbeat2; ")


@pytest.mark.parametrize("kind", ["mariadb1011", "mysql97"])
def test_on_rds_the_master_user_grants_what_an_account_lacks(
    own_server: Callable[..., DatabaseServer], kind: str, tmp_path: Path
) -> None:
    base = tmp_path / "rdsdbbin" / "mysql"
    base.mkdir(parents=True)
    server = own_server(kind, f"--basedir={base}")
    server.execute(
        "CREATE USER narrow@'%' IDENTIFIED BY 'pw'", "CREATE TABLE mysql.rds_configuration (name TEXT, value TEXT)"
    )
    path = write_conf(tmp_path, server, {"Server.Login": "narrow", "Server.Password": "pw"})
    findings = list(run(load(str(path), {}, {})[0]))
    lacking = of(findings, "grants")
    assert lacking.level is Level.FAIL and lacking.remedy.endswith("; as the master user")
    assert "command denied" in of(findings, "binlog expiry").text
    # The master user of the service has no SUPER and no ALL PRIVILEGES. What it has, it may grant.
    mine = "REPLICATION SLAVE, REPLICATION CLIENT, SELECT, CREATE USER"
    server.execute("CREATE USER master@'%' IDENTIFIED BY 'pw'", f"GRANT {mine} ON *.* TO master@'%' WITH GRANT OPTION")
    statements = [of(findings, subject).remedy.partition(";")[0] for subject in ("grants", "grants for schema")]
    with server.connect(unix_socket=None, host="127.0.0.1", port=server.port, user="master", password="pw") as master:
        for statement in statements:
            master.cursor().execute(statement)
    again = list(run(load(str(path), {}, {})[0]))
    assert [found for found in again if found.level is Level.FAIL] == []
