"""A new configuration for a relay that runs: what of it is taken, by whom, and when all have it.

Every key says itself what applies it (`Key.applies`). What can only be set at the start keeps its value, in all
processes, and is named. `Reloads` is the supervisor's part: it publishes the configuration, has the processes restarted
that have to be, and waits until everybody works with it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Final, NamedTuple, Protocol

import msgspec

from relay.board import Board
from relay.config import Config
from relay.config_keys import KEYS, START, Key
from relay.errors import ErrorCode, RelayError
from relay.log import Log
from relay.serving import tls

PATIENCE: Final = 10.0
"""Seconds after which those that do not work with the new configuration are named."""

_SHOWN: Final = 16  # outcomes: whoever asked looks every second
_NAMED: Final = 50  # keys and clients in an outcome
_NAME: Final = 300  # characters of each
_STRUCTS: Final = {
    "Server": "server",
    "MySQL": "schema_account",
    "Logger": "logger",
    "Source": "source",
    "Relay": "relay",
    "Lake": "lake",
    "CDC": "cdc",
}


class Plan(NamedTuple):
    """`config` is what the relay can work with from now on; keys are named `[Section] Key`, clients `[Client NAME]`.

    `changed` takes effect, and the processes in `restarted` are restarted for it; `waiting` needs a start of the relay.
    """

    config: Config
    changed: list[str]
    restarted: set[str]
    waiting: list[str]


def plan(now: Config, wanted: Config, processes: Collection[str]) -> Plan:
    """What of `wanted` a relay that works with `now`, in these processes, can take. Pure."""
    changed, waiting = [], []
    restarted: set[str] = set()
    taken = now
    for key in KEYS:
        if not _differs(key, now, wanted):
            continue
        name = f"[{key.section}] {key.name}"
        if _needs_start(key, now, wanted):
            waiting.append(name)
            continue
        changed.append(name)
        restarted.update(key.processes)
        taken = _with(taken, key, wanted)
    clients = now.clients | wanted.clients
    changed += [f"[Client {name}]" for name in clients if now.clients.get(name) != wanted.clients.get(name)]
    taken = msgspec.structs.replace(taken, clients=wanted.clients)
    return Plan(taken, changed, restarted & set(processes), waiting)


def usable(config: Config) -> None:
    """Raises `RelayError` (config) for what no process that serves could use, such as a key that it may not read."""
    tls.server_context(config.cdc.tls if config.cdc.enabled else "off", config.server)
    tls.make_context(config.server)


def _differs(key: Key, now: Config, wanted: Config) -> bool:
    """Whether the key's value does. An account for schema queries that follows [Server] is no change of its own."""
    section = _STRUCTS[key.section]
    before, after = (getattr(getattr(config, section), key.attribute) for config in (now, wanted))
    if key.section == "MySQL" and before != after:
        leader = {"host": "ip_addr"}.get(key.attribute, key.attribute)
        return bool(getattr(now.server, leader) == getattr(wanted.server, leader))
    return bool(before != after)


def _needs_start(key: Key, now: Config, wanted: Config) -> bool:
    """Whether only a start applies the key; also where it would begin or end a process."""
    logs = key.section == "Logger" and bool(now.logger.schema) != bool(wanted.logger.schema)
    return key.applies == START or (logs and key.attribute == "schema")


def _with(config: Config, key: Key, wanted: Config) -> Config:
    """`config` with the value of that key in `wanted`, and with what is derived from it."""
    section = _STRUCTS[key.section]
    value = getattr(getattr(wanted, section), key.attribute)
    changed = msgspec.structs.replace(getattr(config, section), **{key.attribute: value})
    replaced: Config = msgspec.structs.replace(config, **{section: changed})
    if "snapshotter" in key.processes and key.section in ("Server", "MySQL"):
        return msgspec.structs.replace(replaced, schema_account=wanted.schema_account)
    return replaced


class Outcome(msgspec.Struct):
    """What came of a reload: as of `Plan`, or `error` and `hint`, and nothing has changed.

    `missing` names the processes that did not work with configuration `number` within `PATIENCE`.
    """

    number: int = 0
    changed: list[str] = []
    restarted: list[str] = []
    waiting: list[str] = []
    missing: list[str] = []
    error: str = ""
    hint: str = ""


def outcomes(board: Board) -> dict[str, Outcome]:
    """What came of the last reloads, by the request that asked for them."""
    content = board.read()
    return msgspec.msgpack.decode(content, type=dict[str, Outcome]) if content else {}


class Family(Protocol):
    """What a reload needs of the supervisor."""

    @property
    def processes(self) -> list[str]:
        """Their names."""

    def publish(self, config: Config) -> int:
        """Have all processes take it, those to be forked too; its number. `ValueError` if it is too large."""

    def restart(self, names: Collection[str]) -> None:
        """Have these processes end, and their successors begin."""

    def lagging(self, number: int) -> list[str]:
        """Those that do not work with configuration `number` yet."""

    def reloading(self) -> None:
        """A reload begins."""

    def reloaded(self) -> None:
        """It has come to its end, whatever came of it, which the board shows."""


class _Pending(NamedTuple):
    requests: list[str]
    outcome: Outcome
    due: float


class Reloads:
    """Reloads one after the other. `load` reads the configuration as at the start; `now` is what it read then."""

    def __init__(self, now: Config, load: Callable[[], Config], family: Family, board: Board, log: Log) -> None:
        self._now = now
        self._load = load
        self._family = family
        self._board = board
        self._log = log
        self._requests: list[str] = []
        self._pending: _Pending | None = None

    def ask(self, request: str) -> None:
        """Reload as soon as no reload is under way; `request` is a name by which the outcome is found, or ""."""
        self._requests.append(request)

    def step(self, now: float) -> None:
        """Go on with what is under way; to be called often. `now` in monotonic seconds."""
        if self._pending is None:
            if self._requests:
                requests, self._requests = self._requests, []
                self._begin(requests, now)
            return
        outcome = self._pending.outcome
        outcome.missing = self._family.lagging(outcome.number)
        if not outcome.missing or now >= self._pending.due:
            self._tell(outcome)
            self._conclude(self._pending.requests, outcome)
            self._pending = None

    def _tell(self, outcome: Outcome) -> None:
        self._log(
            "reloaded",
            number=outcome.number,
            changed=", ".join(outcome.changed),
            restarted=", ".join(outcome.restarted),
            waiting=", ".join(outcome.waiting),
            missing=", ".join(outcome.missing),
        )

    def _begin(self, requests: list[str], now: float) -> None:
        self._family.reloading()
        try:
            found = plan(self._now, self._load(), self._family.processes)
            usable(found.config)
            number = self._publish(found.config)
        except RelayError as error:
            self._log("reload_refused", code=error.code, error=error, hint=error.hint)
            self._conclude(requests, Outcome(error=str(error), hint=error.hint))
            return
        self._now = found.config
        self._family.restart(found.restarted)
        outcome = Outcome(number, _shortened(found.changed), sorted(found.restarted), found.waiting)
        self._pending = _Pending(requests, outcome, now + PATIENCE)

    def _publish(self, config: Config) -> int:
        try:
            return self._family.publish(config)
        except ValueError as error:
            raise RelayError(ErrorCode.CONFIG, "publish the configuration", error, hint="restart the relay") from None

    def _conclude(self, requests: list[str], outcome: Outcome) -> None:
        shown = outcomes(self._board) | dict.fromkeys(filter(None, requests), outcome)
        newest = dict(list(shown.items())[-_SHOWN:])
        self._board.write(msgspec.msgpack.encode(newest))
        self._family.reloaded()


def _shortened(names: list[str]) -> list[str]:
    """At most so many names, and so much of each, as anybody reads."""
    shown = [name[:_NAME] for name in names[:_NAMED]]
    return shown if len(names) <= _NAMED else [*shown, f"and {len(names) - _NAMED} more"]
