"""The progress of a job: the rows that Spark has read, asked for while it works."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, Final

from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.sql import SparkSession

Show = Callable[[str, int, int, float], None]
"""Show a step: what it works on, its rows done, all its rows, and the seconds left."""

_POLL_SECONDS: Final = 0.5


class Progress:
    """Shows the progress of the steps of a job with `show`; without one it shows nothing."""

    def __init__(self, spark: SparkSession, show: Show | None = None) -> None:
        self._spark = spark
        self._show = show

    @contextmanager
    def reading(self, what: str, rows: int) -> Iterator[None]:
        """Show how many of the `rows` that Spark reads in this block it has read."""
        if self._show is None:
            yield
            return
        begin, ended = time.monotonic(), threading.Event()
        read = _RowsRead(self._spark)

        def watch() -> None:
            # A job does not fail because its progress is not known.
            with suppress(Py4JError):
                while not ended.wait(_POLL_SECONDS):
                    self.at(what, read.count(), rows, begin)

        watcher = threading.Thread(target=watch, name="progress", daemon=True)
        watcher.start()
        try:
            yield
        finally:
            ended.set()
            watcher.join()

    def at(self, what: str, done: int, rows: int, begin: float) -> None:
        """Show that a step, which began at `begin` (monotonic), has done so many of its rows."""
        if self._show is not None and (done := min(done, rows)) > 0:
            self._show(what, done, rows, (time.monotonic() - begin) * (rows - done) / done)


class _RowsRead:
    """The rows that the stages of Spark have read since this object was made.

    Spark's public trackers count tasks. Its status store counts rows, after each task and each heartbeat; pyspark gives
    it by `_jsc` only.
    """

    def __init__(self, spark: SparkSession) -> None:
        context: Any = spark.sparkContext._jsc.sc()
        self._store = context.statusStore()
        self._scheduler = context.dagScheduler()
        self._first = self._scheduler.nextStageId()

    def count(self) -> int:
        """Return the number."""
        return sum(map(self._rows_of, range(self._first, self._scheduler.nextStageId())))

    def _rows_of(self, stage: int) -> int:
        with suppress(Py4JJavaError):  # a stage that is not shown yet, or not any more
            return int(self._store.lastStageAttempt(stage).inputRecords())
        return 0
