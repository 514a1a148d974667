"""The beginning of a CDC session: credentials and registration."""

from __future__ import annotations

import pytest

from relay.protocol import cdc_messages as words
from relay.protocol.cdc_messages import Form, Request
from relay.protocol.cdc_session import (
    COMMAND_GAP,
    LOGIN_PATIENCE,
    Check,
    Close,
    Send,
    Session,
)
from relay.protocol.cdc_states import State
from tests.support.cdc_client import credentials
from tests.support.cdc_sessions import DENIED, DIGEST, FOOBAR, REGISTER, STRANGER, unregistered


class TestCredentials:
    """The first message."""

    @pytest.mark.parametrize("cut", range(1, len(FOOBAR)))
    def test_may_come_in_two_writes(self, cut: int) -> None:
        session = Session()
        assert session.feed(FOOBAR[:cut]) == []
        assert session.patience == LOGIN_PATIENCE
        assert session.feed(FOOBAR[cut:]) == [Check("foobar", DIGEST)]
        assert session.patience is None
        assert session.checked(True) == [Send(b"OK\n")]
        assert session.user == "foobar"

    @pytest.mark.parametrize("end", [b"", b"\n", b"\r\n", b"\r", b"\n\n"])
    def test_may_be_of_either_case_and_have_a_line_end(self, end: bytes) -> None:
        session = Session()
        assert session.feed(FOOBAR.upper() + end) == [Check("foobar", DIGEST)]
        assert session.checked(True) == [Send(b"OK\n")]
        assert session.patience is None

    def test_may_be_spread_over_lines(self) -> None:
        broken = b"\r\n".join((FOOBAR[:16], FOOBAR[16:40], FOOBAR[40:]))
        assert Session().feed(b"\n" + broken + b"\r\n") == [Check("foobar", DIGEST)]

    def test_may_have_colons_in_the_digest(self) -> None:
        digest = b":" * 20
        assert Session().feed((b"a:" + digest).hex().encode()) == [Check("a", digest)]

    def test_may_have_a_name_of_43_bytes_and_no_longer_one(self) -> None:
        longest = "u" * words.MAX_USER
        assert len(longest) == 43
        assert Session().feed(credentials(longest, "p")) == [Check(longest, words.digest_of(b"p"))]
        assert Session().feed(credentials(longest + "u", "p")) == DENIED

    def test_may_have_a_name_that_is_no_text(self) -> None:
        [check] = Session().feed((b"\xff\xfe:" + DIGEST).hex().encode())
        assert isinstance(check, Check)
        assert check.user.encode("utf-8", "surrogateescape") == b"\xff\xfe"

    @pytest.mark.parametrize(
        "message",
        [
            b":".hex().encode() + DIGEST.hex().encode(),  # no name
            b"QUIT",
            b"666f6f6261723a96c8-",
            b"66" * 64,  # no colon
            b"GET / HTTP/1.1\r\n\r\n",
            b"\x16\x03\x01\x02\x00",  # TLS
            b"\n" * 5000,
        ],
    )
    def test_are_denied_at_once_if_they_cannot_become_right(self, message: bytes) -> None:
        session = Session()
        assert session.feed(message) == DENIED
        assert session.state is State.CLOSED and session.patience is None
        assert session.feed(FOOBAR) == [] == session.eof() == session.gap() == session.checked(True)

    def test_are_denied_after_a_while_if_they_do_not_go_on(self) -> None:
        session = Session()
        assert session.patience == LOGIN_PATIENCE
        session.feed(b"666f6f6261723a3137336363643535253331")  # the example of MaxScale's documentation
        assert session.patience == LOGIN_PATIENCE
        assert session.gap() == DENIED

    def test_are_denied_if_the_connection_ends_before_they_do(self) -> None:
        session = Session()
        session.feed(FOOBAR[:-1])
        assert session.eof() == DENIED
        assert Session().eof() == DENIED

    def test_that_are_wrong_are_denied_and_nothing_behind_them_is_read(self) -> None:
        session = Session()
        assert session.feed(FOOBAR + REGISTER) == [Check("foobar", DIGEST)]
        assert session.checked(False) == DENIED
        assert session.checked(True) == []

    def test_that_fail_in_one_piece_with_their_neighbour_are_told_so_once(self) -> None:
        session = Session()
        session.feed(FOOBAR)
        assert session.eof() == []
        assert session.checked(True) == [Send(b"OK\n"), Close()]


class TestRegister:
    """The second message."""

    @pytest.mark.parametrize(
        ("message", "uuid", "form"),
        [
            (b"REGISTER UUID=XXX-YYY_YYY, TYPE=JSON", "XXX-YYY_YYY", Form.JSON),
            (b"REGISTER UUID=11ec2300-2e23-11e6-8308-0002a5d5c51b, TYPE=AVRO", "11ec2300-2e23-11e6-8308-0002a5d5c51b",
             Form.AVRO),
            (b"REGISTER UUID=a,TYPE=JSON", "a", Form.JSON),
            (b"REGISTER UUID=a TYPE=JSON", "a", Form.JSON),
            (b"REGISTER UUID=, TYPE=JSON", "", Form.JSON),
            (b"REGISTER UUID= TYPE=AVRO", "", Form.AVRO),
            (b"REGISTER UUID=TYPE=JSON, TYPE=AVRO", "TYPE=JSON", Form.AVRO),
            (b"REGISTER UUID=a, TYPE=JSONx", "a", Form.JSON),
            (b"please REGISTER UUID=a, TYPE=JSON", "a", Form.JSON),
            (b"REGISTER UUID=\xff, TYPE=JSON\r\n", "\ufffd", Form.JSON),
            (b"REGISTER TYPE=JSON, UUID=XXX-YYY_YYY\n", "XXX-YYY_YYY", Form.JSON),
            (b"REGISTER TYPE=AVRO UUID=a\r\n", "a", Form.AVRO),
        ],
    )  # fmt: skip
    def test_is_taken_in_all_forms_that_clients_use(self, message: bytes, uuid: str, form: Form) -> None:
        session = unregistered()
        assert session.feed(message) == [Send(b"OK\n")]
        assert (session.uuid, session.form, session.patience) == (uuid, form, None)

    @pytest.mark.parametrize("cut", range(1, len(REGISTER)))
    def test_may_come_in_pieces_with_a_silence_between_them(self, cut: int) -> None:
        session = unregistered()
        assert session.feed(REGISTER[:cut]) == []
        assert session.patience == LOGIN_PATIENCE
        assert session.feed(REGISTER[cut:])[-1] == Send(b"OK\n")

    def test_that_names_the_form_first_ends_as_any_command(self) -> None:
        session = unregistered()
        assert session.feed(b"REGISTER TYPE=AVRO, UUID=a") == []
        assert session.patience == COMMAND_GAP
        assert session.gap() == [Send(b"OK\n")]
        assert (session.uuid, session.form) == ("a", Form.AVRO)

    @pytest.mark.parametrize(
        "message",
        [
            b"REGISTER UUID=a, TYPE=json",
            b"REGISTER UUID=a b, TYPE=JSON",
            b"register UUID=a, TYPE=JSON",
            b"REGISTER TYPE=JSON",
            b"REQUEST-DATA shop.orders",
            b"R" * 5000,
        ],
    )
    def test_that_is_none_is_refused_after_the_gap_or_at_its_line_end(self, message: bytes) -> None:
        session = unregistered()
        assert session.feed(message) == []
        assert session.patience == COMMAND_GAP
        assert session.gap() == STRANGER
        session = unregistered()
        assert session.feed(message + b"\r\n" + REGISTER) == STRANGER

    def test_that_stops_halfway_is_refused_after_a_while(self) -> None:
        session = unregistered()
        session.feed(b"REGISTER UUID=a, ")
        assert session.patience == LOGIN_PATIENCE
        assert session.gap() == STRANGER

    def test_may_be_followed_by_anything_with_nothing_between(self) -> None:
        said = FOOBAR + REGISTER + b"REQUEST-DATA a.b\nCLOSE"
        for at in range(len(said)):
            session = Session()
            actions = session.feed(said[:at]) + session.feed(said[at:])
            actions += session.checked(True) + session.found() + session.gap()
            assert actions == [
                Check("foobar", DIGEST), Send(b"OK\n"), Send(b"OK\n"),
                Request("a", "b"), Close(),
            ]  # fmt: skip
