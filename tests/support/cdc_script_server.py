"""A server of the CDC protocol without a relay: the relay's session, and streams that a test has written.

It can be told to reply incorrectly, so that a test can check that clients notice.
"""

from __future__ import annotations

import select
import socket
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from types import TracebackType
from typing import Self

from relay.protocol.cdc_messages import Request, digest_of
from relay.protocol.cdc_session import Action, Check, Close, Send, Session
from tests.support.cdc_client import SECRET, USER

Cut = Callable[[bytes], Iterable[bytes]]

SCHEMA = (
    b'{"namespace":"MaxScaleChangeDataSchema.avro","type":"record","name":"ChangeRecord","table":"t",'
    b'"database":"shop","version":1,"gtid":"0-3000-1","fields":[{"name":"domain","type":"long"},'
    b'{"name":"server_id","type":"long"},{"name":"sequence","type":"long"},{"name":"event_number","type":"long"},'
    b'{"name":"timestamp","type":"long"},{"name":"event_type","type":{"type":"enum","name":"EVENT_TYPES",'
    b'"symbols":["insert","update_before","update_after","delete"]}},{"name":"id","type":["null","int"],'
    b'"real_type":"int","length":-1,"unsigned":false}]}\n'
)
_PAUSE = 0.03


def row(number: int, text: str = "") -> bytes:
    """A row of that schema, with more after it if there is `text`."""
    more = f', "text": "{text}"' if text else ""
    return (
        f'{{"domain": 0, "server_id": 3000, "sequence": {number}, "event_number": 1, "timestamp": 1537429419,'
        f' "event_type": "insert", "id": {number}{more}}}\n'
    ).encode()


def whole(reply: bytes) -> list[bytes]:
    """The correct form: one write."""
    return [reply]


class ScriptServer:
    """Serves `streams`, by name as in REQUEST-DATA, and closes after them by a FIN.

    `cut` splits the replies before a stream into pieces, which are sent with pauses.
    """

    def __init__(self, streams: Mapping[str, Iterable[bytes]], cut: Cut = whole) -> None:
        self.requests: list[Request] = []
        self.uuids: list[str] = []
        self._streams, self._cut = streams, cut
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listening.getsockname()[1]
        self._failed: list[BaseException] = []
        self._threads = [threading.Thread(target=self._accept)]
        self._threads[0].start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, _: type[BaseException] | None, error: BaseException | None, __: TracebackType | None) -> None:
        self._listening.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join()
        self._listening.close()
        if self._failed and not error:
            raise self._failed[0]

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listening.accept()
            except OSError:
                return
            thread = threading.Thread(target=self._serve, args=(connection,))
            self._threads.append(thread)
            thread.start()

    def _serve(self, connection: socket.socket) -> None:
        session = Session()
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        with connection:
            try:
                open_ = True
                while open_:
                    readable, _, _ = select.select([connection], [], [], session.patience)
                    data = connection.recv(4096) if readable else b""
                    actions = session.feed(data) if data else session.eof() if readable else session.gap()
                    open_ = self._perform(connection, session, actions)
            except (BrokenPipeError, ConnectionResetError):
                pass  # the client has given up
            except BaseException as error:
                self._failed.append(error)

    def _perform(self, connection: socket.socket, session: Session, actions: list[Action]) -> bool:
        """Performs these actions and those that follow from them; returns whether the connection continues."""
        for action in actions:
            match action:
                case Send(data):
                    self._send(connection, self._cut(data))
                case Check(user, digest):
                    right = (user, digest) == (USER, digest_of(SECRET.encode()))
                    return self._perform(connection, session, session.checked(right))
                case Request():
                    return self._stream(connection, session, action)
                case Close():
                    return False
        return True

    def _stream(self, connection: socket.socket, session: Session, request: Request) -> bool:
        self.requests.append(request)
        self.uuids.append(session.uuid)
        self._perform(connection, session, session.found())
        self._send(connection, self._streams[f"{request.schema}.{request.table}"])
        return False

    def _send(self, connection: socket.socket, pieces: Iterable[bytes]) -> None:
        for number, piece in enumerate(pieces):
            if number:
                time.sleep(_PAUSE)
            connection.sendall(piece)
