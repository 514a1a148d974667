"""What streams from servers and from files have in common: iteration, rows, opening and closing by `with`. No I/O."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from types import TracebackType
from typing import Self

from relay.binlog.decoder import Decoder
from relay.binlog.errors import for_callers
from relay.binlog.events import Event, RowsEvent
from relay.binlog.progress import Progress
from relay.binlog.replication import Replication
from relay.binlog.rowvalues import Row
from relay.errors import RelayError
from relay.journal.frames import Definition


class EventStream(ABC):
    """Events one after the other, described by a `Replication`: `open`, `fetch` until the end, `close`.

    A context manager, which opens and closes, and an iterator over typed events (`relay.binlog.events`). Not for use by
    several threads at once.
    """

    def __init__(self, replication: Replication, decoder: Decoder | None = None) -> None:
        self.replication = replication
        """The description; `fetch` updates it."""
        self.decoder = decoder or Decoder()
        """Decodes the events, and knows of definitions what the stream has told."""
        self._closed = False
        self._event: Event | None = None  # what was fetched last, if it had to be read to know where the stream stands

    @abstractmethod
    def open(self) -> int:
        """Begin. Returns 0."""

    @abstractmethod
    def fetch(self) -> int:
        """Put the next event into the description. Returns 0; at the end, `size` is 0."""

    @abstractmethod
    def close(self) -> None:
        """End."""

    @abstractmethod
    def _reading(self) -> Progress:
        """Where it stands. Raises `MisuseError` unless it is open."""

    def rows(self, event: RowsEvent, definition: Definition | None = None) -> list[Row]:
        """The rows of an event that iteration gave: `Decoder.rows`, errors with file and position."""
        try:
            return self.decoder.rows(event, definition)
        except RelayError as error:
            raise for_callers(error, self._reading().began) from error

    def __enter__(self) -> Self:
        """Open. Raises as `open` does."""
        self.open()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        """Close, unless that was done."""
        if not self._closed:
            self.close()

    def __iter__(self) -> Iterator[Event]:
        """The events to come, decoded; `buffer` and all else as after `fetch`. Raises as `fetch`, and for damage."""
        progress = self._reading()
        while self.fetch() == 0 and self.replication.size:
            yield self._event or progress.decoded(memoryview(self.replication.buffer)[1:])
