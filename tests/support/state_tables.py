"""The states of the classic and the CDC protocol as the Markdown tables of docs/protocol.md and docs/cdc.md."""

from __future__ import annotations

from typing import Final

from relay.protocol import cdc_messages as words
from relay.protocol import classic_states
from relay.protocol.cdc_states import CLOSING, REPLIES, TRANSITIONS, Message, Outcome
from relay.protocol.classic import Command
from relay.protocol.classic_states import action


def _quoted(reply: bytes) -> str:
    return "`" + reply.decode().replace("\n", "\\n") + "`"


def _answer(outcome: Outcome) -> str:
    return _quoted(REPLIES[outcome]) + (", and the connection is closed" if outcome in CLOSING else "")


CDC_REPLIES: Final = {outcome: _answer(outcome) for outcome in REPLIES} | {
    Outcome.CHECK: f"{_quoted(words.OK)}, then UNREGISTERED; or as `{Outcome.DENY}`",
    Outcome.REGISTER: f"{_quoted(words.OK)}, then REGISTERED",
    Outcome.FIND: f"the stream, then STREAMING; or {_quoted(words.no_file('db.table.000001.avro'))}, and the stream"
    " as soon as there is such a table; or `ERR` and the reason",
    Outcome.FIND_LAST: f"such as {_quoted(words.encode_transaction('0-3000-11', 2, 1462290084, ['db.table']))}",
    Outcome.FIND_TRANSACTION: "the same; where it is not known "
    + _quoted(words.encode_transaction("0-3000-12", 0, 0, [])),
    Outcome.CLOSE: "no answer, and the connection is closed",
}


def classic_table() -> str:
    """The actions of commands by state as a Markdown table. Many commands in succession are a range."""
    lines = ["| command | " + " | ".join(classic_states.State) + " |", "|---" * (len(classic_states.State) + 1) + "|"]
    names: dict[str, list[str]] = {}
    for command in Command:
        cells = " | ".join(action(state, command) for state in classic_states.State)
        names.setdefault(cells, []).append(f"{command:#06x} {command.name}")
    for cells, commands in names.items():
        shown = ", ".join(commands) if len(commands) < 3 else f"{commands[0]} to {commands[-1]}"
        lines.append(f"| {shown} | {cells} |")
    cells = " | ".join(action(state, 0) for state in classic_states.State)
    return "\n".join([*lines, f"| any other | {cells} |"]) + "\n"


def cdc_table() -> str:
    """The outcomes of messages by state, and the reply of each outcome, as two Markdown tables."""
    lines = ["| message | " + " | ".join(TRANSITIONS) + " |", "|---" * (len(TRANSITIONS) + 1) + "|"]
    for message in Message:
        cells = " | ".join(outcomes[message] for outcomes in TRANSITIONS.values())
        lines.append(f"| {message} | {cells} |")
    lines += ["", "| outcome | answer |", "|---|---|"]
    lines += [f"| {each} | {CDC_REPLIES[each]} |" for each in Outcome]
    return "\n".join(lines) + "\n"
