"""The supervisor: forks the processes, watches and restarts them, and ends them in order.

It is single-threaded and imports nothing that starts threads: a fork copies only the calling thread. What the children
share was created before the first fork (relay/runtime/shared_state.py), so a successor continues where its predecessor
died.
"""

from __future__ import annotations

import math
import os
import select
import signal
import socket
import sys
import time
from collections.abc import Callable, Collection
from functools import partial
from pathlib import Path

from relay import children
from relay._native import forget_unreadable, settle_syncs, sync_failed, sync_unknown, watch_pages
from relay.base.errors import ExitCode, StopCode
from relay.base.log import Log
from relay.config.tree import EXPOSURE_HINT, Config
from relay.datadir import sync
from relay.runtime import admin_socket, ready, restarts, shared_state, shm
from relay.runtime.child import succeeds_in_child
from relay.runtime.child_group import Child, ChildGroup
from relay.runtime.context import SideContext
from relay.runtime.distributed import Settings
from relay.runtime.reload import Reloads
from relay.runtime.signals import Signals
from relay.runtime.systemd import Notifier
from relay.runtime.watchdog import Watchdog

TICK = 1.0  # seconds between checks of the children; their ends, signals and commands wake the supervisor
BUSY_TICK = 0.01  # the same until all of them are up, and until all have a new configuration
STOP_WITHIN = 9.0  # seconds for a whole stop: the broker gets the time that the others leave, for its checkpoint
STOP_PATIENCE = 3.0  # seconds for children to finish their current work
EXPORT_PATIENCE = 5.0  # seconds for the exporter and the logger to save their data
READY_PATIENCE = 15.0  # seconds that the ready line waits for the source
NO_CONSUMER = 2**64 - 1  # as `Arena.exported` and `Arena.logged`: retention waits for no process


class Supervisor:
    """The loop that handles signals, commands, deaths and heartbeats of the children."""

    def __init__(
        self,
        config: Config,
        listeners: shared_state.Listeners,
        load: Callable[[], Config],
        file: str,
        accept_gap: bool,
        log: Log,
    ) -> None:
        self._file = file
        self._data_dir = Path(config.relay.data_dir)
        self._log = log
        self._shared = shared_state.assemble(config, listeners, self._data_dir)
        self._config = self._shared.with_bound_ports(config)
        self._arena = self._shared.arena
        self._reset_arena()
        watch_pages()
        table = children.make(self._shared, self._config, accept_gap)
        self._settings = Settings(self._config, len(table))
        self._children = ChildGroup(table, self._arena, self._settings)
        for child in table:
            child.context.settings, child.context.number = self._settings, self._settings.number
        self._reloads = Reloads(config, load, self, self._shared.status_pages.supervisor, log)
        self._ending = False
        self._end_by = math.inf  # after that, all remaining processes are killed
        self._watchdog = Watchdog(time.monotonic())
        self._notifier = Notifier(os.environ, log)

    def _reset_arena(self) -> None:
        self._arena.paused = self._arena.draining = False
        self._arena.clear_stop()
        self._arena.exported = 0 if self._config.lake.path else NO_CONSUMER
        self._arena.logged = 0 if self._config.logger.schema else NO_CONSUMER

    def serve(self) -> int:
        """Run until a signal or the command stop. A second signal kills all children at once."""
        signals = Signals((signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGCHLD))
        commands = self._shared.commands[0]
        ready_by = time.monotonic() + READY_PATIENCE
        announced = False
        while not self._ending:
            self._start_due()
            select.select([signals.fileno(), commands.fileno()], [], [], self._patience(announced))
            for number in signals.received():  # first, because a whole process group may get the signal
                self._ending |= number in (signal.SIGTERM, signal.SIGINT)
                if number == signal.SIGHUP:
                    self._reloads.request("")
            self._reap()
            self._check_heartbeats()
            self._notifier.alive(ready.service_status(self._arena.source_state, self._arena.stop()))
            if not announced and (self._children.all_up() or time.monotonic() > ready_by):
                announced = True
                self._announce()
            self._carry_out(commands)
            if announced:  # before that, the service manager would not accept the end of a reload
                self._reloads.step(time.monotonic())
        return self._end(signals)

    def _patience(self, announced: bool) -> float:
        if not announced or self._reloads.pending:
            return BUSY_TICK
        return min(TICK, self._children.due_in(time.monotonic()))

    def _start_due(self) -> None:
        now = time.monotonic()
        due = self._children.due(now)
        if any(child.name == "reader" for child in due):
            self._settle_syncs()
        for child in due:
            self._settle_state(child)
        for child in self._children.due(now):  # repairs may have killed others, which are due now
            self._children.fork(child, now)

    def _settle_syncs(self) -> None:
        """Repair the journal after unfinished syncs, before a reader opens it.

        After a failed sync the reader cuts the journal, and no process may be beyond the cut. After a sync with an
        unknown result the journal is rewritten, and no process may read it meanwhile.
        """
        journal = self._data_dir / "journal"
        if sync_unknown(journal):
            self._children.kill_and_restart(self._children)
            if succeeds_in_child(partial(settle_syncs, journal), self._log):
                self._log("journal_renewed")
        if self._arena.committed and sync_failed(journal):
            self._log("renewed", cause="a sync of the journal failed: the relay reads later events again")
            self._children.kill_and_restart(self._children)
            paused = self._arena.paused
            shared_state.renew(self._shared, self._config)
            self._reset_arena()
            self._arena.paused = paused

    def _settle_state(self, due: Child) -> None:
        """Rewrite SQLite files in doubt before this process opens them.

        Other processes that have them open are restarted.
        """
        for file in sync.doubtful(self._data_dir, due.name):
            self._children.kill_and_restart([c for c in self._children if c.pid and sync.uses(c.name, file.name)])
            if succeeds_in_child(partial(sync.rewrite, file), self._log):
                self._log("state_renewed", file=file.name)

    def _reap(self) -> None:
        for child, code in self._children.ended():
            if not self._ending:
                self._child_ended(child, code)

    def _child_ended(self, child: Child, code: int) -> None:
        now = time.monotonic()
        if child.restart_requested:
            if code == ExitCode.STOPPED:  # it had a fatal error of its own, which its successor must check again
                self._arena.clear_stop()
            child.make_due()
            return
        stop = None if isinstance(child.context, SideContext) else self._arena.stop()
        journal_unsynced = stop is not None and stop["code"] == StopCode.SYNC_FAILED
        unsynced = journal_unsynced or sync.failed(self._data_dir, child.name)
        lived = now - child.started
        end = restarts.End(child.name, code, lived, child.quick_deaths, unsynced, self._arena.draining)
        decision = restarts.decide(end)
        if decision.forgives and journal_unsynced:
            self._arena.clear_stop()
        if decision.held:
            child.held = True
            self._log("held", process=child.name, **(stop or {}))
            return
        child.quick_deaths = decision.quick_deaths
        self._arena.count_restart(child.context.slot)
        child.due = now + decision.wait
        self._log("died", process=child.name, code=code, restart_in=decision.wait)

    def _check_heartbeats(self) -> None:
        """End a child whose work loop hangs: first by SIGABRT, then by SIGKILL."""
        self._watchdog.tick(time.monotonic())
        for child in self._children:
            if child.pid and (
                hang := self._watchdog.check(child.name, child.started, self._arena.heartbeat(child.context.slot))
            ):
                self._log("hung", process=child.name, silent=round(hang.silent))
                os.kill(child.pid, hang.signal)

    def _announce(self) -> None:
        """Print the ready line, and report to the log and the service manager that the relay is up."""
        stop = self._arena.stop()
        facts = ready.facts(self._config, self._file, self._shared.workers, self._arena.source_state, stop)
        # A single write, even without output buffering, so that a waiting program reads a whole line.
        sys.stdout.write(ready.line(facts))
        sys.stdout.flush()
        if not (sys.stdout.isatty() and sys.stderr.isatty()):  # a terminal shows both: one line is enough
            self._log("ready", **facts)
        self._notifier.ready()
        if exposure := self._config.server.exposure:
            self._log("port_exposed", cause=exposure, hint=EXPOSURE_HINT)
        if stop:
            print(f"relay: {stop['text']} (hint: {stop['hint']})", file=sys.stderr, flush=True)

    def _carry_out(self, commands: socket.socket) -> None:
        while True:
            try:
                command = commands.recv(64).decode()
            except BlockingIOError:
                return
            self._log("command", command=command)
            if command == "stop":
                self._ending = True
            elif command == "drain":
                self._arena.draining = True
            elif command == "pause":
                self._arena.paused = True
            elif command == "resume":
                self._resume()
            elif command.startswith("reload "):
                self._reloads.request(command.removeprefix("reload "))

    def _resume(self) -> None:
        """End a pause, and restart processes that stopped with a fatal error: the operator has repaired the cause."""
        self._arena.paused = False
        self._arena.clear_stop()
        forget_unreadable()
        for child in self._children:
            if child.held:
                child.make_due()

    # -- For reloads --

    @property
    def processes(self) -> list[str]:
        """The names of all processes."""
        return [child.name for child in self._children]

    def publish(self, config: Config) -> int:
        """Publish this configuration to all current and future processes, and return its number."""
        config = self._shared.with_bound_ports(config)
        number = self._settings.publish(config)
        self._config = config
        for child in self._children:
            child.context.config, child.context.number = config, number
        self._wake_all()
        return number

    def _wake_all(self) -> None:
        """Wake broker and servers, so that they do not wait for their next heartbeat."""
        for wake in (self._shared.broker_wake, *self._shared.server_wakes):
            os.eventfd_write(wake, 1)

    def restart(self, names: Collection[str]) -> None:
        """End these processes, so that their successors begin with the published configuration."""
        for child in self._children:
            if child.name not in names or (child.held and self._arena.draining):
                continue
            if child.pid:
                child.request_restart()
                continue
            if child.held and child.name == "reader":
                self._arena.clear_stop()
            child.make_due()

    def lagging(self, number: int) -> list[str]:
        """Names of processes that do not work with configuration `number` yet."""
        return self._children.lagging(number)

    def reloading(self) -> None:
        """Report to the service manager that a reload begins."""
        self._notifier.reloading()

    def reloaded(self) -> None:
        """Report to the service manager that a reload has ended, and wake the servers, one of which requested it."""
        self._notifier.ready()
        self._wake_all()

    def _end(self, signals: Signals) -> int:
        """End reader and servers first, so that export, log and the broker's last checkpoint include their work."""
        self._log("stopping")
        self._notifier.stopping()
        self._end_by = time.monotonic() + STOP_WITHIN
        followers = [c for c in self._children if c.name in ("exporter", "logger")]
        broker, writer = ([c for c in self._children if c.name == name] for name in ("broker", "state-writer"))
        self._terminate([c for c in self._children if c not in followers + broker + writer], STOP_PATIENCE, signals)
        self._terminate(followers, EXPORT_PATIENCE, signals)
        if self._terminate(broker, STOP_WITHIN, signals):  # else the queues stay in shared memory for the next start
            shm.discard(self._data_dir, self._shared.block)
        self._terminate(writer, STOP_PATIENCE, signals)
        admin_socket.discard(self._data_dir)
        self._log("stopped")
        return ExitCode.OK

    def _terminate(self, group: list[Child], patience: float, signals: Signals) -> bool:
        """End the processes. True if all of them ended on SIGTERM and without error."""
        deadline = time.monotonic() + patience
        for child in group:
            if child.pid:
                child.terminate()
        while any(child.pid for child in group) and time.monotonic() < min(deadline, self._end_by):
            select.select([signals], [], [], 0.05)
            if any(number in (signal.SIGTERM, signal.SIGINT) for number in signals.received()):
                self._end_by = time.monotonic()
            self._reap()
        for child in group:
            if child.pid:
                self._log("killed", process=child.name)
                child.kill()
                child.ended_well = False
        return all(child.ended_well for child in group)
