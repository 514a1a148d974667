"""The states of a classic connection: what each command does in each of them. docs/protocol.md shows the same table."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import Final

from relay.wire.classic import Command


class State(StrEnum):
    """Where a connection stands between two requests."""

    NEW = "new"
    IDENTIFIED = "identified"
    REPLACED = "replaced"


class Action(StrEnum):
    """What is done with a request; `DOCUMENTATION` has the words."""

    PONG = "pong"
    AUTHENTICATE = "authenticate"
    ADD_FILTER = "add filter"
    REMOVE_FILTER = "remove filter"
    LIST_FILTERS = "list filters"
    POLL = "poll"
    POLL_MANY = "poll many"
    ADMINISTRATE = "administrate"
    REFUSE_STRANGER = "refuse: not authenticated"
    REFUSE_UNKNOWN = "refuse: unknown command"
    DISCONNECT = "disconnect"


DOCUMENTATION: Final[Mapping[Action, str]] = MappingProxyType(
    {
        Action.PONG: "0x00, `PONG` and NUL",
        Action.AUTHENTICATE: "0x00 or 0xFF, 16 bytes; on success the state is `identified`, on failure what it was",
        Action.ADD_FILTER: "0x00, no payload",
        Action.REMOVE_FILTER: "0x00, u32 number removed",
        Action.LIST_FILTERS: "0x00, the filters",
        Action.POLL: "0x00 and a row, or 0xFC",
        Action.POLL_MANY: "0x00, u32 count and rows; waits first if it asked to",
        Action.ADMINISTRATE: "0x00 and a JSON object, or 0xFF and a text",
        Action.REFUSE_STRANGER: "0xFF, `not authenticated: send Auth first` and NUL",
        Action.REFUSE_UNKNOWN: "0xFF, `unknown command N` and NUL",
        Action.DISCONNECT: "0xF0, no payload; then the connection is closed",
    }
)

ADMIN_COMMANDS: Final = frozenset(c for c in Command if c >= Command.STAT)
"""Commands that take AdminSecret, and no login."""

_OF_CLIENTS: Final = {
    Command.ADD_FILTER: Action.ADD_FILTER,
    Command.POLL: Action.POLL,
    Command.POLL_V2: Action.POLL,
    Command.POLL_MANY: Action.POLL_MANY,
    Command.REMOVE_FILTER: Action.REMOVE_FILTER,
    Command.LIST_FILTERS: Action.LIST_FILTERS,
}
_ALWAYS: Final = {Command.PING: Action.PONG, Command.AUTH: Action.AUTHENTICATE} | dict.fromkeys(
    ADMIN_COMMANDS, Action.ADMINISTRATE
)

TRANSITIONS: Final[Mapping[State, Mapping[Command, Action]]] = MappingProxyType(
    {
        State.NEW: {**_ALWAYS, **dict.fromkeys(_OF_CLIENTS, Action.REFUSE_STRANGER)},
        State.IDENTIFIED: {**_ALWAYS, **_OF_CLIENTS},
        State.REPLACED: dict.fromkeys(Command, Action.DISCONNECT),
    }
)
"""What a command does in a state. `action` also covers numbers that are no command."""

NEEDS_TOKEN: Final = frozenset(_OF_CLIENTS)
"""Commands whose ClientID and ClientToken have to be those of the connection."""


def action(state: State, command: int) -> Action:
    """What is done with a request of any number in a state."""
    actions = TRANSITIONS[state]
    if command in actions:
        return actions[Command(command)]
    return Action.DISCONNECT if state is State.REPLACED else Action.REFUSE_UNKNOWN


def table() -> str:
    """What a command does in a state, and what each of these answers, as two Markdown tables."""
    lines = ["| command | " + " | ".join(State) + " |", "|---" * (len(State) + 1) + "|"]
    for command in Command:
        cells = " | ".join(action(state, command) for state in State)
        lines.append(f"| {command:#06x} {command.name} | {cells} |")
    cells = " | ".join(action(state, 0) for state in State)
    lines += [f"| any other | {cells} |", "", "| action | answer |", "|---|---|"]
    lines += [f"| {each} | {DOCUMENTATION[each]} |" for each in Action]
    return "\n".join(lines) + "\n"
