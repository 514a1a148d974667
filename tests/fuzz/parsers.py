"""The fuzz targets in Python: everything that reads bytes from clients, operators, or the source."""

from __future__ import annotations

import asyncio
import re
import socket
import struct
import tempfile
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Final

from tornado.iostream import IOStream

from relay.binlog.decoder import Decoder
from relay.binlog.events import RowsEvent, TransactionPayloadEvent
from relay.cdc import users
from relay.cdc.users import Users
from relay.config.load import load
from relay.ddl import Dialect, SqlMode
from relay.ddl.readings import readings
from relay.ddl.syntax import TableName
from relay.errors import ErrorCode, RelayError, StopCode
from relay.lake.documents import Table, TableState
from relay.lake.statements import effects
from relay.monitoring.documents import ClientDetail, History, TableDetail, TableSchema
from relay.monitoring.http import Latest, Server, application
from relay.monitoring.stat import Stat
from relay.monitoring.views import Views
from relay.protocol import cdc_messages, classic
from relay.protocol.cdc_framing import MAX_COMMAND
from relay.protocol.cdc_messages import Request
from relay.protocol.cdc_session import MAX_PENDING, Action, Check, Close, Last, Send, Session, Transaction
from relay.protocol.cdc_states import State
from relay.protocol.classic import Command, MalformedPayload, TableFilter
from relay.serving import admin
from tests.browser.documents import Told
from tests.fuzz.guided import Target
from tests.support import FIXTURES, ROOT
from tests.support.cdc_client import credentials

CONF: Final = ROOT / "conf" / "relay.conf"


class Wrong(Exception):
    """A target broke a rule."""


def require(true: object, what: object) -> None:
    """Fail the input unless this is true."""
    if not true:
        raise Wrong(repr(what))


# -- CDC sessions: a byte that selects the answers, then pieces, each after a byte for a gap and a byte for its size --

_GLUED: Final = re.compile(rb"TYPE=(JSON|AVRO)[^ \r\nCQR]")
_ANSWER: Final = b'{"GTID": "0-1-178"}\n'


def cdc() -> Target:
    """The events of a connection: bytes, gaps and the end, in any order."""
    login = credentials("maxuser", "maxpwd")
    register = b"REGISTER UUID=XXX-YYY, TYPE=JSON"
    seeds = [
        _pieces(login, register, b"REQUEST-DATA shop.orders"),
        _pieces(login, register + b"\n", b"REQUEST-DATA shop.orders.000002 0-1-2\r\n", b"CLOSE"),
        _pieces(login[:9], login[9:] + register + b"QUERY-LAST-TRANSACTION\n", b"QUERY-TRANSACTION 0-1-2\n"),
        _pieces(login, b"REGISTER UUID=a, TYPE=AVRO REQUEST-DATA a.b", b"QUERY-TRANSACTION", b"\r\n", b"BOGUS\n"),
    ]
    return Target(_cdc, seeds, ("relay.protocol.cdc_session",))


def _pieces(*pieces: bytes) -> bytes:
    return b"\0" + b"".join(bytes((1, len(piece))) + piece for piece in pieces)


def _cdc(content: bytes) -> None:
    with_gaps, whole = Session(), Session()
    answers = content[:1] or b"\0"
    heard: list[Action] = []
    plain: list[Action] = []
    said = b""
    at = 1
    gaps = False
    while at + 2 <= len(content):
        what, size = content[at], content[at + 1]
        piece = content[at + 2 : at + 2 + size]
        at += 2 + size
        if what & 2:
            gaps = True
            heard += _answered(with_gaps, with_gaps.gap(), answers)
        heard += _answered(with_gaps, with_gaps.feed(piece), answers)
        said += piece
        require(len(with_gaps._framer) <= MAX_PENDING + MAX_COMMAND, len(with_gaps._framer))
    heard += _answered(with_gaps, with_gaps.eof(), answers)
    require(with_gaps.state is State.CLOSED, with_gaps.state)
    require(with_gaps.feed(b"CLOSE") == [] and with_gaps.patience is None, "it goes on after its end")
    for action in heard[:-1]:
        require(not isinstance(action, Close), heard)
    for action in heard:
        if isinstance(action, Send):
            require(action.data.endswith(b"\n") and action.data.count(b"\n") == 1, action)
    # Without gaps the division into pieces makes no difference, except for text directly after TYPE=JSON or TYPE=AVRO:
    # a piece that ends there ends REGISTER.
    if not gaps and not _GLUED.search(said):
        plain += _answered(whole, whole.feed(said), answers)
        plain += _answered(whole, whole.eof(), answers)
        require(plain == heard, (plain, heard))


def _answered(session: Session, actions: list[Action], answers: bytes) -> list[Action]:
    """The actions, and those that follow when each gets its answer at once."""
    done: list[Action] = []
    while actions:
        action, *actions = actions
        done.append(action)
        if isinstance(action, Check):
            actions += session.checked(not answers[0] & 1)
        elif isinstance(action, Request):
            require(all((action.schema, action.table)), action)
            actions += session.missing() if answers[0] & 2 else session.found()
        elif isinstance(action, Last | Transaction):
            actions += session.answered(_ANSWER)
    return done


# -- the payloads of the classic protocol that Python reads, after the command --


def classic_payloads() -> Target:
    """Payloads of requests, and replies as the client library reads them."""
    table = TableFilter(7, 2, 100, "shop", "orders")
    seeds = [
        bytes((0,)) + classic.encode_auth(7, "cache"),
        bytes((1,)) + classic.encode_filter(table),
        bytes((2,)) + classic.encode_filter_name(classic.FilterName(7, "shop", "orders")),
        bytes((3,)) + classic.encode_filters([table, table]),
        bytes((4,)) + classic.encode_reply(0, b"x") + classic.encode_reply(1),
        bytes((5,)) + b'{"client": "cache", "position": "newest"}',
        bytes((6,)) + b'{"schema": "shop", "table": "orders"}',
        bytes((7,)) + struct.pack("<IIIsI", 2, 2, 1, b"a", 0),
    ]
    return Target(_classic, seeds, ("relay.protocol.classic", "relay.serving.admin"))


def _classic(content: bytes) -> None:
    parsers: list[Callable[[bytes], object]] = [
        classic.parse_auth,
        classic.parse_filter,
        classic.parse_filter_name,
        classic.parse_filters,
        _replies,
        lambda payload: admin._request(1, Command.SEEK_CLIENT, payload),
        lambda payload: admin._parse(payload, admin._TablePayload, Command.EXPLAIN),
        classic.parse_streams,
    ]
    number, payload = (content[0], content[1:]) if content else (0, b"")
    try:
        found = parsers[number % len(parsers)](payload)
    except MalformedPayload as error:
        require(str(error), error)
        return
    except RelayError as error:
        require(error.code is ErrorCode.PROTOCOL, error)
        return
    if isinstance(found, TableFilter):
        require(classic.parse_filter(classic.encode_filter(found)) == found, found)
    elif isinstance(found, classic.FilterName):
        require(classic.parse_filter_name(classic.encode_filter_name(found)) == found, found)
    elif isinstance(found, classic.Auth):
        require(0 < len(found.name.encode()) <= classic.MAX_NAME, found)


def _replies(content: bytes) -> None:
    parser = classic.ReplyParser()
    for start in range(0, len(content), 7):
        parser.feed(content[start : start + 7])
        while parser.next() is not None:
            pass


# -- the file of the CDC port's users --


def cdc_users() -> Target:
    """The content of a file. An added user can log in, a removed one cannot, and nothing changes for the others."""
    line = b"maxuser:5EDBD32E469DAE0CE10E6999C3899DEFCB9F12E0"
    return Target(_users, [line + b"\n", b"#x\n" + line + b"\r\n" + line.lower(), b":\n" * 3], ("relay.cdc.users",))


def _users(content: bytes) -> None:
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        path = Path(folder) / "cdcusers"
        path.write_bytes(content)
        before = users.names(path)
        new = users.add(path, "añother", "a password")
        require(new == ("añother" not in before), before)
        rules = Users(path, "never", "", "")
        require(rules.check("añother", cdc_messages.digest_of(b"a password")), "who was added is not let in")
        require(not rules.check("añother", cdc_messages.digest_of(b"another password")), "any password")
        for name in before:
            require(name in users.names(path), name)
        require(users.remove(path, "añother"), "it was not there")
        require(users.names(path) == [name for name in before if name != "añother"], before)


# -- the configuration file --


def config() -> Target:
    """The content of a file."""
    sample = CONF.read_bytes()
    start = b"[Server]\nLogin=l\nAuthSecret=s\n"
    parts = [part for part in sample.replace(b"\n;", b"\n").split(b"\n\n") if part.strip()]
    seeds = [start, *(start + part for part in parts)]
    seeds += [start + b"[Client a]\nSecret=\xff\nTables=*.x, a.b*\nFrom = ::1/64", b"\xef\xbb\xbf" + start]
    return Target(_config, seeds, ("relay.config.load", "relay.config.ini"))


def _config(content: bytes) -> None:
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        path = Path(folder) / "relay.conf"
        path.write_bytes(content)
        try:
            _, warnings = load(str(path), {}, {})
        except RelayError as error:
            require(error.code is ErrorCode.CONFIG and error.position and error.cause, error)
            require("\n" not in error.line(), error)
            return
        for warning in warnings:
            require(warning.position and warning.text, warning)


# -- events of a binlog: for each its type, flags, size of the body (u16), and body --


def events() -> Target:
    """Events as `relay tail` and `relay verify` read them. The ingest has a native target."""
    seeds = []
    for path in sorted(FIXTURES.glob("mysql56-*-none.binlog")):
        found = list(_bodies(path.read_bytes()))
        seeds += [b"".join(found[start : start + 8])[:4096] for start in range(0, len(found), 4)]
    return Target(_events, seeds, ("relay.binlog",))


def _bodies(binlog: bytes) -> Iterator[bytes]:
    at = 4
    while at + 19 <= len(binlog):
        size = struct.unpack_from("<I", binlog, at + 9)[0]
        body = binlog[at + 19 : at + size]
        if len(body) < 2000:
            yield struct.pack("<BHH", binlog[at + 4], struct.unpack_from("<H", binlog, at + 17)[0], len(body)) + body
        at += size


def _events(content: bytes) -> None:
    decoder = Decoder(checksums=False)
    at = 0
    while at + 5 <= len(content):
        kind, flags, size = struct.unpack_from("<BHH", content, at)
        body = content[at + 5 : at + 5 + size]
        at += 5 + size
        raw = struct.pack("<IBIIIH", 1_700_000_000, kind, 1, 19 + len(body), 4 + at, flags) + body
        try:
            event = decoder.decode(raw)
            for each in event.events if isinstance(event, TransactionPayloadEvent) else (event,):
                if isinstance(each, RowsEvent):
                    decoder.rows(each)
        except RelayError as error:
            require(isinstance(error.code, StopCode) and error.cause, error)


# -- statements in the binlog --


def statements() -> Target:
    """Statements, as the reader and the lake read them."""
    texts = [
        "CREATE TABLE IF NOT EXISTS `shop`.`orders` (id INT PRIMARY KEY, n VARCHAR(10) DEFAULT 'x''y') ENGINE=InnoDB",
        "ALTER TABLE shop.orders ADD COLUMN (c INT), RENAME TO shop.`old``er` /* why */ -- so",
        "DROP TABLE IF EXISTS a, b.c CASCADE",
        "RENAME TABLE a TO b, c TO d.e",
        "/*!50003 CREATE*/ /*M!100300 OR REPLACE */ TABLE t SELECT 1 FROM u",
        "CREATE DEFINER=`a`@`%` TRIGGER t AFTER INSERT ON x FOR EACH ROW BEGIN UPDATE y SET a = 1; END",
        "INSERT INTO t VALUES ('\\'', \"x\", 0x41, N'y')",
        "XA COMMIT X'6162',X'',1",
        "TRUNCATE t",
        "ALTER TABLE t PARTITION BY RANGE (id) (PARTITION p0 VALUES LESS THAN (10))",
    ]
    return Target(_statements, [text.encode() for text in texts], ("relay.ddl", "relay.lake"))


_LAKE: Final[Mapping[str, TableState]] = {name: TableState(Table("shop", name)) for name in ("orders", "older", "t")}


def _statements(content: bytes) -> None:
    text = content.decode("utf-8", "replace")
    for schema in ("", "shop"):
        for dialect in (None, Dialect(False, 90704), Dialect(True, 110806, SqlMode.ANSI_QUOTES | SqlMode.ORACLE)):
            for found in readings(text, schema, dialect):
                require(not (found.opaque and found.changes), found)
                subject = found.mentioned.subject
                require(subject is None or found.mentioned.may_include(TableName(*subject)), found)
            for table, marker in effects(text, schema, _LAKE, dialect):
                require(table.schema and table.table and marker, (table, marker))


# -- HTTP: the bytes of a connection --


_CLOSING_TURNS: Final = 10  # of the event loop, in which the server notices that a connection has ended


class _Views(Views):
    """The views of a relay with one table and one client."""

    def __init__(self, told: Told) -> None:
        self._told = told

    def history(self) -> History:
        return self._told.history()

    def client(self, document: Stat, client_id: int) -> ClientDetail | None:
        return self._told.client(0) if client_id == 1 else None

    def schema(self) -> list[TableSchema]:
        return self._told.schema()

    def table(self, document: Stat, schema: str, table: str) -> TableDetail | None:
        return self._told.table(0) if (schema, table) == ("shop", "orders") else None


def http() -> Target:
    """Requests to the monitor's HTTP server. It replies or closes the connection, and logs no error."""
    told = Told([("shop", "orders")], ["cache"])
    complaints: list[object] = []

    def log(event: str, **fields: object) -> None:
        complaints.append((event, fields))

    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    loop.set_exception_handler(lambda _, about: complaints.append(about))
    server = Server(application(Latest(told.stat), _Views(told), log))
    paths = [
        "/",
        "/api/stat?fresh=1",
        "/api/client?id=1",
        "/api/table?schema=shop&table=%6frders",
        "/metrics",
        "/static/js/main.js",
    ]
    seeds = [f"GET {path} HTTP/1.1\r\nHost: a\r\nAccept-Encoding: gzip, *;q=0\r\n\r\n".encode() for path in paths]
    seeds += [
        b"POST /healthz HTTP/1.0\r\nContent-Length: 3\r\n\r\nabc",
        b"HEAD /readyz HTTP/1.1\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
        b"GET /api/schema HTTP/1.1\r\nHost: a\r\n\r\nGET /api/history HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n",
    ]
    return Target(
        partial(_http, loop, server, complaints),
        seeds,
        ("relay.monitoring.http", "relay.monitoring.views", "tornado.http"),
    )


def _http(loop: asyncio.AbstractEventLoop, server: Server, complaints: list[object], content: bytes) -> None:
    near, far = socket.socketpair()
    with far:
        far.sendall(content)
        far.shutdown(socket.SHUT_WR)
        far.setblocking(False)
        server.handle_stream(IOStream(near), ("127.0.0.1", 1))
        answer = loop.run_until_complete(_read(loop, far))
    for _ in range(_CLOSING_TURNS):
        if server.connections:
            loop.run_until_complete(asyncio.sleep(0))
    require(not complaints, complaints)
    require(not server.connections, "a connection is left")
    require(not answer or answer.startswith((b"HTTP/1.1 2", b"HTTP/1.1 4")), answer[:100])


async def _read(loop: asyncio.AbstractEventLoop, sock: socket.socket) -> bytes:
    answer = b""
    while True:
        try:
            data = await loop.sock_recv(sock, 1 << 16)
        except ConnectionError:
            return answer
        if not data:
            return answer
        answer += data


TARGETS: Final[Mapping[str, Callable[[], Target]]] = {
    "cdc_session": cdc,
    "cdc_users": cdc_users,
    "classic": classic_payloads,
    "config": config,
    "events": events,
    "http": http,
    "statements": statements,
}
"""By the name of the folder in which inputs that failed are kept."""
