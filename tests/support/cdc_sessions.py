"""CDC sessions in each state, without a socket."""

from __future__ import annotations

from relay.protocol.cdc_messages import Form
from relay.protocol.cdc_session import (
    Action,
    Close,
    Send,
    Session,
)
from relay.protocol.cdc_states import State

FOOBAR = b"666f6f6261723a96c86eb4479c9e3142111cf29d931bcddf248783"
DIGEST = bytes.fromhex("96c86eb4479c9e3142111cf29d931bcddf248783")
REGISTER = b"REGISTER UUID=XXX-YYY_YYY, TYPE=JSON"
ANSWER = b'{"GTID": "0-1-178"}\n'
DENIED: list[Action] = [Send(b"ERROR: Authentication failed\n"), Close()]
STRANGER: list[Action] = [Send(b"ERR, code 12, msg: Registration failed\n"), Close()]
UNKNOWN = Send(b"ERR: Unknown command\n")


def unregistered() -> Session:
    session = Session()
    session.feed(FOOBAR)
    session.checked(True)
    assert session.state is State.UNREGISTERED
    return session


def registered(form: Form = Form.JSON) -> Session:
    session = unregistered()
    assert session.feed(b"REGISTER UUID=a, TYPE=" + form.encode()) == [Send(b"OK\n")]
    assert (session.uuid, session.form) == ("a", form)
    assert session.state is State.REGISTERED
    return session


def streaming() -> Session:
    session = registered()
    session.feed(b"REQUEST-DATA shop.orders\n")
    assert session.found() == []
    assert session.state is State.STREAMING
    return session
