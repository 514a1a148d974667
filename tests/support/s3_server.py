"""An S3 server on a real socket: moto's, one request at a time, so that its conditional puts are atomic as in S3.

`rules` may reply to a request in place of the server, before or after it was carried out, like a network or another
store.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from threading import Thread
from typing import Any

from moto.moto_api._internal.models import moto_api_backend
from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
from werkzeug.serving import make_server
from werkzeug.wrappers import Response

Environ = dict[str, Any]
Application = Callable[[Environ, Any], Iterable[bytes]]


class S3Server:
    """Runs while in its `with` block."""

    def __init__(self) -> None:
        self._moto: Application = DomainDispatcherApplication(create_backend_app)
        self._server = make_server("127.0.0.1", 0, self._answer)
        self._thread = Thread(target=self._server.serve_forever, name="s3")
        self.rules: list[Callable[[Environ, Application], Application]] = []
        self.requests: list[str] = []

    @property
    def url(self) -> str:
        """`http://127.0.0.1:port`."""
        return f"http://127.0.0.1:{self._server.port}"

    def __enter__(self) -> S3Server:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def reset(self) -> None:
        """Removes all buckets and rules."""
        moto_api_backend.reset()
        self.rules.clear()
        self.requests.clear()

    def _answer(self, environ: Environ, start: Any) -> Iterable[bytes]:
        self.requests.append(f"{environ['REQUEST_METHOD']} {environ['PATH_INFO']}")
        application = self._moto
        for rule in list(self.rules):
            application = rule(environ, application)
        return application(environ, start)


def error(status: int, code: str) -> Response:
    """An error reply in the form of S3."""
    return Response(f"<Error><Code>{code}</Code><Message>{code}</Message></Error>", status, mimetype="application/xml")
