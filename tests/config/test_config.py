"""The configuration is read as by the original, with extensions; errors name their position, and nothing is guessed."""

from __future__ import annotations

import re
from collections.abc import Mapping
from itertools import groupby
from pathlib import Path

import msgspec
import pytest

from relay.config.keys import CLIENT_KEYS, KEYS, Key
from relay.config.load import ConfigWarning, find, load
from relay.config.tree import Config
from relay.errors import ErrorCode, ExitCode, RelayError
from tests.support import ROOT

NEEDED = "[Server]\nLogin = relay\nAuthSecret = s\n"
FROM_README = """[MySQL]
# MySQL access for schema
host=localhost
login=root
password=mypassword
database=mydatabase

[Server]
# Mysql configuration for binlog (replication client)
IPAddr=127.0.0.1
Login=repl
Password=50%off
Database=mydatabase
AuthSecret=Freedelity
AdminSecret=AdminPassword
ServerPort=6002
HTTPAddress=0.0.0.0
HTTPPort=6081

[Logger]
Schema=mydatabase
Excludes=table_to_exclude1,table_to_exclude2
"""


@pytest.fixture
def read(tmp_path: Path) -> Reader:
    return Reader(tmp_path / "relay.conf")


class Reader:
    """Writes a file and loads it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.warnings: list[ConfigWarning] = []

    def __call__(
        self, content: str | bytes, environment: Mapping[str, str] | None = None, flags: Mapping[str, str] | None = None
    ) -> Config:
        self.path.write_bytes(content if isinstance(content, bytes) else content.encode())
        self.path.chmod(0o600)
        config, self.warnings = load(str(self.path), environment or {}, flags or {})
        return config

    def error(
        self, content: str, environment: Mapping[str, str] | None = None, flags: Mapping[str, str] | None = None
    ) -> RelayError:
        with pytest.raises(RelayError) as caught:
            self(content, environment, flags)
        assert caught.value.code is ErrorCode.CONFIG
        assert caught.value.exit_code is ExitCode.CONFIG
        return caught.value


def test_the_file_of_the_originals_readme_is_read_as_it_stands(read: Reader) -> None:
    config = read(FROM_README)
    assert config.server.ip_addr == ["127.0.0.1"]
    assert (config.server.login, config.server.password) == ("repl", "50%off")
    assert (config.server.server_port, config.server.http_port) == (6002, 6081)
    assert (config.server.auth_secret, config.server.admin_secret) == ("Freedelity", "AdminPassword")
    assert config.server.database == "mydatabase"
    assert msgspec.structs.astuple(config.schema_account) == ("root", "mypassword", "localhost", 3306)
    assert config.logger.schema == ["mydatabase"]
    assert config.logger.excludes == ["table_to_exclude1", "table_to_exclude2"]
    assert config.logger.path == "/var/log/replicaterelay/"
    assert [str(warning) for warning in read.warnings] == [
        f"{read.path}:6: [MySQL] database has no effect here",
    ]


@pytest.mark.parametrize(
    ("written", "understood"),
    [
        ("abc  // comment", "abc  // comment"),
        ('  "  quoted "  ', "  quoted "),
        ('"', '"'),
        ('""x""', '"x"'),
        ("a=b=c", "a=b=c"),
        ("a;b#c", "a;b#c"),
        ("%(Login)s ${x}", "%(Login)s ${x}"),
        ("é", "é"),
    ],
)
def test_texts_are_read_as_tinifile_reads_them(read: Reader, written: str, understood: str) -> None:
    assert read(f"[Server]\nLogin=relay\nAuthSecret={written}\n").server.auth_secret == understood


def test_secrets_keep_bytes_that_are_not_utf8(read: Reader) -> None:
    secret = read(b"[Server]\r\nLogin=relay\r\nAuthSecret=\xff\xe9\r\n").server.auth_secret
    assert secret.encode("utf-8", "surrogateescape") == b"\xff\xe9"


def test_sections_and_keys_are_read_in_any_case_behind_a_byte_order_mark(read: Reader) -> None:
    config = read("\ufeff[SERVER]\nLOGIN=relay\nauthsecret=s\nDatabaseName = d\nserverport = 7001 // Port\n")
    assert (config.server.login, config.server.database, config.server.server_port) == ("relay", "d", 7001)


def test_the_first_of_two_settings_counts_and_the_second_is_a_warning(read: Reader) -> None:
    config = read(NEEDED + "Database=a\nDatabaseName=b\n[server]\nPort=3307\nPort=3308\n")
    assert (config.server.database, config.server.port) == ("a", 3307)
    assert [warning.position for warning in read.warnings] == [f"{read.path}:5", f"{read.path}:8"]


def test_a_line_without_equals_sign_is_a_warning(read: Reader) -> None:
    read(NEEDED + "ServerPort: 7001\n")
    assert [warning.position for warning in read.warnings] == [f"{read.path}:4"]


def test_environment_overrides_file_and_flags_override_environment(read: Reader) -> None:
    content = NEEDED + "Port=1\nServerPort=2\nHTTPPort=3\n"
    environment = {"RELAY_SERVER_SERVERPORT": "20", "RELAY_SERVER_HTTPPORT": "30", "RELAY_TEST_SKIP": "x", "HOME": "/"}
    server = read(content, environment, {"Server.HTTPPort": "300"}).server
    assert (server.port, server.server_port, server.http_port) == (1, 20, 300)


def test_secrets_can_come_from_files_beside_the_configuration(read: Reader) -> None:
    (read.path.parent / "secret").write_text("from a file\nsecond line\n")
    config = read("[Server]\nLogin=relay\nAuthSecretFile = secret\n[Client a]\nSecretFile = secret\n")
    assert config.server.auth_secret == config.clients["a"].secret == "from a file"
    overridden = read("[Server]\nLogin=relay\nAuthSecretFile = secret\n", {"RELAY_SERVER_AUTHSECRET": "e"})
    assert overridden.server.auth_secret == "e"


def test_a_missing_secret_file_is_an_error_with_its_line(read: Reader) -> None:
    assert read.error("[Server]\nLogin=relay\nAuthSecretFile = nowhere\n").position == f"{read.path}:3"


def test_secrets_do_not_show_in_representations(read: Reader) -> None:
    config = read(FROM_README + "[Client c]\nSecret = own-secret\n")
    shown = repr(config)
    assert not any(secret in shown for secret in ("Freedelity", "AdminPassword", "50%off", "mypassword", "own-secret"))


def test_a_nul_character_is_an_error_that_names_its_line(read: Reader) -> None:
    error = read.error(NEEDED + "TLSCert = /etc/relay\0.pem\n")
    assert error.cause == "the line has a NUL character"
    assert error.position.endswith(":4")


def test_relative_paths_start_at_the_folder_of_the_file(read: Reader, tmp_path: Path) -> None:
    assert read(NEEDED + "[Relay]\nDataDir = state\n[Logger]\nPath = log/\n").relay.data_dir == str(tmp_path / "state")
    assert read(NEEDED + "[Logger]\nPath = log/\n").logger.path == f"{tmp_path}/log/"


def test_the_lakes_path_is_a_folder_or_a_url_that_is_joined_to_nothing(read: Reader, tmp_path: Path) -> None:
    assert read(NEEDED).lake.path == ""
    assert read(NEEDED + "[Lake]\nPath =\n").lake.path == ""
    assert read(NEEDED + "[Lake]\nPath = lake/\n").lake.path == str(tmp_path / "lake")
    assert read(NEEDED + "[Lake]\nPath = s3://bucket/some/lake/\n").lake.path == "s3://bucket/some/lake"


def test_listed_clients_have_secrets_and_tables_of_their_own(read: Reader) -> None:
    config = read(NEEDED + "[Client Cache A]\nSecret = x\nTables = shop.*, *.log\n[client b]\nSecret = y\n")
    assert {name: (client.secret, client.tables) for name, client in config.clients.items()} == {
        "Cache A": ("x", ["shop.*", "*.log"]),
        "b": ("y", ["*.*"]),
    }


@pytest.mark.parametrize(
    ("name", "written", "understood"),
    [
        ("SegmentBytes", "65536", 65536),
        ("SegmentBytes", "1.5 MiB // half", 3 * 2**19),
        ("SegmentBytes", "2MB", 2_000_000),
        ("SegmentBytes", "", 256 * 2**20),
        ("JournalKeepAge", "90m", 5400),
        ("JournalKeepAge", "2d", 172800),
        ("ClientExpiry", "Never", 0),
        ("Delivery", "At-Most-Once", "at-most-once"),
        ("NullText", "", ""),
        ("TimeZone", "-05:30", "-05:30"),
        ("TimeZone", "Europe/Brussels", "Europe/Brussels"),
    ],
)
def test_values_are_read_with_their_units(read: Reader, name: str, written: str, understood: object) -> None:
    config = read(NEEDED + f"[Relay]\n{name} = {written}\n")
    attribute = next(key.attribute for key in KEYS if (key.section, key.name) == ("Relay", name))
    assert getattr(config.relay, attribute) == understood


@pytest.mark.parametrize(
    "position",
    [
        "newest",
        "oldest",
        "binlog.000001:4",
        "0-1-100,1-2-3",
        "3e11fa47-71ca-11e1-9e33-c80aa9429562:1-5",
        "3e11fa47-71ca-11e1-9e33-c80aa9429562:5",
        "3e11fa47-71ca-11e1-9e33-c80aa9429562:1-3:11:47-49,4e11fa47-71ca-11e1-9e33-c80aa9429562:tag:1",
    ],
)
def test_start_positions_of_every_kind_are_understood(read: Reader, position: str) -> None:
    assert read(NEEDED + f"[Source]\nStartPosition = {position}\n").source.start_position == position


@pytest.mark.parametrize(
    "line",
    [
        "[Server]\nServerPort = 65536",
        "[Server]\nServerPort = -1",
        "[Server]\nServerPort = 6001x",
        "[Server]\nServerPort = ٣",
        "[Server]\nLegacyKeys = maybe",
        "[Server]\nTLS = perhaps",
        "[Server]\nBindAddress = somewhere",
        "[Server]\nAdminFrom = 10.0.0.0/33",
        "[Server]\nMaxConnections = 0",
        "[Source]\nTables = shop",
        "[Source]\nTables = shop.",
        "[Source]\nExcludeColumns = shop.users",
        "[Source]\nServerId = 4294967296",
        "[Source]\nStartPosition = binlog.000001:3",
        "[Source]\nStartPosition = yesterday",
        "[Relay]\nTimeZone = Mars/Olympus",
        "[Relay]\nTimeZone = /etc/passwd",
        "[Relay]\nTimeZone = +25:00",
        "[Relay]\nSegmentBytes = 1QiB",
        "[Relay]\nSegmentBytes = -1",
        "[Relay]\nJournalKeepAge = soon",
        "[Relay]\nHeartbeat = 10s",
        "[Lake]\nPath = s3://",
        "[Lake]\nTables = shop",
        "[Lake]\nRollSeconds = 0",
        "[Lake]\nSnapshot = sometimes",
        "[Servr]\nPort = 1",
        "[Server",
    ],
)
def test_a_wrong_value_is_an_error_at_its_line(read: Reader, line: str) -> None:
    error = read.error(NEEDED + line + "\n")
    assert error.position in (f"{read.path}:4", f"{read.path}:5")
    assert error.hint


@pytest.mark.parametrize(
    ("content", "hint"),
    [
        ("[Server]\nSeverPort = 1", "did you mean ServerPort?"),
        ("[Relay]\nOnUnknwon = stop", "did you mean OnUnknown?"),
        ("[Server]\nDataDir = x", "it belongs to [Relay] DataDir"),
        ("[Servr]\nPort = 1", "did you mean Server?"),
        ("[Client x]\nSecrt = 1", "did you mean Secret?"),
    ],
)
def test_an_unknown_key_is_an_error_that_names_the_nearest(read: Reader, content: str, hint: str) -> None:
    assert read.error(content).hint == hint


def test_unknown_variables_of_known_sections_and_unknown_flags_are_errors(read: Reader) -> None:
    assert read.error(NEEDED, {"RELAY_SERVER_SEVERPORT": "1"}).position == "environment RELAY_SERVER_SEVERPORT"
    assert read.error(NEEDED, {}, {"Server.SeverPort": "1"}).position == "flag Server.SeverPort"
    assert read.error(NEEDED, {}, {"nothing": "1"}).position == "flag nothing"


@pytest.mark.parametrize(
    ("content", "word"),
    [
        ("[Server]\nLogin=relay\n", "AuthSecret"),
        ("[Server]\nAuthSecret=s\n", "Login"),
        (NEEDED + "IPAddr=\n", "IPAddr"),
        (NEEDED + "TLS=required\n", "certificate"),
        (NEEDED + "SourceCA=/nowhere/ca.pem\n", "/nowhere/ca.pem"),
        (NEEDED + "HTTPPort=6001\n", "6001"),
        (NEEDED + "[Relay]\nJournalMaxBytes=512MiB\n", "JournalKeepBytes"),
        (NEEDED + "[Relay]\nSegmentBytes=16GiB\n", "segments"),
        (NEEDED + "[Client x]\nTables=a.b\n", "[Client x] Secret"),
        (NEEDED + "[Client]\nTables=a.b\n", "name"),
    ],
)
def test_what_does_not_go_together_is_an_error(read: Reader, content: str, word: str) -> None:
    assert word in read.error(content).cause


def test_equal_secrets_of_clients_and_admins_are_a_warning(read: Reader) -> None:
    read(NEEDED + "AdminSecret=s\n")
    assert "every client may send admin commands" in read.warnings[0].text


def test_secrets_that_others_can_see_are_warnings(read: Reader, tmp_path: Path) -> None:
    own = tmp_path / "own"
    own.write_text("x")
    own.chmod(0o640)
    content = NEEDED + f"PasswordFile = {own}\n"
    read(content)
    assert read.warnings == []
    own.chmod(0o644)
    read(content, flags={"Server.AdminSecret": "y", "Server.HTTPPort": "1"})
    assert [warning.position for warning in read.warnings] == ["flag Server.AdminSecret", str(own)]
    read.path.chmod(0o604)
    _, warnings = load(str(read.path), {"RELAY_SERVER_ADMINSECRET": "y"}, {})
    assert [warning.position for warning in warnings] == [str(read.path), str(own)]
    read.path.write_text("[Server]\nLogin = relay\nAdminSecret =\n")
    assert load(str(read.path), {"RELAY_SERVER_AUTHSECRET": "s"}, {})[1] == [], "there is none in it"


def test_a_missing_file_is_an_error_that_names_it(tmp_path: Path) -> None:
    with pytest.raises(RelayError, match=r"none\.conf: No such file"):
        load(str(tmp_path / "none.conf"), {}, {})


def test_the_originals_file_name_is_found_in_the_working_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "replicaterelay.conf").write_text(NEEDED)
    assert find(None) == "replicaterelay.conf"
    assert find("other.conf") == "other.conf"


def _rows(keys: tuple[Key, ...]) -> list[str]:
    return [
        "| "
        + ", ".join(f"`{name}`" for name in (key.name, *key.aliases, *(key.name + form for form in key.forms)))
        + f" | {f'`{key.default}`' if key.default else ''} | {key.applies} | {key.doc} |"
        for key in keys
    ]


def test_the_page_lists_every_key_with_its_default_and_nothing_else() -> None:
    lines = (ROOT / "docs" / "config.md").read_text().splitlines()
    found = [line for line in lines if line.startswith(("## ", "| `"))]
    wanted: list[str] = []
    for section, keys in groupby((*KEYS, *CLIENT_KEYS), key=lambda key: key.section):
        wanted += [f"## [{section}]", *_rows(tuple(keys))]
    assert found == wanted


def test_the_sample_holds_every_key_with_its_default_and_loads_once_its_blanks_are_filled() -> None:
    path = ROOT / "conf" / "relay.conf"
    found = re.findall(r"^;?(?:\[([^]]+)\]|(\w+) =(.*))$", path.read_text(), re.MULTILINE)
    wanted: list[tuple[str, str, str]] = []
    for section, keys in groupby((*KEYS, *CLIENT_KEYS), key=lambda key: key.section):
        wanted.append((section, "", ""))
        wanted += [
            ("", key.name, "relay" if key.name == "Login" and section == "Server" else key.default) for key in keys
        ]
    assert [(section, name, value.strip()) for section, name, value in found] == wanted
    config, warnings = load(str(path), {"RELAY_SERVER_AUTHSECRET": "s"}, {})
    assert config == load(None, {}, {"Server.AuthSecret": "s", "Server.Login": "relay"})[0]
    assert warnings == []


def test_the_tree_has_one_attribute_for_every_key_of_the_table() -> None:
    config, _ = load(None, {}, {"Server.AuthSecret": "s", "Server.Login": "relay"})
    sections = {
        "Server": config.server,
        "Logger": config.logger,
        "Source": config.source,
        "Relay": config.relay,
        "Lake": config.lake,
        "CDC": config.cdc,
    }
    for section, struct in sections.items():
        assert set(struct.__struct_fields__) == {key.attribute for key in KEYS if key.section == section}


def test_localhost_is_an_address_to_listen_on(read: Reader) -> None:
    config = read("[Server]\nLogin=relay\nAuthSecret=s\nHTTPAddress = localhost\nBindAddress = localhost\n")
    assert (config.server.http_address, config.server.bind_address) == ("127.0.0.1", "127.0.0.1")
