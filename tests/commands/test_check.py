"""`relay check` on real servers: correct settings pass, and wrong ones are reported with their remedy."""

from __future__ import annotations

import socket
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

from examples.dbserver import KINDS, DatabaseServer
from relay.commands.check import run
from relay.commands.checks.finding import Finding, Level
from relay.config.load import load
from relay.errors import ExitCode
from tests.support.relay_process import run_relay, write_conf
from tests.support.server_variables import global_variable
from tests.support.source_rows import binlog_end, rows_events

pytestmark = pytest.mark.brands

Look = Callable[..., list[Finding]]


@pytest.fixture
def look(tmp_path: Path) -> Look:
    """Checks a server with settings over the usual ones."""

    def check(server: DatabaseServer, settings: Mapping[str, object] | None = None) -> list[Finding]:
        config, _ = load(str(write_conf(tmp_path, server, settings)), {}, {})
        return list(run(config))

    return check


def of(findings: list[Finding], subject: str) -> Finding:
    """The one finding about a subject."""
    (found,) = (finding for finding in findings if finding.subject == subject)
    return found


@contextmanager
def bare_account(server: DatabaseServer) -> Iterator[dict[str, object]]:
    """A user without any grant, as settings."""
    server.execute("CREATE USER narrow@'%' IDENTIFIED BY 'pw'")
    try:
        yield {"Server.Login": "narrow", "Server.Password": "pw"}
    finally:
        server.execute("DROP USER narrow@'%'")


def test_a_server_that_is_set_up_well_has_no_failure(server: DatabaseServer, look: Look) -> None:
    findings = look(server)
    assert [finding for finding in findings if finding.level is Level.FAIL] == []
    assert of(findings, "binlog_format").text == "ROW"
    assert of(findings, "binlog filters").level is Level.OK
    assert of(findings, "journal growth").level is Level.OK


def test_the_command_prints_a_line_a_finding_and_exits_by_the_worst(server: DatabaseServer, tmp_path: Path) -> None:
    good = run_relay("check", "-c", write_conf(tmp_path, server))
    assert (good.returncode, good.stderr) == (ExitCode.OK, "")
    assert all(line.startswith(("ok ", "warn ")) for line in good.stdout.splitlines())
    bad = run_relay("check", "-c", write_conf(tmp_path, server, {"Server.Password": "wrong"}))
    assert bad.returncode == ExitCode.CHECK_FAILED
    assert "GRANT REPLICATION SLAVE" in bad.stdout
    assert bad.stderr.startswith("relay: check: 1 finding prevents")


@pytest.mark.parametrize(
    ("name", "value", "level"),
    [
        ("binlog_format", "'STATEMENT'", Level.FAIL),
        ("binlog_format", "'MIXED'", Level.FAIL),
        ("binlog_row_image", "'MINIMAL'", Level.FAIL),
        ("binlog_row_metadata", "'MINIMAL'", Level.WARN),
        ("binlog_checksum", "'NONE'", Level.WARN),
    ],
)
def test_a_setting_that_is_wrong_is_named_with_the_statement_that_mends_it(
    server: DatabaseServer, look: Look, name: str, value: str, level: Level
) -> None:
    with global_variable(server, name, value):
        finding = of(look(server), name)
    assert finding.level is level
    assert finding.remedy.startswith(f"SET GLOBAL {name} = ")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("option", ["binlog-ignore-db=hidden", "binlog-do-db=shown"])
def test_filters_that_keep_schemas_from_the_binlog_are_warned_of(
    own_server: Callable[..., DatabaseServer], look: Look, kind: str, option: str
) -> None:
    server = own_server(kind, f"--{option}")
    finding = of(look(server), "binlog filters")
    assert finding.level is Level.WARN
    name, _, schema = option.partition("=")
    assert f"{name.replace('-', '_')} = {schema}" in finding.text and "names of columns" in finding.text
    with global_variable(server, "binlog_row_metadata", "'FULL'"):
        assert "names of columns" not in of(look(server), "binlog filters").text


@pytest.mark.parametrize("kind", KINDS)
def test_a_replica_that_keeps_what_it_replicates_from_its_binlog_is_warned_of(
    own_server: Callable[..., DatabaseServer], look: Look, kind: str
) -> None:
    option = "--skip-log-slave-updates" if kind.startswith("mariadb") else "--skip-log-replica-updates"
    server = own_server(kind, option)
    name = "log_slave_updates" if kind.startswith("mariadb") else "log_replica_updates"
    assert not [finding for finding in look(server) if finding.subject == name]
    server.execute(
        "CHANGE MASTER TO MASTER_HOST = '127.0.0.1', MASTER_PORT = 1"
        if kind.startswith("mariadb")
        else "CHANGE REPLICATION SOURCE TO SOURCE_HOST = '127.0.0.1', SOURCE_PORT = 1"
    )
    assert of(look(server), name).level is Level.WARN


def test_full_metadata_makes_grants_for_schema_needless(
    server: DatabaseServer, look: Look, full_metadata: None
) -> None:
    findings = look(server)
    assert of(findings, "binlog_row_metadata").level is Level.OK
    assert "not needed" in of(findings, "grants for schema").text


def test_an_account_without_rights_is_told_the_least_grants(server: DatabaseServer, look: Look) -> None:
    with bare_account(server) as settings:
        findings = look(server, settings)
    finding = of(findings, "grants")
    assert finding.level is Level.FAIL
    assert "REPLICATION SLAVE" in finding.text
    assert finding.remedy.endswith("ON *.* TO 'narrow'@'%';")
    assert of(findings, "binlog").level is Level.FAIL
    assert of(findings, "grants for schema").level is Level.FAIL


def test_the_grants_that_are_printed_are_enough(server: DatabaseServer, look: Look) -> None:
    with bare_account(server) as settings:
        findings = look(server, settings)
        server.execute(of(findings, "grants").remedy.rstrip(";"))
        server.execute(of(findings, "grants for schema").remedy.partition(";")[0])
        again = look(server, settings)
    assert [finding for finding in again if finding.level is Level.FAIL] == []


def test_a_short_expiry_is_a_warning(mysql97: DatabaseServer, look: Look) -> None:
    with global_variable(mysql97, "binlog_expire_logs_seconds", "3600"):
        assert of(look(mysql97), "binlog expiry").level is Level.WARN


def test_a_limit_of_the_binlogs_size_is_a_warning(mariadb118: DatabaseServer, look: Look) -> None:
    assert not [finding for finding in look(mariadb118) if finding.subject == "binlog size limit"]
    with global_variable(mariadb118, "max_binlog_total_size", str(1 << 40)):
        finding = of(look(mariadb118), "binlog size limit")
    assert finding.level is Level.WARN
    assert str(1 << 40) in finding.text


def test_differences_of_json_need_the_whole_row(mysql97: DatabaseServer, look: Look) -> None:
    with global_variable(mysql97, "binlog_row_value_options", "'PARTIAL_JSON'"):
        assert of(look(mysql97), "binlog_row_value_options").level is Level.OK
        with global_variable(mysql97, "binlog_row_image", "'NOBLOB'"):
            finding = of(look(mysql97), "binlog_row_value_options")
            assert finding.level is Level.FAIL
            assert finding.remedy.startswith("SET GLOBAL binlog_row_value_options = ''")


def test_a_server_id_that_is_the_sources_own_is_a_failure(server: DatabaseServer, look: Look) -> None:
    assert of(look(server, {"Source.ServerId": server.port}), "server_id").level is Level.FAIL
    assert of(look(server, {"Source.ServerId": 4_000_000_001}), "server_id").level is Level.OK


@pytest.mark.parametrize("kind", ["mariadb1011", "mysql97"])
def test_a_server_without_binlog_is_a_failure_with_its_remedy(
    own_server: Callable[..., DatabaseServer], look: Look, kind: str
) -> None:
    findings = look(own_server(kind, "--skip-log-bin"))
    assert of(findings, "log_bin").level is Level.FAIL


def test_another_time_zone_than_the_clients_is_a_warning(mariadb1011: DatabaseServer, look: Look) -> None:
    with global_variable(mariadb1011, "time_zone", "'-05:30'"):
        assert "-05:30" in of(look(mariadb1011), "time zone").text
        assert of(look(mariadb1011), "time zone").level is Level.WARN
        assert of(look(mariadb1011, {"Relay.TimeZone": "-05:30"}), "time zone").level is Level.OK


def test_an_account_for_schema_queries_is_tried_too(mariadb1011: DatabaseServer, look: Look) -> None:
    findings = look(mariadb1011, {"MySQL.Login": "nobody", "MySQL.Password": "x"})
    assert findings[-1].level is Level.WARN
    assert "nobody" in findings[-1].text


def test_ports_in_use_and_folders_that_cannot_be_made_are_failures(mariadb1011: DatabaseServer, look: Look) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        findings = look(mariadb1011, {"Server.ServerPort": port, "Relay.DataDir": "/proc/1/nowhere"})
    assert of(findings, "ServerPort").level is Level.FAIL
    assert of(findings, "DataDir").level is Level.FAIL


def test_what_every_user_of_the_machine_may_read_is_a_warning(
    mariadb1011: DatabaseServer, look: Look, tmp_path: Path
) -> None:
    data = tmp_path / "open"
    data.mkdir()
    (data / "cdcusers").touch()
    settings = {"Relay.DataDir": data, "CDC.Enabled": "yes"}
    for mode, count in ((0o755, 2), (0o750, 0)):
        data.chmod(mode)
        (data / "cdcusers").chmod(mode)
        findings = [each for each in look(mariadb1011, settings) if each.subject in ("DataDir mode", "CDC users")]
        assert [(each.level, each.remedy[:11]) for each in findings] == [(Level.WARN, "chmod o-rwx")] * count


def test_a_journal_that_the_disk_cannot_hold_is_a_warning(mariadb1011: DatabaseServer, look: Look) -> None:
    assert of(look(mariadb1011, {"Relay.JournalMaxBytes": "900TiB"}), "disk space").level is Level.WARN


def test_foreign_keys_whose_changes_are_not_logged_are_named(server: DatabaseServer, db: str, look: Look) -> None:
    server.execute(
        f"CREATE TABLE {db}.p (id INT PRIMARY KEY)",
        f"CREATE TABLE {db}.c (id INT PRIMARY KEY, p INT,"
        f" CONSTRAINT {db}_fk FOREIGN KEY (p) REFERENCES {db}.p (id) ON DELETE CASCADE)",
        f"INSERT INTO {db}.p VALUES (1)",
        f"INSERT INTO {db}.c VALUES (1, 1)",
    )
    start = binlog_end(server)
    server.execute(f"DELETE FROM {db}.p")
    logged = {event.table.table for event in rows_events(server, start) if event.table.schema == db}
    found = of(look(server), "foreign keys")
    assert "p" in logged
    assert found.level is (Level.OK if "c" in logged else Level.WARN)
    assert found.level is Level.OK or f"{db}.c {db}_fk" in found.text


def test_a_lake_that_the_export_cannot_use_is_named(
    mariadb1011: DatabaseServer, look: Look, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert not [finding for finding in look(mariadb1011) if finding.subject == "lake"]
    assert of(look(mariadb1011, {"Lake.Path": tmp_path / "lake"}), "lake").level is Level.OK
    (tmp_path / "file").write_text("")
    assert of(look(mariadb1011, {"Lake.Path": tmp_path / "file" / "lake"}), "lake").level is Level.FAIL
    assert "ftp" in of(look(mariadb1011, {"Lake.Path": "ftp://host/lake"}), "lake").text
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    monkeypatch.delitem(sys.modules, "relay.lake.arrow", raising=False)
    missing = of(look(mariadb1011, {"Lake.Path": tmp_path / "lake"}), "lake")
    assert missing.level is Level.FAIL and missing.remedy == "pip install 'binlog-relay[lake]'"


@pytest.mark.parametrize(
    ("settings", "warned"),
    [
        ({"Server.BindAddress": "0.0.0.0"}, True),
        ({"Server.BindAddress": "::"}, True),
        ({"Server.BindAddress": "127.0.0.1"}, False),
    ],
)
def test_a_port_that_other_machines_reach_without_tls_is_a_warning(
    mariadb1011: DatabaseServer, look: Look, settings: dict[str, str], warned: bool
) -> None:
    found = [finding for finding in look(mariadb1011, settings) if finding.subject == "TLS for clients"]
    assert [finding.level for finding in found] == [Level.WARN] * warned
    assert all("open to other machines without TLS" in finding.text for finding in found)
