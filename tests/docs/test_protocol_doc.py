"""docs/protocol.md agrees with the code: its tables and its example are compared with the code's own."""

from __future__ import annotations

import re

from relay.protocol import classic, classic_keys, classic_states
from relay.protocol.classic import Command, Identity, Result, TableFilter
from relay.protocol.classic_states import Action, State
from tests.support import ROOT
from tests.support.state_tables import classic_table

TEXT = (ROOT / "docs" / "protocol.md").read_text()


def test_state_table_is_the_one_that_the_servers_use() -> None:
    assert classic_table() in TEXT


def test_every_command_has_an_action_and_none_is_left() -> None:
    used = {classic_states.action(state, command) for state in State for command in (0, *Command, 0xFFFF)}
    assert used == set(Action)


def test_every_command_is_described() -> None:
    for command in Command:
        number = str(int(command)) if command < Command.STAT else f"{int(command):#06x}"
        assert re.search(rf"^\| {number} \|", TEXT, re.MULTILINE), command.name


def test_results_and_hashes_are_those_of_the_code() -> None:
    for result in Result:
        assert f"| 0x{int(result):02X} |" in TEXT
    assert f"0x{classic_keys.fnv1a64(b'Freedelity'):016X}" in TEXT
    assert f"0x{classic_keys.shifted_fnv1a64(b'Freedelity'):016X}" in TEXT


def test_example_is_what_the_codec_writes() -> None:
    recorded = "".join(line[4:] + " " for line in re.findall(r"^(?:C>R|R>C|   ) [0-9a-f ]+$", TEXT, re.MULTILINE))
    key = classic_keys.fnv1a64(b"Freedelity")
    auth = classic.encode_auth(key, "cache")
    wanted = classic.encode_filter(TableFilter(3, 0, 0, "shop", "orders"))
    identity = classic.encode_identity(Identity(key, 0x01020304, 1))
    assert bytes.fromhex(recorded) == b"".join(
        [
            classic.encode_request(Command.PING),
            classic.encode_reply(Result.OK, b"PONG\0"),
            classic.encode_request(Command.AUTH, auth),
            classic.encode_reply(Result.OK, identity),
            classic.encode_request(Command.ADD_FILTER, wanted, client_id=1, token=0x01020304),
            classic.encode_reply(Result.OK),
            classic.encode_request(Command.POLL, client_id=1, token=0x01020304),
            classic.encode_reply(Result.EMPTY),
        ]
    )
