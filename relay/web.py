"""The HTTP interface: read-only, one document for all who ask within half a second, and no peer that harms another.

Imported by the monitor process only, when it runs: tornado brings asyncio, which has no place in the supervisor.
"""

from __future__ import annotations

import gzip
import importlib.resources
import ipaddress
import re
import socket
import time
import traceback
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from http import HTTPStatus
from importlib.resources.abc import Traversable
from typing import Any, Final, cast

import msgspec
from prometheus_client.exposition import gzip_accepted
from tornado.http1connection import HTTP1ServerConnection
from tornado.httpserver import HTTPServer
from tornado.httputil import HTTPConnection, HTTPMessageDelegate
from tornado.iostream import IOStream
from tornado.web import Application, HTTPError, RequestHandler

from relay import __version__, health, metrics
from relay.httpapi import Failure, Health
from relay.log import Log
from relay.stat import Stat
from relay.views import Views

FRESH: Final = 0.5
"""Seconds for which a collected document serves."""

MAX_CONNECTIONS: Final = 256
"""Connections at a time; a further one takes the place of the one that has been quiet for longest."""

IDLE_SECONDS: Final = 60.0
"""How long a connection may take for the next request's head."""

BODY_SECONDS: Final = 10.0
STALL_MILLISECONDS: Final = 20_000
"""How long a peer may take nothing of what was sent to it before the kernel ends the connection."""

MAX_HEAD: Final = 16 << 10
MAX_BODY: Final = 4 << 10
_WORTH_PACKING: Final = 1024

_TYPES: Final = {
    ".css": "text/css; charset=utf-8",
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
    ".txt": "text/plain; charset=utf-8",
}
_JSON: Final = "application/json"
_HEADERS: Final = {
    "Server": f"relay/{__version__}",
    "Cache-Control": "no-store",
    "Content-Security-Policy": "default-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}


class Content:
    """A body and its type, packed once however many ask for it."""

    def __init__(self, body: bytes, kind: str = _JSON) -> None:
        self.body = body
        self.kind = kind

    @cached_property
    def packed(self) -> bytes:
        """The body in gzip's format."""
        return gzip.compress(self.body, 5, mtime=0)

    @property
    def worth_packing(self) -> bool:
        """Whether that saves more than it costs."""
        return len(self.body) >= _WORTH_PACKING


class Latest:
    """The stat document, collected anew when it is older than `FRESH`, and what was made of it.

    `clock` gives seconds of any origin.
    """

    def __init__(self, collect: Callable[[], Stat], clock: Callable[[], float] = time.monotonic) -> None:
        self._collect = collect
        self._clock = clock
        self._document: Stat | None = None
        self._until = 0.0
        self._made: dict[str, Content] = {}

    def document(self, now: bool = False) -> Stat:
        """The document, not older than `FRESH`; or as it is `now`."""
        if self._document is None or now or self._clock() >= self._until:
            self._document, self._made = self._collect(), {}
            self._until = self._clock() + FRESH
        return self._document

    def made(self, name: str, make: Callable[[Stat], Content]) -> Content:
        """What `make` makes of the document, once for each document."""
        document = self.document()
        content = self._made.get(name)
        if content is None:
            content = self._made[name] = make(document)
        return content


def application(latest: Latest, views: Views, log: Log, hosts: Callable[[], Sequence[str]] = tuple) -> Application:
    """All endpoints; docs/http.md lists them. `hosts` are the names that the page may be asked by, `HTTPHosts`."""
    files = page_files()
    parts = {"latest": latest, "views": views, "files": files, "hosts": hosts, "log": log}
    return Application(
        [(path, handler, parts) for path, handler in ENDPOINTS],
        default_handler_class=_Nothing,
        default_handler_args=parts,
        log_function=lambda handler: None,  # a request a second from every open page is no event
    )


def page_files() -> dict[str, Content]:
    """The page's files by their path below relay/page, read from wherever the package is installed."""

    def walk(folder: Traversable, prefix: str) -> Iterator[tuple[str, Content]]:
        for entry in folder.iterdir():
            name = prefix + entry.name
            if entry.is_dir():
                yield from walk(entry, f"{name}/")
            elif kind := _TYPES.get(name[name.rfind(".") :]):
                yield name, Content(entry.read_bytes(), kind)

    return dict(walk(importlib.resources.files("relay.page"), ""))


class Server(HTTPServer):
    """Keeps the number of connections below a cap: floods push out each other and, at worst, a page that asks again.

    A peer that does not read is ended by the kernel, one that does not write by tornado.
    """

    def initialize(self, application: Application) -> None:  # type: ignore[override]
        """With limits for all that a peer may send or leave out."""
        super().initialize(
            application,
            idle_connection_timeout=IDLE_SECONDS,
            body_timeout=BODY_SECONDS,
            max_header_size=MAX_HEAD,
            max_body_size=MAX_BODY,
            max_buffer_size=MAX_HEAD + MAX_BODY,
        )
        self._open: OrderedDict[IOStream, None] = OrderedDict()
        self.admits: Callable[[str], bool] = lambda address: True
        """Whether somebody at this address may ask; others are hung up on unread."""

    def serve(self, listener: socket.socket) -> None:
        """Accepts on a socket that listens already."""
        # Accepted sockets inherit it.
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, STALL_MILLISECONDS)
        self.add_socket(listener)

    @property
    def connections(self) -> int:
        """Those that are open."""
        return len(self._open)

    def handle_stream(self, stream: IOStream, address: Any) -> None:
        """A new connection."""
        if not self.admits(address[0]):
            stream.close()
            return
        if len(self._open) >= MAX_CONNECTIONS:
            self._open.popitem(last=False)[0].close()
        self._open[stream] = None
        super().handle_stream(stream, address)

    def start_request(self, server_conn: object, request_conn: HTTPConnection) -> HTTPMessageDelegate:
        """A request's head has come: whoever asks is not quiet."""
        stream = cast(HTTP1ServerConnection, server_conn).stream
        if stream in self._open:
            self._open.move_to_end(stream)
        return super().start_request(server_conn, request_conn)

    def on_close(self, server_conn: object) -> None:
        """A connection has ended, whoever ended it."""
        self._open.pop(cast(HTTP1ServerConnection, server_conn).stream, None)
        super().on_close(server_conn)


class _Handler(RequestHandler):
    def initialize(
        self, latest: Latest, views: Views, files: dict[str, Content], hosts: Callable[[], Sequence[str]], log: Log
    ) -> None:
        self.latest, self.views, self.files, self.hosts, self.log = latest, views, files, hosts, log

    def prepare(self) -> None:
        """A name that somebody else made to point here (DNS rebinding) is not answered."""
        if not may_ask_by(self.request.host_name, self.hosts()):
            text = f"this page is not known as {self.request.host_name}: add that name to HTTPHosts in [Server]"
            raise HTTPError(HTTPStatus.MISDIRECTED_REQUEST, text)

    def set_default_headers(self) -> None:
        for name, value in _HEADERS.items():
            self.set_header(name, value)

    def compute_etag(self) -> None:
        """None: nothing is stored that could be asked for again."""

    def head(self, *arguments: str) -> None:
        """As GET; tornado leaves the body out."""
        self.get(*arguments)

    def answer(self, content: Content) -> None:
        self.set_header("Content-Type", content.kind)
        if not content.worth_packing:
            self.finish(content.body)
            return
        self.set_header("Vary", "Accept-Encoding")
        if gzip_accepted(self.request.headers.get("Accept-Encoding", "")):
            self.set_header("Content-Encoding", "gzip")
            self.finish(content.packed)
        else:
            self.finish(content.body)

    def answer_with(self, document: msgspec.Struct | list[Any]) -> None:
        self.answer(Content(msgspec.json.encode(document)))

    def write_error(self, status_code: int, **kwargs: Any) -> None:
        error = kwargs["exc_info"][1] if "exc_info" in kwargs else None
        text = error.log_message if isinstance(error, HTTPError) and error.log_message else self._reason
        if status_code == HTTPStatus.METHOD_NOT_ALLOWED:
            self.set_header("Allow", "GET, HEAD")
        self.answer_with(Failure(text))

    def log_exception(self, kind: type[BaseException] | None, error: BaseException | None, trace: Any) -> None:
        """What a peer did wrong is told to it alone; a defect of ours is logged, and is an error 500 to it."""
        if not isinstance(error, HTTPError):
            where = traceback.extract_tb(trace)[-1]
            self.log("request_failed", path=self.request.path, error=repr(error), at=f"{where.name}:{where.lineno}")


def may_ask_by(host: str, names: Sequence[str]) -> bool:
    """Whether a request for this host is answered: an address, localhost, or one of the names; `*` stands for any."""
    host = host.lower().removeprefix("[").removesuffix("]").removesuffix(".")
    if host == "localhost" or "*" in names or host in (name.lower() for name in names):
        return True
    try:
        ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return False
    return True


class _Nothing(_Handler):
    def prepare(self) -> None:
        super().prepare()
        raise HTTPError(HTTPStatus.NOT_FOUND, "there is no such path; docs/http.md lists those that there are")


class _File(_Handler):
    def get(self, name: str = "index.html") -> None:
        content = self.files.get(name)
        if content is None:
            raise HTTPError(HTTPStatus.NOT_FOUND, "the page has no such file")
        self.answer(content)


class _StatDocument(_Handler):
    def get(self) -> None:
        self.latest.document(now=self.get_query_argument("fresh", "") == "1")
        self.answer(self.latest.made("stat", lambda document: Content(msgspec.json.encode(document))))


class _HistoryDocument(_Handler):
    def get(self) -> None:
        self.answer_with(self.views.history())


class _ClientDocument(_Handler):
    def get(self) -> None:
        wanted = self.get_query_argument("id")
        if not re.fullmatch(r"\d{1,10}", wanted, re.ASCII):
            raise HTTPError(HTTPStatus.BAD_REQUEST, "id has to be the number of a client")
        detail = self.views.client(self.latest.document(), int(wanted))
        if detail is None:
            raise HTTPError(HTTPStatus.NOT_FOUND, "there is no such client")
        self.answer_with(detail)


class _TableDocument(_Handler):
    def get(self) -> None:
        schema = self.get_query_argument("schema", strip=False)
        table = self.get_query_argument("table", strip=False)
        detail = self.views.table(self.latest.document(), schema, table)
        if detail is None:
            raise HTTPError(HTTPStatus.NOT_FOUND, "no row of such a table was read")
        self.answer_with(detail)


class _SchemaDocument(_Handler):
    def get(self) -> None:
        self.answer_with(self.views.schema())


class _TableHistoryDocument(_Handler):
    def get(self) -> None:
        schema = self.get_query_argument("schema", strip=False)
        table = self.get_query_argument("table", strip=False)
        history = self.views.table_history(schema, table)
        if history is None:
            raise HTTPError(HTTPStatus.NOT_FOUND, "the schema history has no such table")
        self.answer_with(history)


class _Metrics(_Handler):
    def get(self) -> None:
        self.answer(self.latest.made("metrics", lambda document: Content(metrics.text(document), metrics.CONTENT_TYPE)))


class _Alive(_Handler):
    def prepare(self) -> None:
        """Whoever watches over a fleet asks by names of its own, and is told nothing else."""

    def get(self) -> None:
        self.tell(health.not_alive)

    def tell(self, missing: Callable[[Stat], list[str]]) -> None:
        # What was missing a moment ago may be there now, and a ready line may have said so.
        reasons = missing(self.latest.document()) and missing(self.latest.document(now=True))
        if reasons:
            self.set_status(HTTPStatus.SERVICE_UNAVAILABLE)
        self.answer_with(Health(not reasons, reasons))


class _Ready(_Alive):
    def get(self) -> None:
        self.tell(health.not_ready)


ENDPOINTS: Final = (
    (r"/", _File),
    (r"/static/(.+)", _File),
    (r"/api/stat", _StatDocument),
    (r"/api/history", _HistoryDocument),
    (r"/api/client", _ClientDocument),
    (r"/api/table", _TableDocument),
    (r"/api/schema", _SchemaDocument),
    (r"/api/schema/history", _TableHistoryDocument),
    (r"/metrics", _Metrics),
    (r"/healthz", _Alive),
    (r"/readyz", _Ready),
)
