"""A CDC session without a socket: every state, every message, every reply to the byte, however the bytes are split."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator, Sequence
from functools import partial

import pytest

from relay.protocol import cdc_messages as words
from relay.protocol.cdc_framing import MAX_COMMAND
from relay.protocol.cdc_messages import Gtid, Request
from relay.protocol.cdc_session import (
    COMMAND_GAP,
    MAX_PENDING,
    Action,
    Check,
    Close,
    Last,
    Send,
    Session,
    Transaction,
)
from relay.protocol.cdc_states import REPLIES, TRANSITIONS, Message, Outcome, State
from tests.support import ROOT
from tests.support.cdc_client import credentials
from tests.support.cdc_sessions import (
    ANSWER,
    DENIED,
    DIGEST,
    FOOBAR,
    REGISTER,
    STRANGER,
    UNKNOWN,
    registered,
    streaming,
    unregistered,
)
from tests.support.chance import seeds
from tests.support.state_tables import CDC_REPLIES, cdc_table

DOCUMENT = (ROOT / "docs" / "cdc.md").read_text()
SESSIONS: dict[State, Callable[[], Session]] = {
    State.WAIT_AUTH: Session,
    State.UNREGISTERED: unregistered,
    State.REGISTERED: registered,
    State.STREAMING: streaming,
}
ORDERS = Request("shop", "orders")
MESSAGES: dict[Message, list[bytes]] = {
    Message.CREDENTIALS: [FOOBAR],
    Message.REGISTER: [REGISTER, b"REGISTER UUID=,TYPE=AVRO"],
    Message.REQUEST: [b"REQUEST-DATA shop.orders", b"REQUEST-DATA shop.orders\n", b"REQUEST-DATA shop.orders\r\n"],
    Message.REQUEST_NOTHING: [b"REQUEST-DATA", b"REQUEST-DATA ", b"REQUEST-DATA\r\n", b"REQUEST-DATA \n"],
    Message.REQUEST_BLANKS: [b"REQUEST-DATA  ", b"REQUEST-DATA   \r\n"],
    Message.LAST: [b"QUERY-LAST-TRANSACTION", b"QUERY-LAST-TRANSACTION\r\n"],
    Message.TRANSACTION: [b"QUERY-TRANSACTION 0-14-1", b"QUERY-TRANSACTION 0-14-1\n"],
    Message.CLOSE: [b"CLOSE", b"CLO", b"C"],
    Message.CLOSE_LINE: [b"CLOSE\n", b"CLOSE\r\n"],
    Message.OTHER: [b"BOGUS", b"close\n", b"CLO\n", b"CLOSED", b"request-data shop.orders", b"REGISTER", b"x" * 9999],
}
EXPECTED: dict[Outcome, tuple[list[Action], State | None]] = {
    Outcome.CHECK: ([Check("foobar", DIGEST)], None),
    Outcome.DENY: (DENIED, State.CLOSED),
    Outcome.REFUSE_UNREGISTERED: (STRANGER, State.CLOSED),
    Outcome.FIND: ([ORDERS], None),
    Outcome.REFUSE_NOTHING: ([Send(b"ERR REQUEST-DATA with no data.\n")], None),
    Outcome.REFUSE_BLANKS: ([Send(b"ERR NO-FILE Filename not specified.\n")], None),
    Outcome.REFUSE_SECOND: ([Send(b"ERR REQUEST-DATA while streaming.\n")], None),
    Outcome.FIND_LAST: ([Last()], None),
    Outcome.FIND_TRANSACTION: ([Transaction("0-14-1", Gtid(0, 14, 1))], None),
    Outcome.REFUSE_UNKNOWN: ([UNKNOWN], None),
    Outcome.CLOSE: ([Close()], State.CLOSED),
}


@pytest.mark.parametrize("message", Message, ids=lambda message: message.name)
@pytest.mark.parametrize("state", SESSIONS)
def test_every_message_does_in_every_state_what_the_table_says(state: State, message: Message) -> None:
    outcome = TRANSITIONS[state][message]
    for said in MESSAGES[message]:
        session = SESSIONS[state]()
        actions = session.feed(said)
        if session.patience is not None and not actions:
            actions = session.gap()
        if outcome is Outcome.REGISTER:
            assert actions == [Send(b"OK\n")] and session.state is State.REGISTERED
            continue
        expected, after = EXPECTED[outcome]
        assert actions == expected, said
        assert session.state is (after or state)


def test_the_document_shows_the_tables_that_the_sessions_use() -> None:
    assert cdc_table() in DOCUMENT
    assert FOOBAR.decode() in DOCUMENT
    assert set(CDC_REPLIES) == set(Outcome) == {each for row in TRANSITIONS.values() for each in row.values()}
    assert set(EXPECTED) | {Outcome.REGISTER} == set(Outcome)
    assert set(TRANSITIONS) == set(State) - {State.CLOSED}
    assert all(set(row) == set(Message) for row in TRANSITIONS.values())


def test_replies_are_whole_lines_and_only_ok_does_not_say_err() -> None:
    for reply in (*REPLIES.values(), words.no_file("a.b.000001.avro"), words.refusal("x"), words.fatal("x")):
        assert reply.startswith(b"ERR") and reply.endswith(b"\n") and reply.count(b"\n") == 1
    assert words.OK == b"OK\n"
    assert words.fatal("two\nlines \x00") == b"ERR fatal error: two lines \\x00\n"


class TestRequest:
    """REQUEST-DATA."""

    @pytest.mark.parametrize(
        ("said", "request_"),
        [
            (b"shop.orders", Request("shop", "orders")),
            (b"shop.orders.3", Request("shop", "orders", 3)),
            (b"shop.orders.000003", Request("shop", "orders", 3)),
            (b"shop.orders.0000002", Request("shop", "orders", 2)),
            (b"shop.orders.0", Request("shop", "orders", 0)),
            (b"shop.2024", Request("shop", "2024")),
            (b"shop.a.b", Request("shop", "a.b")),
            (b"shop.a.b.7", Request("shop", "a.b", 7)),
            (b"shop.2024.1", Request("shop", "2024", 1)),
            ("shöp.bestellung_ß".encode(), Request("shöp", "bestellung_ß")),
            (b"shop.orders 0-3000-11", Request("shop", "orders", None, Gtid(0, 3000, 11))),
            (b"shop.orders.2 0-3000-5000000003", Request("shop", "orders", 2, Gtid(0, 3000, 5000000003))),
            (b"shop.orders  domain=0, server=1, seq=2 ", Request("shop", "orders", None, Gtid(0, 1, 2))),
            (b"shop.orders 0-0-0", Request("shop", "orders", None, Gtid(0, 0, 0))),
            (b"shop.orders 1-2", Request("shop", "orders")),
            (b"shop.orders 1-2-3-4", Request("shop", "orders", None, Gtid(1, 2, 3))),
            (b"shop.orders 0-1-" + b"9" * 30, Request("shop", "orders", None, Gtid(0, 1, 2**64 - 1))),
            (b"shop.orders 0-1-" + b"0" * 30 + b"7", Request("shop", "orders", None, Gtid(0, 1, 7))),
        ],
    )
    def test_names_a_table_a_version_and_a_transaction(self, said: bytes, request_: Request) -> None:
        for end in (b"", b"\n", b"\r\n"):
            session = registered()
            actions = session.feed(b"REQUEST-DATA " + said + end)
            if not end:
                assert actions == [] and session.patience == COMMAND_GAP
                actions = session.gap()
            assert actions == [request_] and session.wanted == request_

    @pytest.mark.parametrize(
        ("name", "file"),
        [
            (b"shop", "shop.000001.avro"),
            (b"shop/../etc.passwd", "shop/../etc.passwd.000001.avro"),
            (b"shop..orders", "shop..orders.000001.avro"),
            (b".orders", ".orders.000001.avro"),
            (b"shop.", "shop..000001.avro"),
            (b"shop.orders.", "shop.orders..000001.avro"),
            (b"shop.or\0ders", "shop.or\\x00ders.000001.avro"),
            (b"shop.\xff", "shop.\ufffd.000001.avro"),
            (b"a/b.c.3", "a/b.c.3.000001.avro"),
        ],
    )
    def test_for_what_can_be_no_table_is_refused_without_looking(self, name: bytes, file: str) -> None:
        session = registered()
        assert session.feed(b"REQUEST-DATA " + name + b"\n") == [
            Send(f"ERR NO-FILE File '{file}' not found.\n".encode())
        ]
        assert session.state is State.REGISTERED and session.wanted is None

    @pytest.mark.parametrize(
        ("said", "file"),
        [(b"db.t", b"db.t.000001.avro"), (b"db.t.3", b"db.t.000003.avro"), (b"db.t.0000002", b"db.t.000002.avro")],
    )
    def test_for_a_missing_table_is_told_so_and_waits_for_it(self, said: bytes, file: bytes) -> None:
        session = registered()
        [request] = session.feed(b"REQUEST-DATA " + said + b"\n")
        assert session.missing() == [Send(b"ERR NO-FILE File '" + file + b"' not found.\n")]
        assert (session.state, session.wanted, session.patience) == (State.REGISTERED, request, None)
        assert session.missing() == []
        assert session.feed(b"QUERY-LAST-TRANSACTION\n") == [Last()]
        assert session.found() == [] and session.state is State.STREAMING and session.wanted is None
        assert session.answered(ANSWER) == [Send(ANSWER)]

    def test_for_another_table_takes_the_place_of_one_that_is_waited_for(self) -> None:
        session = registered()
        session.feed(b"REQUEST-DATA a.b\n")
        session.missing()
        assert session.feed(b"REQUEST-DATA c.d\n") == [Request("c", "d")]
        session.missing()
        session.feed(b"REQUEST-DATA nothing\n")
        assert session.found() == [] and session.state is State.REGISTERED

    def test_may_be_refused_for_a_reason(self) -> None:
        session = registered()
        session.feed(b"REQUEST-DATA a.b\n")
        assert session.refused("the source has no GTIDs") == [Send(b"ERR the source has no GTIDs\n")]
        assert session.state is State.REGISTERED and session.wanted is None
        assert session.feed(b"REQUEST-DATA a.b\n") == [Request("a", "b")]

    def test_holds_what_follows_until_it_is_answered(self) -> None:
        session = registered()
        assert session.feed(b"REQUEST-DATA a.b\nREQUEST-DATA c.d\nBOGUS\nCLOSE") == [Request("a", "b")]
        assert session.patience is None and session.gap() == []
        assert session.missing() == [Send(words.no_file("a.b.000001.avro")), Request("c", "d")]
        assert session.found() == [UNKNOWN]
        assert session.patience == COMMAND_GAP and session.gap() == [Close()]
        assert session.found() == [] == session.missing() == session.refused("x") == session.answered(ANSWER)

    def test_that_cannot_go_on_ends_the_connection_with_a_reset(self) -> None:
        session = streaming()
        assert session.failed("MAXAVRO_ERR_IO") == [Send(b"ERR fatal error: MAXAVRO_ERR_IO\n"), Close(reset=True)]
        assert session.failed("again") == []


class TestEnds:
    """Where commands end."""

    def test_blanks_and_line_ends_before_a_command_mean_nothing(self) -> None:
        session = registered()
        assert session.feed(b"\r\n\n  \r\n") == [] and session.patience is None
        assert session.feed(b"  CLOSE\r\n") == [Close()]

    def test_a_line_end_that_comes_after_the_gap_is_not_another_command(self) -> None:
        session = registered()
        session.feed(b"REQUEST-DATA a.b")
        assert session.gap() == [Request("a", "b")]
        session.found()
        assert session.feed(b"\n") == [] and session.patience is None

    def test_the_end_of_the_connection_ends_a_command_and_closes_behind_its_answer(self) -> None:
        session = registered()
        session.feed(b"QUERY-LAST-TRANSACTION")
        assert session.eof() == [Last()]
        assert session.answered(ANSWER) == [Send(ANSWER), Close()]
        assert streaming().eof() == [Close()]
        session = registered()
        session.feed(b"BOGUS")
        assert session.eof() == [UNKNOWN, Close()]

    @pytest.mark.parametrize("size", [MAX_COMMAND, MAX_COMMAND + 1, 100_000])
    @pytest.mark.parametrize("step", [1000, 100_000])
    def test_a_command_that_is_too_long_is_one_unknown_command_and_takes_no_memory(self, size: int, step: int) -> None:
        session = registered()
        said = b"REQUEST-DATA a." + b"b" * (size - 15)
        for at in range(0, size, step):
            assert session.feed(said[at : at + step]) == []
            assert len(session._framer) <= MAX_COMMAND + step
        answer = session.feed(b"\nQUERY-LAST-TRANSACTION\n")
        assert answer == ([Request("a", "b" * (size - 15))] if size <= MAX_COMMAND else [UNKNOWN, Last()])

    def test_a_client_that_sends_on_and_on_while_it_is_to_be_answered_is_closed(self) -> None:
        session = registered()
        session.feed(b"QUERY-LAST-TRANSACTION\n")
        actions = [action for _ in range(10) for action in session.feed(b"BOGUS\n" * (MAX_PENDING // 50))]
        assert actions == [Close(reset=True)]


def test_transactions_are_told_as_maxscale_did_with_a_line_end() -> None:
    told = words.encode_transaction("0-1-178", 2, 1462290084, ["db1.tb1", "db2.tb2"])
    assert told == b'{"GTID": "0-1-178", "events": 2, "timestamp": 1462290084, "tables": ["db1.tb1", "db2.tb2"]}\n'
    assert json.loads(words.encode_transaction('"\n', 0, 0, [])) == {
        "GTID": '"\n',
        "events": 0,
        "timestamp": 0,
        "tables": [],
    }


def test_known_digests_are_those_of_the_original() -> None:
    assert credentials("foobar", "foopasswd") == FOOBAR
    assert words.digest_of(b"foopasswd") == DIGEST
    assert words.stored_of(DIGEST) == "534EBD301EF499621802C63709693765CB5E81E0"
    assert words.stored_of(words.digest_of(b"maxpwd")) == "5EDBD32E469DAE0CE10E6999C3899DEFCB9F12E0"


# What is fed to sessions in any order and any pieces.
VOCABULARY = [
    FOOBAR, b":", b"REGISTER UUID=", b"REGISTER UUID=a, TYPE=JSON\n", b"TYPE=AVRO ", b"REQUEST-DATA", b"REQUEST-DATA ",
    b"REQUEST-DATA shop.orders\n", b"REQUEST-DATA shop.orders.000002 0-1-2\r\n", b"QUERY-LAST-TRANSACTION\n",
    b"QUERY-TRANSACTION 0-1-2\n", b"QUERY-TRANSACTION\n", b"CLOSE", b"CLOSE\n", b"\n", b"\r\n", b" ", b"\0", b"..",
    b"/", b"\xff", b"x" * 5000, b"0" * 200,
]  # fmt: skip
LEGAL = {Send(reply) for reply in REPLIES.values()} | {Send(b"OK\n"), Send(ANSWER)}


def drive(session: Session, pieces: Sequence[bytes], answers: random.Random) -> Iterator[Action]:
    """What comes of the pieces, each answered at once, by chance."""
    for piece in pieces:
        actions = session.feed(piece)
        while actions:
            action, *actions = actions
            yield action
            if isinstance(action, Check):
                actions += session.checked(answers.random() < 0.95)
            elif isinstance(action, Request):
                actions += answers.choice((session.found, session.missing, session.missing))()
            elif isinstance(action, Last | Transaction):
                actions += session.answered(ANSWER)


def cut(data: bytes, dice: random.Random) -> list[bytes]:
    places = sorted(dice.choices(range(len(data) + 1), k=dice.randrange(12)))
    return [data[start:end] for start, end in zip([0, *places], [*places, len(data)], strict=True)]


@pytest.mark.parametrize("seed", seeds(400))
def test_whatever_is_said_in_whatever_pieces_comes_to_the_same_and_to_nothing_illegal(seed: int) -> None:
    dice = random.Random(seed)
    begun = dice.choice([b"", FOOBAR, FOOBAR + REGISTER + b"\n"])
    said = begun + b"".join(dice.choices(VOCABULARY, k=dice.randrange(20)))
    whole = list(drive(Session(), [said], random.Random(seed)))
    for _ in range(5):
        session = Session()
        assert list(drive(session, cut(said, dice), random.Random(seed))) == whole
        assert len(session._framer) <= MAX_COMMAND
    for action in whole[:-1]:
        assert not isinstance(action, Close)
    for action in whole:
        if isinstance(action, Send):
            assert action in LEGAL or action.data.startswith(b"ERR NO-FILE File '")
            assert action.data.endswith(b"\n") and action.data.count(b"\n") == 1


@pytest.mark.parametrize("seed", seeds(200))
def test_bytes_gaps_and_ends_at_any_moment_break_nothing(seed: int) -> None:
    dice = random.Random(seed)
    session = Session()
    if dice.random() < 0.8:
        session.feed(FOOBAR)
    closed = False
    for _ in range(60):
        data = dice.randbytes(dice.randrange(30)) if dice.random() < 0.2 else dice.choice(VOCABULARY)
        steps: list[Callable[[], list[Action]]] = [
            partial(session.feed, data), partial(session.checked, True), partial(session.answered, ANSWER),
            session.found, session.missing, partial(session.refused, "why"), session.gap,
            session.eof if dice.random() < 0.1 else session.gap,
        ]  # fmt: skip
        actions = dice.choice(steps)()
        assert not (closed and actions)
        closed = closed or any(isinstance(action, Close) for action in actions)
        assert closed == (session.state is State.CLOSED)
        assert not closed or session.patience is None
