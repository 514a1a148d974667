"""The state writer's side of the link to the broker: carries out its messages on the tables of clients."""

from __future__ import annotations

import socket
import sqlite3
import time
from collections.abc import Callable
from pathlib import Path

from relay.datadir import disk_errors
from relay.queues import state_messages
from relay.queues.state import ClientState
from relay.queues.state_messages import (
    AddClient,
    Began,
    Change,
    Checkpoint,
    ForgetClient,
    FromWriter,
    Load,
    Loaded,
    ReplaceFilters,
    Resume,
    SetGeneration,
    Stored,
    ToWriter,
)


class StateWriting:
    """Carry out the messages that arrive at `sock`, in order.

    `wait_to_send` waits until the socket may have room; it returns false if nobody needs the answer any more.
    `count_change` is called when clients or filters have changed in the file, before the broker hears of it.

    A change that the disk rejects is answered with the reason. All other errors are raised: `RelayError` for a damaged
    file and a failed sync, `sqlite3.Error`.
    """

    def __init__(
        self,
        path: Path,
        sock: socket.socket,
        wait_to_send: Callable[[], bool],
        count_change: Callable[[], None] = lambda: None,
    ) -> None:
        self._path = path
        self._socket = sock
        self._wait_to_send = wait_to_send
        self._count_change = count_change
        self._state: ClientState | None = None
        self._failed = set[int]()  # ids of clients whose filters could not be stored
        self._id = time.time_ns()
        self._resumed = False

    def close(self) -> None:
        """Close the file."""
        if self._state is not None:
            self._state.close()
            self._state = None

    def announce(self) -> None:
        """Report to the broker that this state writer has begun, until the broker knows it. Call it regularly."""
        if not self._resumed:
            self._send(Began(self._id))

    def receive(self) -> None:
        """Carry out all messages that have arrived."""
        while True:
            try:
                message = state_messages.decode_to_writer(state_messages.receive(self._socket))
            except BlockingIOError:
                return
            self._handle(message)

    def _handle(self, message: ToWriter) -> None:
        if isinstance(message, Resume):
            self._resumed |= message.writer == self._id
            self._send(Began(self._id))
        elif not self._resumed:
            return  # it comes again
        elif isinstance(message, Load):
            self.close()
            self._failed.clear()
            state = self._open()  # anew: that verifies all of it
            self._send(Loaded(message.number, state.generation(), state.position(), state.last_id(), state.clients()))
        else:
            self._send(self._carry_out(self._state or self._open(), message))

    def _open(self) -> ClientState:
        self._state = ClientState(self._path)
        self._count_change()  # it may be another file
        return self._state

    def _send(self, message: FromWriter) -> None:
        packet = state_messages.encode(message)
        while True:
            try:
                state_messages.send(self._socket, packet)
            except BlockingIOError:
                if self._wait_to_send():
                    continue
            return

    def _carry_out(self, state: ClientState, change: Change) -> Stored:
        if isinstance(change, Checkpoint) and self._failed:
            # It counts rows that these filters have matched: they come again before the next checkpoint.
            return Stored(change.number, f"the filters of {len(self._failed)} clients could not be stored")
        try:
            self._change(state, change)
        except sqlite3.OperationalError as error:
            if isinstance(change, ReplaceFilters):
                self._failed.add(change.id)
            fatal = disk_errors.fatal_error(error)
            return Stored(change.number, str(error), str(fatal.code) if fatal else "")
        if not isinstance(change, Checkpoint):
            self._count_change()
        return Stored(change.number)

    def _change(self, state: ClientState, change: Change) -> None:
        match change:
            case AddClient():
                state.add_client(change.id, change.name)
            case ForgetClient():
                state.forget_client(change.id)
                self._failed.discard(change.id)
            case ReplaceFilters():
                state.replace_filters(change.id, change.filters)
                self._failed.discard(change.id)
            case Checkpoint():
                state.checkpoint(change.position, change.clients)
            case SetGeneration():
                state.set_generation(change.generation)
