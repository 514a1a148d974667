"""The common base of streams from servers and from files: iteration, rows, opening and closing by `with`. No I/O."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from types import TracebackType
from typing import Self

from relay.base.errors import RelayError
from relay.binlog.decoder import Decoder
from relay.binlog.events import Event, RowsEvent
from relay.binlog.progress import Progress
from relay.binlog.replication import Replication
from relay.binlog.rowvalues import Row, Values
from relay.journal.frames import Definition
from relay.source.errors import as_binlog_error


class EventStream(ABC):
    """A sequence of events described by a `Replication`: `open`, `fetch` until the end, `close`.

    It is a context manager, which opens and closes, and an iterator over typed events (`relay.binlog.events`). Not
    thread-safe.
    """

    def __init__(self, replication: Replication, values: Values, decoder: Decoder | None = None) -> None:
        self.replication = replication
        """The description; `fetch` updates it."""
        self.decoder = decoder or Decoder(values=values)
        """Decodes the events, and keeps the table definitions from the stream."""
        self._closed = False
        self._event: Event | None = None  # the last fetched event, if following the position required decoding it

    @abstractmethod
    def open(self) -> int:
        """Open the stream. Returns 0."""

    @abstractmethod
    def fetch(self) -> int:
        """Put the next event into the description. Returns 0; at the end, `size` is 0."""

    @abstractmethod
    def close(self) -> None:
        """Close the stream."""

    @abstractmethod
    def _open_progress(self) -> Progress:
        """Return the progress of the open stream. Raises `MisuseError` unless it is open."""

    def rows(self, event: RowsEvent, definition: Definition | None = None) -> list[Row]:
        """Return the rows of an event from iteration: `Decoder.rows`, with file and position in errors."""
        try:
            return self.decoder.rows(event, definition)
        except RelayError as error:
            raise as_binlog_error(error, self._open_progress().event_start) from error

    def __enter__(self) -> Self:
        """Open. Raises as `open` does."""
        self.open()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        """Close, unless it is closed already."""
        if not self._closed:
            self.close()

    def __iter__(self) -> Iterator[Event]:
        """Yield the remaining events, decoded; `buffer` and the other fields are as after `fetch`.

        Raises as `fetch`, and for damaged events.
        """
        progress = self._open_progress()
        while self.fetch() == 0 and self.replication.size:
            yield self._event or progress.decode(self.replication.buffer[1:])
