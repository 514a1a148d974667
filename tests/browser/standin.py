"""The monitor's own HTTP server, with made documents instead of a relay."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections import Counter
from collections.abc import Callable
from types import TracebackType
from typing import Self

from relay.base.log import logger
from relay.monitoring.documents import ClientDetail, History, TableDetail, TableSchema
from relay.monitoring.http import Content, Latest, Server, application
from relay.monitoring.schema_report import TableHistory
from relay.monitoring.stat import Stat
from relay.monitoring.views import Views
from tests.browser.chromium import HOST
from tests.browser.documents import Told
from tests.support.waiting import until

_WITH_ALL_LISTS = """
window.{name} = new Promise(resolve => new MutationObserver((_, observer) => {{
  if (!["clients", "cdc", "tables"].every(list => document.querySelector(`#${{list}}-list tr[data-key]`))) return;
  observer.disconnect();
  {then};
}}).observe(document, {{childList: true, subtree: true}}));
"""


def with_all_lists(name: str, then: str) -> str:
    """A script for before the page: `then` calls `resolve` of the promise `window.<name>`, once every list has rows."""
    return _WITH_ALL_LISTS.format(name=name, then=then)


class StandIn:
    """Serves the page and `told`, whose fields a test changes as it likes, at `url`.

    `asked` counts documents that were given, by name. Each is collected anew, however often somebody asks; with
    `each_second` a second of the relay's life goes by from one stat document to the next.
    """

    def __init__(self, told: Told) -> None:
        self.told = told
        self.each_second = False
        self.asked: Counter[str] = Counter()
        self._listener = socket.create_server((HOST, 0))
        self._listener.setblocking(False)
        self.url = f"http://{HOST}:{self._listener.getsockname()[1]}/"
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._serve, name="stand-in")

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()

    def wait(self, name: str, count: int, seconds: float = 20) -> None:
        """Until the document `name` was given so many times in all."""
        until(
            lambda: self.asked[name] >= count,
            seconds,
            lambda: f"{name} was asked for {self.asked[name]} times instead of {count}",
            0.002,
        )

    def _serve(self) -> None:
        asyncio.set_event_loop(self._loop)
        server = Server(application(_Latest(self), _Views(self), logger("stand-in")))
        server.add_socket(self._listener)
        self._loop.run_forever()
        server.stop()
        self._loop.run_until_complete(server.close_all_connections())
        self._listener.close()
        self._loop.close()


class _Latest(Latest):
    """Without the half second for which one document serves: a test changes it at will."""

    def __init__(self, stand_in: StandIn) -> None:
        super().__init__(stand_in.told.stat)
        self._stand_in = stand_in

    def document(self, now: bool = False) -> Stat:
        return self._stand_in.told.stat()

    def content(self, name: str, make: Callable[[Stat], Content]) -> Content:
        self._stand_in.told.tick += self._stand_in.each_second
        content = make(self.document())
        self._stand_in.asked[name] += 1
        return content


class _Views(Views):
    """Told instead of put together; what nobody was told of is not there, as with a relay."""

    def __init__(self, stand_in: StandIn) -> None:
        self._stand_in = stand_in

    def history(self) -> History:
        self._stand_in.asked["history"] += 1
        return self._stand_in.told.history()

    def client(self, document: Stat, client_id: int) -> ClientDetail | None:
        self._stand_in.asked["client"] += 1
        told = self._stand_in.told
        return told.client(client_id - 1) if 0 < client_id <= len(told.clients) else None

    def schema(self) -> list[TableSchema]:
        self._stand_in.asked["schema"] += 1
        return self._stand_in.told.schema()

    def table_history(self, schema: str, table: str) -> TableHistory | None:
        told = self._stand_in.told
        return told.table_history(told.tables.index((schema, table))) if (schema, table) in told.tables else None

    def table(self, document: Stat, schema: str, table: str) -> TableDetail | None:
        self._stand_in.asked["table"] += 1
        told = self._stand_in.told
        return told.table(told.tables.index((schema, table))) if (schema, table) in told.tables else None
