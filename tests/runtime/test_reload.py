"""Reloading: a plan from two configurations, and how the supervisor makes all processes work with it."""

from __future__ import annotations

import os
from collections.abc import Collection
from dataclasses import dataclass, field
from pathlib import Path

import msgspec
import pytest

from relay.config.keys import CLIENT_KEYS, KEYS, LIVE, START, Key
from relay.config.load import load
from relay.config.tree import ClientConfig, Config
from relay.errors import ErrorCode, RelayError
from relay.runtime.distributed import MAX_BYTES, Settings
from relay.runtime.process_status import StatusPage
from relay.runtime.reload import PATIENCE, Outcome, Reloads, outcomes, plan

PROCESSES = ["reader", "broker", "monitor", "exporter", "snapshotter", "logger", "server-0"]


def config(**settings: str) -> Config:
    """A configuration in which every process has something to do; `settings` as Relay__Workers="3"."""
    flags = {
        "Server.AuthSecret": "s",
        "Server.Login": "l",
        "MySQL.Login": "m",
        "Logger.Schema": "shop",
        "Lake.Path": "/lake",
    }
    return load(None, {}, flags | {key.replace("__", "."): value for key, value in settings.items()})[0]


@pytest.fixture
def clients(tmp_path: Path) -> Config:
    """A configuration with two clients."""
    file = tmp_path / "relay.conf"
    file.write_text("[Client a]\nSecret = x\n[Client b]\nSecret = y\nTables = shop.*\n")
    return load(str(file), {}, {"Server.AuthSecret": "s", "Server.Login": "l", "Logger.Schema": "shop"})[0]


def test_every_key_says_what_applies_it_and_names_processes_that_there_are() -> None:
    for key in (*KEYS, *CLIENT_KEYS):
        assert key.applies in (LIVE, START) or set(key.processes) <= set(PROCESSES)
        assert bool(key.processes) == (key.applies not in (LIVE, START))
        # Clients are connected to server processes and their queues are the broker's: these never restart for a key.
        assert not {"broker", "monitor", "server-0"} & set(key.processes)


OTHERS = {
    "IPAddr": "db.example", "Port": "3307", "Login": "other", "Password": "p", "Database": "d", "SourceTLS": "verify",
    "SourceCA": __file__, "SourceKey": "first-use", "LoginCert": __file__, "LoginKey": __file__,
    "PasswordToUnverifiedSource": "send", "AuthSecret": "t", "AdminSecret": "a", "AdminFrom": "192.0.2.0/24",
    "ClientsFrom": "192.0.2.0/24", "From": "192.0.2.0/24", "HTTPFrom": "192.0.2.0/24",
    "BindAddress": "127.0.0.1", "ServerPort": "7001", "HTTPAddress": "0.0.0.0", "HTTPPort": "7081",
    "TLSCert": __file__, "TLSKey": __file__,
    "LegacyKeys": "no", "UnlistedClients": "deny", "Host": "db.example", "Path": "/elsewhere", "Schema": "shop, stats",
    "Excludes": "x", "Format": "json", "Tables": "shop.*", "ExcludeTables": "a.b", "ExcludeColumns": "a.b.c",
    "StartPosition": "oldest", "Delivery": "at-most-once", "EventPosition": "sequence", "NullText": "-",
    "TimeZone": "+02:00", "OnUnknown": "skip", "OnPartialImage": "send", "OnAssumedCharset": "stop",
    "OnUnproven": "positional",
    "DataDir": "/data", "User": "daemon", "LogFormat": "json", "Enabled": "yes", "Address": "127.0.0.1",
    "ServiceUser": "never", "Values": "maxscale", "Codec": "deflate",
    "Snapshot": "manual", "OpenTables": "delta", "ClientExpiry": "1d", "KeepFor": "1d",
}  # fmt: skip
"""A value by name of key that is not its default. A new key needs one, unless 77 (48MiB for bytes) is a value of it."""


def other(name: str) -> str:
    """A value that is not the default."""
    if name in OTHERS:
        return OTHERS[name]
    few = {"JournalMaxBytes": "48GiB", "Workers": "7"}
    return few.get(name, "48MiB" if "Bytes" in name or "Memory" in name else "77")


@pytest.mark.parametrize("key", [key for key in KEYS if key.name != "TLS"], ids=lambda key: f"{key.section}.{key.name}")
def test_a_key_that_has_changed_is_applied_as_it_says(key: Key) -> None:
    certificate = {"Server__SourceTLS": "required", "Server__LoginCert": os.__file__, "Server__LoginKey": os.__file__}
    now, wanted = config(**certificate), config(**certificate | {f"{key.section}__{key.name}": other(key.name)})
    assert now != wanted
    found = plan(now, wanted, PROCESSES)
    name = f"[{key.section}] {key.name}"
    waits = key.applies == START
    assert (found.changed, found.waiting) == (([], [name]) if waits else ([name], []))
    assert (found.config, found.restarted) == (now if waits else wanted, set(key.processes))
    assert plan(found.config, wanted, PROCESSES).changed == []


def test_processes_that_there_are_not_are_not_restarted() -> None:
    found = plan(config(), config(Lake__Tables="shop.*", Source__Tables="shop.*"), ["reader", "broker"])
    assert found.restarted == {"reader"}


def test_a_log_begins_and_ends_with_the_relay() -> None:
    without, with_log = config(Logger__Schema=""), config()
    for now, wanted in ((without, with_log), (with_log, without)):
        assert plan(now, wanted, PROCESSES) == (now, [], set(), ["[Logger] Schema"])


def test_an_account_for_schema_queries_that_follows_the_sources_is_no_change_of_its_own() -> None:
    now = config(MySQL__Login="")
    found = plan(now, config(MySQL__Login="", Server__Login="other", Server__IPAddr="db.example"), PROCESSES)
    assert found.changed == ["[Server] IPAddr", "[Server] Login"]
    assert (found.config.schema_account.login, found.config.schema_account.host) == ("other", "db.example")


def test_what_waits_for_a_start_is_told_at_each_reload() -> None:
    now, wanted = config(), config(Relay__Workers="5", Relay__MaxFilters="5")
    first = plan(now, wanted, PROCESSES)
    assert (first.changed, first.waiting) == (["[Relay] MaxFilters"], ["[Relay] Workers"])
    second = plan(first.config, wanted, PROCESSES)
    assert (second.changed, second.waiting) == ([], ["[Relay] Workers"])


def test_clients_are_told_that_came_went_or_changed(clients: Config, tmp_path: Path) -> None:
    (tmp_path / "relay.conf").write_text("[Client b]\nSecret = z\n[Client c]\nSecret = x\n")
    wanted = load(str(tmp_path / "relay.conf"), {}, {"Server.AuthSecret": "s", "Server.Login": "l",
                                                     "Logger.Schema": "shop"})[0]  # fmt: skip
    found = plan(clients, wanted, PROCESSES)
    assert found == (wanted, ["[Client a]", "[Client b]", "[Client c]"], set(), [])


# -- numbered configurations --


def test_a_configuration_is_read_as_it_was_published_with_secrets_of_any_bytes() -> None:
    secret = b"\xff\x00caf\xe9".decode("utf-8", "surrogateescape")
    settings = Settings(config(), 3)
    assert settings.read() == (1, config())
    wanted = config(Server__AuthSecret=secret)
    assert settings.publish(wanted) == settings.number == 2
    number, found = settings.read()
    assert (number, found, found.server.auth_secret) == (2, wanted, secret)
    assert secret not in repr(found)


def test_what_is_too_large_changes_nothing() -> None:
    settings = Settings(config(), 1)
    with pytest.raises(ValueError, match="status page"):
        settings.publish(config(Relay__NullText="x" * MAX_BYTES))
    assert settings.read() == (1, config())


def test_another_process_sees_what_was_published_and_acknowledges_it() -> None:
    settings = Settings(config(), 2)
    settings.publish(config(Relay__MaxFilters="7"))
    pid = os.fork()
    if pid == 0:
        number, found = settings.read()
        settings.acknowledge(1, number if found.relay.max_filters == 7 else 0)
        os._exit(0)
    os.waitpid(pid, 0)
    assert (settings.acknowledged(0), settings.acknowledged(1)) == (0, 2)


# -- reloads one after the other --


@dataclass
class ReloadTarget:
    """Stands for the supervisor's processes: `slow` do not acknowledge."""

    processes: list[str] = field(default_factory=lambda: list(PROCESSES))
    slow: list[str] = field(default_factory=list)
    published: list[Config] = field(default_factory=list)
    restarted: list[str] = field(default_factory=list)
    told: list[str] = field(default_factory=list)

    def publish(self, config: Config) -> int:
        """Keep it."""
        if len(config.relay.null_text) > 100:
            raise ValueError("too large")
        self.published.append(config)
        return len(self.published) + 1

    def restart(self, names: Collection[str]) -> None:
        """Keep them."""
        self.restarted += sorted(names)

    def lagging(self, number: int) -> list[str]:
        """Those that are slow."""
        return list(self.slow)

    def reloading(self) -> None:
        """Keep it."""
        self.told.append("reloading")

    def reloaded(self) -> None:
        """Keep it."""
        self.told.append("reloaded")


@dataclass
class ReloadBench:
    """Reloads with their surroundings; `wanted` is what the next one reads."""

    wanted: Config | RelayError = field(default_factory=config)
    target: ReloadTarget = field(default_factory=ReloadTarget)
    status_page: StatusPage = field(default_factory=lambda: StatusPage(1 << 20))
    lines: list[tuple[str, dict[str, object]]] = field(default_factory=list)

    def __post_init__(self) -> None:
        """They begin with `config()`."""
        self.reloads = Reloads(config(), self.load, self.target, self.status_page, self.log)

    def load(self) -> Config:
        """What is wanted, or what is wrong with it."""
        if isinstance(self.wanted, RelayError):
            raise self.wanted
        return self.wanted

    def log(self, event: str, **fields: object) -> None:
        """Keep the line."""
        self.lines.append((event, fields))

    def outcome(self, request: str) -> Outcome | None:
        """What came of the reload that was asked for so."""
        return outcomes(self.status_page).get(request)


def test_the_outcome_is_told_when_all_processes_work_with_it() -> None:
    bench = ReloadBench(config(Source__Tables="shop.*", Relay__Workers="9"), ReloadTarget(slow=["broker", "server-0"]))
    bench.reloads.request("one")
    bench.reloads.step(100.0)
    bench.reloads.step(101.0)
    assert (bench.outcome("one"), bench.target.told) == (None, ["reloading"])
    bench.target.slow = []
    bench.reloads.step(102.0)
    assert bench.target.told == ["reloading", "reloaded"]
    restarted = ["reader", "snapshotter"]
    assert bench.outcome("one") == Outcome(2, ["[Source] Tables"], restarted, ["[Relay] Workers"], [])
    assert bench.target.restarted == restarted
    assert [event for event, _ in bench.lines] == ["reloaded"]
    assert bench.lines[0][1]["changed"] == "[Source] Tables"


def test_who_does_not_work_with_it_in_time_is_named() -> None:
    bench = ReloadBench(config(Relay__MaxFilters="9"), ReloadTarget(slow=["broker"]))
    bench.reloads.request("one")
    bench.reloads.step(100.0)
    bench.reloads.step(100.0 + PATIENCE - 0.1)
    assert bench.outcome("one") is None
    bench.reloads.step(100.0 + PATIENCE)
    outcome = bench.outcome("one")
    assert outcome is not None
    assert (outcome.changed, outcome.missing) == (["[Relay] MaxFilters"], ["broker"])


@pytest.mark.parametrize(
    ("wanted", "words"),
    [
        (RelayError(ErrorCode.CONFIG, "read config", "AuthSecret is empty", hint="set it"), "AuthSecret is empty"),
        (config(Server__TLS="required", Server__TLSCert=__file__, Server__TLSKey=__file__), "load certificate"),
    ],
)
def test_what_is_not_valid_changes_nothing(wanted: Config | RelayError, words: str) -> None:
    bench = ReloadBench(wanted)
    bench.reloads.request("one")
    bench.reloads.step(100.0)
    outcome = bench.outcome("one")
    assert outcome is not None
    assert (words in outcome.error, bool(outcome.hint), outcome.number) == (True, True, 0)
    assert (bench.target.published, bench.target.restarted) == ([], [])
    assert bench.target.told == ["reloading", "reloaded"]
    assert [event for event, _ in bench.lines] == ["reload_refused"]
    bench.wanted = config(Relay__MaxFilters="9")
    bench.reloads.request("two")
    bench.reloads.step(101.0)
    bench.reloads.step(101.1)
    again = bench.outcome("two")
    assert again is not None and again.changed == ["[Relay] MaxFilters"]


def test_a_reload_that_is_asked_for_while_one_is_under_way_comes_after_it() -> None:
    bench = ReloadBench(config(Relay__MaxFilters="9"), ReloadTarget(slow=["reader"]))
    bench.reloads.request("one")
    bench.reloads.step(100.0)
    bench.wanted = config(Relay__MaxFilters="8")
    bench.reloads.request("two")
    bench.reloads.request("")
    bench.reloads.step(101.0)
    assert len(bench.target.published) == 1
    bench.target.slow = []
    for moment in range(4):
        bench.reloads.step(102.0 + moment)
    one, two = bench.outcome("one"), bench.outcome("two")
    assert one is not None and two is not None
    assert (one.number, two.number, len(bench.target.published)) == (2, 3, 2)
    assert bench.target.published[-1].relay.max_filters == 8


def test_outcomes_of_thousands_of_clients_and_of_many_requests_are_shown_as_far_as_anybody_reads() -> None:
    bench = ReloadBench()
    for number in range(50):
        clients = {f"{'c' * 200}{number}-{each}": ClientConfig("x", [], []) for each in range(2000)}
        bench.wanted = msgspec.structs.replace(config(), clients=clients)
        bench.reloads.request(f"request-{number}")
        bench.reloads.step(float(number))
        bench.reloads.step(float(number))
    newest = bench.outcome("request-49")
    assert newest is not None
    assert (newest.changed[0], newest.changed[-1]) == (f"[Client {'c' * 200}48-0]", "and 3950 more")
    assert bench.outcome("request-0") is None
