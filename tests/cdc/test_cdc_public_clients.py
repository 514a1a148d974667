"""What the public clients of the CDC protocol accept from a server, as measured.

This compares the imitations with what is known of these clients; test_cdc_clients runs them on a relay.
"""

from __future__ import annotations

import pytest

from tests.support.cdc_client import SECRET, USER
from tests.support.cdc_script_server import SCHEMA, Cut, ScriptServer, row
from tests.support.public_cdc_clients import (
    CLIENTS,
    Adapter,
    Bborbe,
    CdcPy,
    Connectfit,
    CppConnector,
    GivesUp,
    Gomaxscale,
    NodeRelay,
    PublicClient,
    triplet,
)

STREAM = SCHEMA + row(1) + row(2)
EACH = pytest.mark.parametrize("client", CLIENTS, ids=lambda client: client.__name__)


def run(client: PublicClient, table: str = "shop.t", gtid: str = "") -> tuple[list[int], str]:
    """The ids that a client sees, and the words with which it ends; none if it just ends."""
    seen: list[int] = []
    with client:
        try:
            rows = client.follow(USER, SECRET, table, gtid)
            seen.extend(found.get("id", -1) for found in rows)
        except GivesUp as end:
            return seen, str(end)
    return seen, ""


@EACH
def test_a_row_in_two_segments_is_a_row(client: type[PublicClient]) -> None:
    with ScriptServer({"shop.t": [STREAM[:-40], STREAM[-40:]]}) as server:
        assert run(client(server.port))[0] == [1, 2]


@EACH
def test_keys_that_no_schema_has_are_borne_behind_those_that_it_has(client: type[PublicClient]) -> None:
    wide = row(5_000_000_003).replace(b"}\n", b', "table_name": "t", "table_schema": "shop"}\n')
    with ScriptServer({"shop.t": [SCHEMA + wide]}) as server:
        assert run(client(server.port))[0] == [5_000_000_003]


@EACH
def test_the_end_by_a_fin_is_taken_in_each_ones_own_way(client: type[PublicClient]) -> None:
    words = {CdcPy: "spins: the server has closed by a FIN", CppConnector: "Request timed out"}
    with ScriptServer({"shop.t": [STREAM]}) as server:
        running = client(server.port)
        assert run(running) == ([1, 2], words.get(client, ""))
        assert [schema["table"] for schema in running.schemas] == ["t"]
        assert server.uuids == [client.UUID]


# Ways to answer that servers have had, or might, and what comes of them; "" where it does no harm.
DRIBBLED: Cut = lambda reply: [reply[:1], reply[1:]]  # noqa: E731
DOUBLED: Cut = lambda reply: [reply + b"\n"]  # noqa: E731
BARE: Cut = lambda reply: [reply.strip()]  # noqa: E731
ANSWERS: list[tuple[str, Cut, type[PublicClient], str]] = [
    ("dribbled", DRIBBLED, CppConnector, "Authentication failed: O"),
    ("dribbled", DRIBBLED, Bborbe, "login failed"),
    ("dribbled", DRIBBLED, CdcPy, "no JSON: b'"),
    ("dribbled", DRIBBLED, NodeRelay, ""),
    ("dribbled", DRIBBLED, Connectfit, ""),
    ("two line ends", DOUBLED, NodeRelay, "SyntaxError: b'OK'"),
    ("two line ends", DOUBLED, CppConnector, "Request timed out"),
    ("two line ends", DOUBLED, Connectfit, ""),
    ("no line end", BARE, CppConnector, "Authentication failed: OK"),
    ("no line end", BARE, Connectfit, "i/o timeout"),
    ("no line end", BARE, NodeRelay, "waits for a line for ever"),
    ("no line end", BARE, Bborbe, ""),
]


@pytest.mark.parametrize(("name", "cut", "client", "words"), ANSWERS, ids=lambda value: getattr(value, "__name__", ""))
def test_answers_in_other_forms_break_the_clients_that_they_are_known_to_break(
    name: str, cut: Cut, client: type[PublicClient], words: str
) -> None:
    patience = {"patience": 0.5} if client in (Connectfit, NodeRelay) else {}
    with ScriptServer({"shop.t": [STREAM]}, cut) as server:
        _, end = run(client(server.port, **patience))
        assert end.startswith(words) and bool(end) == bool(words), name


# What might be put between rows to show that a stream lives: none of it can be.
EMPTY, BLANK, BEAT = b"\n", b" ", b'{"heartbeat": 1}\n'
INJECTED: list[tuple[bytes, type[PublicClient], list[int], str]] = [
    (EMPTY, CdcPy, [1, 2], "spins"),
    (EMPTY, CppConnector, [1], "Failed to parse JSON"),
    (EMPTY, Connectfit, [1], "unexpected end of JSON input"),
    (EMPTY, Gomaxscale, [1, 2], ""),
    (EMPTY, NodeRelay, [1], "SyntaxError"),
    (BLANK, CdcPy, [1, 2], "spins"),
    (BLANK, CppConnector, [1, 2], "Request timed out"),
    (BLANK, Connectfit, [1], ""),
    (BLANK, Gomaxscale, [1, 2], ""),
    (BLANK, NodeRelay, [1, 2], ""),
    (BEAT, CdcPy, [1, -1, 2], "spins"),
    (BEAT, CppConnector, [1], "No value for key found: domain"),
    (BEAT, Connectfit, [1, 2], ""),
    (BEAT, Gomaxscale, [1, 2], ""),
    (BEAT, NodeRelay, [1, -1, 2], ""),
]


@pytest.mark.parametrize(("injected", "client", "ids", "words"), INJECTED)
def test_what_stands_between_rows_does_to_each_client_what_was_measured(
    injected: bytes, client: type[PublicClient], ids: list[int], words: str
) -> None:
    with ScriptServer({"shop.t": [SCHEMA + row(1) + injected + row(2)]}) as server:
        running = client(server.port)
        seen, end = run(running)
        assert seen == ids and end.startswith(words) and bool(end) == bool(words)
        if isinstance(running, Connectfit):
            assert len(running.schemas) == (1 if injected == EMPTY else 2)
        if isinstance(running, Gomaxscale):
            assert len(running.logged) == (1 if injected == BEAT else 0)
        if isinstance(running, CdcPy):
            assert injected in running.passed


def test_a_client_that_counts_braces_bears_those_that_balance_and_loses_itself_in_others() -> None:
    schema = SCHEMA.replace(b"]}\n", b',{"name":"text","type":["null","string"]}]}\n')
    with ScriptServer(
        {"a.t": [schema + row(1, "{x}") + row(2, "y")], "b.t": [schema + row(1, "{x") + row(2, "y")]}
    ) as server:
        assert run(Gomaxscale(server.port), "a.t")[0] == [1, 2]
        assert run(Gomaxscale(server.port), "b.t")[0] == []


def test_a_line_beyond_a_mebibyte_ends_the_client_that_has_such_a_limit() -> None:
    with ScriptServer({"a.t": [SCHEMA + row(1, "x" * 1_000_000)], "b.t": [SCHEMA + row(1, "x" * 1_100_000)]}) as server:
        assert run(Connectfit(server.port), "a.t") == ([1], "")
        assert run(Connectfit(server.port), "b.t") == ([], "bufio.Scanner: token too long")
        assert run(NodeRelay(server.port), "b.t") == ([1], "")


def test_a_row_that_lacks_a_field_of_the_schema_ends_the_client_that_is_strict() -> None:
    lacking = row(2).replace(b', "id": 2', b"")
    with ScriptServer({"shop.t": [SCHEMA + row(1) + lacking]}) as server:
        assert run(CppConnector(server.port)) == ([1], "No value for key found: id")
        assert run(NodeRelay(server.port)) == ([1, -1], "")


def test_an_integer_beyond_64_bits_ends_the_client_that_is_strict() -> None:
    with ScriptServer({"shop.t": [SCHEMA + row(2**63 - 1) + row(2**63)]}) as server:
        seen, words = run(CppConnector(server.port))
        assert seen == [2**63 - 1] and words.startswith("Failed to parse JSON")
        assert run(NodeRelay(server.port)) == ([2**63 - 1, 2**63], "")


def test_where_a_client_goes_on_is_what_it_asks_for() -> None:
    with ScriptServer({"shop.t": [STREAM]}) as server:
        first = Bborbe(server.port)
        assert run(first)[0] == [1, 2]
        assert first.stored == "0-3000-2"
        run(Bborbe(server.port), gtid=first.stored)
        with Adapter(server.port) as adapter:
            rows = adapter.resume(USER, SECRET, "shop.t", ("0-3000-1", 1))
            assert triplet(next(rows)) == "0-3000-1"
        with Adapter(server.port) as adapter, pytest.raises(AssertionError):
            next(adapter.resume(USER, SECRET, "shop.t", ("0-3000-2", 1)))
        gtids = [str(request.gtid) for request in server.requests]
        assert gtids == ["None", "0-3000-2", "0-3000-1", "0-3000-2"]


def test_a_client_that_has_seen_a_schema_and_no_row_goes_on_at_zero() -> None:
    with ScriptServer({"shop.t": [SCHEMA]}) as server:
        client = Bborbe(server.port)
        assert run(client) == ([], "") and client.stored == "0-0-0"
