"""The HTTP interface. It is read-only.

Requests within half a second share one document. No client can harm another. Only the monitor process imports this
module, when it runs: tornado imports asyncio, which the supervisor must not load.
"""

from __future__ import annotations

import gzip
import ipaddress
import re
import socket
import time
import traceback
from collections import OrderedDict
from collections.abc import Callable, Sequence
from functools import cached_property
from http import HTTPStatus
from pathlib import Path
from typing import Any, Final, cast

import msgspec
from tornado.http1connection import HTTP1ServerConnection
from tornado.httpserver import HTTPServer
from tornado.httputil import HTTPConnection, HTTPMessageDelegate
from tornado.iostream import IOStream
from tornado.web import Application, HTTPError, RequestHandler

from relay import __version__
from relay.base.log import Log
from relay.monitoring import health
from relay.monitoring.documents import Failure, Health
from relay.monitoring.stat import Stat
from relay.monitoring.views import Views

FRESH: Final = 0.5
"""Seconds for which a collected document is used."""

MAX_CONNECTIONS: Final = 256
"""The most connections. A further one replaces the one that has been idle for longest."""

IDLE_SECONDS: Final = 60.0
"""Time limit for the head of a connection's next request."""

BODY_SECONDS: Final = 10.0
STALL_MILLISECONDS: Final = 20_000
"""After this time without an acknowledgement of sent bytes by the client, the kernel ends the connection."""

MAX_HEAD: Final = 16 << 10
MAX_BODY: Final = 4 << 10
_GZIP: Final = re.compile(r"(?:^|,)\s*gzip\s*(?:;|,|$)", re.IGNORECASE)
_WORTH_COMPRESSING: Final = 1024  # bytes

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
    """A body and its type. The body is compressed at most once, for any number of requests."""

    def __init__(self, body: bytes, kind: str = _JSON) -> None:
        self.body = body
        self.kind = kind

    @cached_property
    def compressed(self) -> bytes:
        """The body in gzip format."""
        return gzip.compress(self.body, 5, mtime=0)


class Latest:
    """The stat document, collected again when it is older than `FRESH`, and the contents made of it.

    `clock` returns seconds from any origin.
    """

    def __init__(self, collect: Callable[[], Stat], clock: Callable[[], float] = time.monotonic) -> None:
        self._collect = collect
        self._clock = clock
        self._document: Stat | None = None
        self._until = 0.0
        self._contents: dict[str, Content] = {}

    def document(self, now: bool = False) -> Stat:
        """Return the document, not older than `FRESH`; or, with `now`, a new one."""
        if self._document is None or now or self._clock() >= self._until:
            self._document, self._contents = self._collect(), {}
            self._until = self._clock() + FRESH
        return self._document

    def content(self, name: str, make: Callable[[Stat], Content]) -> Content:
        """Return the result of `make` for the document, computed once per document."""
        document = self.document()
        if name not in self._contents:
            self._contents[name] = make(document)
        return self._contents[name]


def application(latest: Latest, views: Views, log: Log, hosts: Callable[[], Sequence[str]] = tuple) -> Application:
    """All endpoints; docs/http.md lists them. `hosts` are the names by which the page may be requested, `HTTPHosts`."""
    files = page_files()
    parts = {"latest": latest, "views": views, "files": files, "hosts": hosts, "log": log}
    return Application(
        [(path, handler, parts) for path, handler in ENDPOINTS],
        default_handler_class=_NotFound,
        default_handler_args=parts,
        log_function=lambda handler: None,  # requests are not logged: every open page sends one a second
    )


def page_files() -> dict[str, Content]:
    """Return the page's files by their path below relay/page, as they are installed."""
    folder = Path(__file__).parents[1] / "page"
    files = (file for file in folder.rglob("*") if file.suffix in _TYPES and file.is_file())
    return {file.relative_to(folder).as_posix(): Content(file.read_bytes(), _TYPES[file.suffix]) for file in files}


class Server(HTTPServer):
    """Limit the number of connections.

    In a flood, new connections replace those of the flood and, at worst, that of a page, which reconnects. The kernel
    ends the connection of a client that does not read, tornado that of a client that does not write.
    """

    def initialize(self, application: Application) -> None:  # type: ignore[override]
        """Set limits on what a client sends, and on the time that it takes."""
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
        """Whether an address may connect. Other connections are closed without reading."""

    def serve(self, listener: socket.socket) -> None:
        """Accept connections on a socket that already listens."""
        # Accepted sockets inherit this option.
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, STALL_MILLISECONDS)
        self.add_socket(listener)

    @property
    def connections(self) -> int:
        """The number of open connections."""
        return len(self._open)

    def handle_stream(self, stream: IOStream, address: Any) -> None:
        """Handle a new connection."""
        if not self.admits(address[0]):
            stream.close()
            return
        if len(self._open) >= MAX_CONNECTIONS:
            self._open.popitem(last=False)[0].close()
        self._open[stream] = None
        super().handle_stream(stream, address)

    def start_request(self, server_conn: object, request_conn: HTTPConnection) -> HTTPMessageDelegate:
        """Note that the head of a request has arrived: the connection is no longer idle."""
        stream = cast(HTTP1ServerConnection, server_conn).stream
        if stream in self._open:
            self._open.move_to_end(stream)
        return super().start_request(server_conn, request_conn)

    def on_close(self, server_conn: object) -> None:
        """Note that a connection has ended, by either side."""
        self._open.pop(cast(HTTP1ServerConnection, server_conn).stream, None)
        super().on_close(server_conn)


class _Handler(RequestHandler):
    def initialize(
        self, latest: Latest, views: Views, files: dict[str, Content], hosts: Callable[[], Sequence[str]], log: Log
    ) -> None:
        self.latest, self.views, self.files, self.hosts, self.log = latest, views, files, hosts, log

    def prepare(self) -> None:
        """Reject host names of others that resolve to this address (DNS rebinding)."""
        if not host_allowed(self.request.host_name, self.hosts()):
            text = f"the host name {self.request.host_name} is not allowed: add it to HTTPHosts in [Server]"
            raise HTTPError(HTTPStatus.MISDIRECTED_REQUEST, text)

    def set_default_headers(self) -> None:
        for name, value in _HEADERS.items():
            self.set_header(name, value)

    def compute_etag(self) -> None:
        """No ETag: clients have nothing stored to validate."""

    def head(self, *arguments: str) -> None:
        """As GET; tornado leaves out the body."""
        self.get(*arguments)

    def send(self, content: Content) -> None:
        self.set_header("Content-Type", content.kind)
        body = content.body
        if len(body) >= _WORTH_COMPRESSING:
            self.set_header("Vary", "Accept-Encoding")
            if _GZIP.search(self.request.headers.get("Accept-Encoding", "")):
                self.set_header("Content-Encoding", "gzip")
                body = content.compressed
        self.finish(body)

    def send_json(self, document: msgspec.Struct | list[Any] | None, absent: str = "") -> None:
        """Send a document; without one, an error with the text `absent`."""
        if document is None:
            raise HTTPError(HTTPStatus.NOT_FOUND, absent)
        self.send(Content(msgspec.json.encode(document)))

    def write_error(self, status_code: int, **kwargs: Any) -> None:
        error = kwargs["exc_info"][1] if "exc_info" in kwargs else None
        text = error.log_message if isinstance(error, HTTPError) and error.log_message else self._reason
        if status_code == HTTPStatus.METHOD_NOT_ALLOWED:
            self.set_header("Allow", "GET, HEAD")
        self.send_json(Failure(text))

    def log_exception(self, kind: type[BaseException] | None, error: BaseException | None, trace: Any) -> None:
        """Log an internal error, which the client sees as error 500. Do not log a client's mistake."""
        if not isinstance(error, HTTPError):
            where = traceback.extract_tb(trace)[-1]
            self.log("request_failed", path=self.request.path, error=repr(error), at=f"{where.name}:{where.lineno}")


def host_allowed(host: str, names: Sequence[str]) -> bool:
    """Whether requests for this host are allowed: an address, localhost, or one of the names; `*` allows any."""
    host = host.lower().removeprefix("[").removesuffix("]").removesuffix(".")
    if host == "localhost" or "*" in names or host in (name.lower() for name in names):
        return True
    try:
        ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return False
    return True


class _NotFound(_Handler):
    def prepare(self) -> None:
        super().prepare()
        raise HTTPError(HTTPStatus.NOT_FOUND, "there is no such path; docs/http.md lists all paths")


class _File(_Handler):
    def get(self, name: str = "index.html") -> None:
        content = self.files.get(name)
        if content is None:
            raise HTTPError(HTTPStatus.NOT_FOUND, "the page has no such file")
        self.send(content)


class _StatDocument(_Handler):
    def get(self) -> None:
        self.latest.document(now=self.get_query_argument("fresh", "") == "1")
        self.send(self.latest.content("stat", lambda document: Content(msgspec.json.encode(document))))


class _HistoryDocument(_Handler):
    def get(self) -> None:
        self.send_json(self.views.history())


class _ClientDocument(_Handler):
    def get(self) -> None:
        wanted = self.get_query_argument("id")
        if not re.fullmatch(r"\d{1,10}", wanted, re.ASCII):
            raise HTTPError(HTTPStatus.BAD_REQUEST, "id must be the number of a client")
        self.send_json(self.views.client(self.latest.document(), int(wanted)), "there is no such client")


class _TableDocument(_Handler):
    def get(self) -> None:
        schema = self.get_query_argument("schema", strip=False)
        table = self.get_query_argument("table", strip=False)
        self.send_json(self.views.table(self.latest.document(), schema, table), "no rows of this table were read")


class _SchemaDocument(_Handler):
    def get(self) -> None:
        self.send_json(self.views.schema())


class _TableHistoryDocument(_Handler):
    def get(self) -> None:
        schema = self.get_query_argument("schema", strip=False)
        table = self.get_query_argument("table", strip=False)
        self.send_json(self.views.table_history(schema, table), "the schema history has no such table")


class _Metrics(_Handler):
    def get(self) -> None:
        from relay.monitoring import metrics  # this loads the library for the format

        self.send(self.latest.content("metrics", lambda stat: Content(metrics.text(stat), metrics.CONTENT_TYPE)))


class _Alive(_Handler):
    def prepare(self) -> None:
        """Allow any host name: monitoring systems use their own names, and learn nothing else here."""

    def get(self) -> None:
        self.send_health(health.not_alive)

    def send_health(self, judge: Callable[[Stat], list[str]]) -> None:
        # A bad result is checked again with a new document: the ready line may be newer than the first one.
        reasons = judge(self.latest.document()) and judge(self.latest.document(now=True))
        if reasons:
            self.set_status(HTTPStatus.SERVICE_UNAVAILABLE)
        self.send_json(Health(not reasons, reasons))


class _Ready(_Alive):
    def get(self) -> None:
        self.send_health(health.not_ready)


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
