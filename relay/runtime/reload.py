"""Reloads of the configuration: which changes take effect, in which processes, and when all processes have them.

Every key defines what applies it (`Key.applies`). A key that only a start applies keeps its value in all processes, and
is reported. `Reloads` is the supervisor's part: it publishes the configuration, restarts the affected processes, and
waits until all processes work with it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Final, NamedTuple, Protocol

import msgspec

from relay.base.errors import ErrorCode, RelayError
from relay.base.log import Log
from relay.config.keys import KEYS, START, Key
from relay.config.tree import Config
from relay.net import tls
from relay.runtime.process_status import StatusPage
from relay.source import tls as source_tls

PATIENCE: Final = 10.0
"""Seconds after which a reload names the processes that do not work with the new configuration."""

_MAX_OUTCOMES: Final = 16  # a server that waits for one looks every second
_MAX_NAMES: Final = 50  # keys and clients in an outcome
_MAX_NAME: Final = 300  # characters of each name


class Plan(NamedTuple):
    """What a reload would do.

    `config` is the configuration for the relay from now on. `changed` takes effect, for which the processes in
    `restarted` are restarted. `waiting` needs a start of the relay. Keys are named `[Section] Key`, clients
    `[Client NAME]`.
    """

    config: Config
    changed: list[str]
    restarted: set[str]
    waiting: list[str]


def plan(now: Config, wanted: Config, processes: Collection[str]) -> Plan:
    """Compute what of `wanted` a relay with configuration `now` and these processes can apply. Pure function."""
    changed, waiting = [], []
    restarted: set[str] = set()
    config = now
    for key in KEYS:
        if not _differs(key, now, wanted):
            continue
        name = f"[{key.section}] {key.name}"
        if _needs_start(key, now, wanted):
            waiting.append(name)
            continue
        changed.append(name)
        restarted.update(key.processes)
        config = _with(config, key, wanted)
    clients = now.clients | wanted.clients
    changed += [f"[Client {name}]" for name in clients if now.clients.get(name) != wanted.clients.get(name)]
    config = msgspec.structs.replace(config, clients=wanted.clients)
    return Plan(config, changed, restarted & set(processes), waiting)


def check_usable(config: Config) -> None:
    """Raise `RelayError` (config) for values that no running process can use, such as an unreadable key file."""
    tls.server_context(config.cdc.tls if config.cdc.enabled else "off", config.server)
    server = config.server
    tls.server_context(server.tls, server)
    source_tls.context(server.source_tls, server.source_ca, server.login_cert, server.login_key)


def _struct(key: Key) -> str:
    """Return the attribute of `Config` with the values of the key's section."""
    return "schema_account" if key.section == "MySQL" else key.section.lower()


def _differs(key: Key, now: Config, wanted: Config) -> bool:
    """Whether the key's value changes. A key of [MySQL] that only follows its key of [Server] does not count."""
    before, after = (getattr(getattr(config, _struct(key)), key.attribute) for config in (now, wanted))
    if key.section == "MySQL" and before != after:
        followed = {"host": "ip_addr"}.get(key.attribute, key.attribute)
        return bool(getattr(now.server, followed) == getattr(wanted.server, followed))
    return bool(before != after)


def _needs_start(key: Key, now: Config, wanted: Config) -> bool:
    """Whether only a start applies the key; also true if the key would add or remove a process."""
    logs = key.section == "Logger" and bool(now.logger.schema) != bool(wanted.logger.schema)
    return key.applies == START or (logs and key.attribute == "schema")


def _with(config: Config, key: Key, wanted: Config) -> Config:
    """`config` with the value of that key in `wanted`, and with the values derived from it."""
    value = getattr(getattr(wanted, _struct(key)), key.attribute)
    changed = msgspec.structs.replace(getattr(config, _struct(key)), **{key.attribute: value})
    replaced: Config = msgspec.structs.replace(config, **{_struct(key): changed})
    if "snapshotter" in key.processes and key.section in ("Server", "MySQL"):
        return msgspec.structs.replace(replaced, schema_account=wanted.schema_account)
    return replaced


class Outcome(msgspec.Struct):
    """The outcome of a reload: as in `Plan`, or `error` and `hint` if nothing has changed.

    `missing` names the processes that did not work with configuration `number` within `PATIENCE`.
    """

    number: int = 0
    changed: list[str] = []
    restarted: list[str] = []
    waiting: list[str] = []
    missing: list[str] = []
    error: str = ""
    hint: str = ""


def outcomes(status_page: StatusPage) -> dict[str, Outcome]:
    """Return the outcomes of the last reloads, by request."""
    return status_page.decode(dict[str, Outcome])


class ReloadTarget(Protocol):
    """The parts of the supervisor that a reload uses."""

    @property
    def processes(self) -> list[str]:
        """The names of all processes."""

    def publish(self, config: Config) -> int:
        """Publish the configuration to all current and future processes, and return its number.

        Raises `ValueError` if it is too large.
        """

    def restart(self, names: Collection[str]) -> None:
        """End these processes so that successors start."""

    def lagging(self, number: int) -> list[str]:
        """Return the processes that do not work with configuration `number` yet."""

    def reloading(self) -> None:
        """Note that a reload begins."""

    def reloaded(self) -> None:
        """Note that a reload has ended, also with an error; the status page shows the outcome."""


class _Pending(NamedTuple):
    requests: list[str]
    outcome: Outcome
    due: float


class Reloads:
    """Run reloads one after the other. `load` reads the configuration; `now` is what it read at the start."""

    def __init__(
        self, now: Config, load: Callable[[], Config], target: ReloadTarget, status_page: StatusPage, log: Log
    ) -> None:
        self._now = now
        self._load = load
        self._target = target
        self._status_page = status_page
        self._log = log
        self._requests: list[str] = []
        self._pending: _Pending | None = None

    def request(self, name: str) -> None:
        """Reload as soon as no other reload is under way. The outcome is shown under `name`, unless that is ""."""
        self._requests.append(name)

    @property
    def pending(self) -> bool:
        """Whether `step` has something to do."""
        return self._pending is not None or bool(self._requests)

    def step(self, now: float) -> None:
        """Continue the current reload; call it often. `now` is in monotonic seconds."""
        if self._pending is None:
            if self._requests:
                requests, self._requests = self._requests, []
                self._begin(requests, now)
            return
        outcome = self._pending.outcome
        outcome.missing = self._target.lagging(outcome.number)
        if not outcome.missing or now >= self._pending.due:
            self._log(
                "reloaded",
                number=outcome.number,
                changed=", ".join(outcome.changed),
                restarted=", ".join(outcome.restarted),
                waiting=", ".join(outcome.waiting),
                missing=", ".join(outcome.missing),
            )
            self._end(self._pending.requests, outcome)
            self._pending = None

    def _begin(self, requests: list[str], now: float) -> None:
        self._target.reloading()
        try:
            found = plan(self._now, self._load(), self._target.processes)
            check_usable(found.config)
            number = self._publish(found.config)
        except RelayError as error:
            self._log("reload_refused", code=error.code, error=error, hint=error.hint)
            self._end(requests, Outcome(error=str(error), hint=error.hint))
            return
        self._now = found.config
        self._target.restart(found.restarted)
        outcome = Outcome(number, _shortened(found.changed), sorted(found.restarted), found.waiting)
        self._pending = _Pending(requests, outcome, now + PATIENCE)

    def _publish(self, config: Config) -> int:
        try:
            return self._target.publish(config)
        except ValueError as error:
            raise RelayError(ErrorCode.CONFIG, "publish the configuration", error, hint="restart the relay") from None

    def _end(self, requests: list[str], outcome: Outcome) -> None:
        shown = outcomes(self._status_page) | dict.fromkeys(filter(None, requests), outcome)
        newest = dict(list(shown.items())[-_MAX_OUTCOMES:])
        self._status_page.write(msgspec.msgpack.encode(newest))
        self._target.reloaded()


def _shortened(names: list[str]) -> list[str]:
    """Return the names, limited in number and length."""
    shown = [name[:_MAX_NAME] for name in names[:_MAX_NAMES]]
    return shown if len(names) <= _MAX_NAMES else [*shown, f"and {len(names) - _MAX_NAMES} more"]
