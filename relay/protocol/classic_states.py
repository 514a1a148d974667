"""The states of a classic connection: the action for each command in each state (table in docs/protocol.md)."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import Final

from relay.protocol.classic import Command


class State(StrEnum):
    """The state of a connection between two requests."""

    NEW = "new"
    IDENTIFIED = "identified"
    REPLACED = "replaced"


class Action(StrEnum):
    """The action for a request; docs/protocol.md has the reply of each."""

    PONG = "pong"
    AUTHENTICATE = "authenticate"
    ADD_FILTER = "add filter"
    REMOVE_FILTER = "remove filter"
    LIST_FILTERS = "list filters"
    POLL = "poll"
    POLL_MANY = "poll many"
    ADMINISTRATE = "administrate"
    REFUSE_UNAUTHENTICATED = "refuse: not authenticated"
    REFUSE_UNKNOWN = "refuse: unknown command"
    DISCONNECT = "disconnect"


ADMIN_COMMANDS: Final = frozenset(c for c in Command if c >= Command.STAT)
"""Commands that require AdminSecret instead of a login."""

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
        State.NEW: {**_ALWAYS, **dict.fromkeys(_OF_CLIENTS, Action.REFUSE_UNAUTHENTICATED)},
        State.IDENTIFIED: {**_ALWAYS, **_OF_CLIENTS},
        State.REPLACED: dict.fromkeys(Command, Action.DISCONNECT),
    }
)
"""The action for each command in each state. `action` also covers numbers that are not commands."""

NEEDS_TOKEN: Final = frozenset(_OF_CLIENTS)
"""Commands whose ClientID and ClientToken must be those of the connection."""


def action(state: State, command: int) -> Action:
    """Return the action for a request with any command number in a state."""
    actions = TRANSITIONS[state]
    if command in actions:
        return actions[Command(command)]
    return Action.DISCONNECT if state is State.REPLACED else Action.REFUSE_UNKNOWN
