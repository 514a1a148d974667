"""The broker's registry of clients: their names, their blocks of the arena, and their filters.

The state writer stores what the registry hands over. The broker waits for it only at its start and at its end.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import islice

from msgspec.structs import replace

from relay._native import Broker, JournalReader
from relay.base.errors import ErrorCode, RelayError, StopCode
from relay.config import patterns
from relay.config.tree import Config
from relay.queues import state
from relay.queues.state import Client, Filter
from relay.queues.state_link import StateLink, raise_if_failed
from relay.queues.state_messages import (
    Change,
    Checkpoint,
    ForgetClient,
    ReplaceFilters,
    SetGeneration,
    Stored,
)
from relay.queues.unstored import UnstoredFilters
from relay.runtime import ipc
from relay.runtime.context import BrokerContext

EXPIRE_STEP = 500  # clients whose expiry is checked at a time, while rows wait
FINISH_SECONDS = 4.0  # for the last checkpoint; the supervisor waits longer


@dataclass
class Busy:
    """A client with a change that is being stored: the id of its request, and later requests by their ids.

    A request that comes again while it waits is the same request.
    """

    request: int
    later: dict[int, Callable[[], None]] = field(default_factory=dict)


class Registry:
    """Keep clients consistent in memory, in the arena and on disk."""

    def __init__(self, context: BrokerContext, broker: Broker, link: StateLink) -> None:
        self._context = context
        self._arena = context.arena
        self._broker = broker
        self._link = link
        self.last_id = 0
        self.busy: dict[str, Busy] = {}  # by name of client
        self.unstored: set[int] = set()  # ids of clients whose filters are to be handed over before a checkpoint
        self._kept = UnstoredFilters(context.unstored)
        self._checkpointing = False  # a checkpoint is being stored
        self._failing = False  # the last change could not be stored
        self._unexpired: Iterator[Client] = iter(())  # clients that `expire` has still to look at
        self.by_name: dict[str, Client] = {}
        self.by_id: dict[int, Client] = {}
        self._tables: dict[str, patterns.Patterns] = {}  # by name of client, for clients that may not have all tables
        self.orders: list[ipc.Order] = []  # for the servers that own the clients; the loop sends them

    def load(self, alive: Callable[[], bool]) -> bool:
        """Reconcile disk and arena: clients in the arena continue, others are rebuilt from checkpoints.

        Waits for the state writer, and calls `alive` meanwhile. False if that ended the waiting.
        """
        found = self._link.load(alive)
        if found is None:
            return False
        self.last_id = found.last_id
        generation, position = self.journal().generation(), found.position
        lost = found.generation not in (None, generation)  # the stored positions belong to a journal that is gone
        if lost:
            position = 0
            for client in found.clients:
                client.checkpoint = b""
            self._store(Checkpoint(self._link.next_number(), 0, [(client.id, b"") for client in found.clients]))
        else:
            for client in found.clients:
                self._check_stored(client, position)
        in_arena = {self._arena.client_id(slot): slot for slot in self._arena.client_slots()}
        kept = self._kept.all()
        for client in found.clients:
            slot = in_arena.pop(client.id, None)
            if slot is not None and not lost and client.id in kept:  # the queue counts with them already
                client.filters = kept.pop(client.id)
                self.unstored.add(client.id)
            if lost:
                self._restart_filters(client)
            if slot is None or lost:
                if slot is not None:
                    self._broker.remove_client(slot)
                filters = _native(client.filters)
                slot = self._broker.add_client(client.id, client.name, filters, client.checkpoint or b"", position)
            else:
                self._broker.set_filters(slot, _native(client.filters))
            self.add(client, slot)
        for slot in in_arena.values():  # forgotten on disk but not yet in the arena when the last broker died
            self._broker.remove_client(slot)
        for id in kept:
            self._kept.remove(id)
        if found.generation != generation:  # last: until then a successor must repeat all this
            if not self._link.settle(alive, math.inf):
                return False
            self._store(SetGeneration(self._link.next_number(), generation))
        return self._link.settle(alive, math.inf)

    def _store(self, change: Change) -> None:
        """Hand over a change of `load`, which cannot continue if it cannot be stored."""
        self._link.store(change, raise_if_failed)

    def _check_stored(self, client: Client, position: int) -> None:
        """Raise `RelayError` if a client's stored state is impossible. All are checked before any is served."""
        flaw = self._broker.flaw(client.checkpoint, position) if client.checkpoint else ""
        if flaw:
            cause = f"client {client.name!r}: {flaw}"
            raise RelayError(StopCode.STATE_DAMAGED, "restore the queues", cause, position="state.db")

    def journal(self) -> JournalReader:
        """For short use: segments that it has read stay mapped, and so on disk, after retention deletes them."""
        return JournalReader(str(self._context.journal_dir))

    def _restart_filters(self, client: Client) -> None:
        """Reset a client after the journal was lost: its filters begin here, and its waiting rows are lost."""
        self._context.log("client_gap", client=client.name, code=StopCode.JOURNAL_LOST, cause="the journal was lost")
        here = self._arena.committed
        client.filters = [replace(each, since=here) for each in client.in_force()]
        self._store(self.filters_of(client))

    def restrict(self, config: Config) -> None:
        """Limit every client to `Tables` of its section in this configuration, from its waiting rows on.

        A filter that asks for more is withdrawn as if it had never existed. Waiting rows are decided again, from the
        oldest unconfirmed row on. The client may get some of these rows twice.
        """
        self._tables = {name: patterns.compile_all(client.tables) for name, client in config.clients.items()}
        for client in self.by_id.values():
            allowed = [f for f in client.filters if self.allows(client.name, f.schema, f.table)]
            if len(allowed) == len(client.filters):
                continue
            slot, before = client.slot, client.filters
            oldest, waits = self._broker.oldest(slot), self._arena.client_stats(slot)["waiting"] > 0
            self.set_filters(client, allowed)
            self.store_filters(client)
            if waits:
                self._broker.seek(slot, oldest)
            for each in before:
                if each not in allowed:
                    self._context.log("filter_withdrawn", client=client.name, schema=each.schema, table=each.table)

    def allows(self, name: str, schema: str, table: str) -> bool:
        """Whether the client called `name` may have rows of the table."""
        return name not in self._tables or patterns.any_matches(self._tables[name], schema, table)

    def add(self, client: Client, slot: int) -> None:
        """Add a client that has this slot of the ring."""
        self.by_name[client.name] = self.by_id[client.id] = client
        client.slot = slot

    def hand_over(self, name: str, change: Change, on_stored: Callable[[Stored], None], request: int = -1) -> None:
        """Hand over a change of a client. Until `on_stored` has the answer, requests about the client wait."""
        self.busy[name] = busy = Busy(request)

        def stored(answer: Stored) -> None:
            del self.busy[name]
            on_stored(answer)
            for carry_out in busy.later.values():
                carry_out()

        self._link.store(change, stored)

    def set_filters(self, client: Client, filters: list[Filter]) -> None:
        """Set the filters in the ring, which may refuse them. They count from now on, and are to be stored.

        Until they are, a broker that continues with these queues finds them in shared memory. If they cannot be stored
        they are handed over again, before any checkpoint of rows that they matched.
        """
        slot = client.slot
        filters = state.pruned(filters, self._broker.decided(slot))
        self._broker.set_filters(slot, _native(filters))
        try:
            self._kept.put(client.id, filters)
        except RelayError:
            self._broker.set_filters(slot, _native(client.filters))
            raise
        client.filters = filters
        self.unstored.add(client.id)

    def keep_filters(self, client: Client) -> None:
        """Make a successor of this broker use the filters in force, whatever is stored. Raises `RelayError`."""
        self._kept.put(client.id, client.filters)

    def use_stored_filters(self, client: Client, change: ReplaceFilters) -> None:
        """Set the filters of a change that is stored already in the ring."""
        self._broker.set_filters(client.slot, _native(change.filters))
        client.filters = change.filters
        self.filters_stored(client, change)

    def filters_stored(self, client: Client, change: ReplaceFilters) -> None:
        """Handle that a change is stored: nothing is missing on disk, unless the filters have changed since."""
        if client.filters == change.filters:
            self.unstored.discard(client.id)
            self._kept.remove(client.id)

    def filters_of(self, client: Client) -> ReplaceFilters:
        """Return the change that stores the client's present filters."""
        return ReplaceFilters(self._link.next_number(), client.id, client.filters)

    def store_filters(self, client: Client) -> None:
        """Hand over a client's filters without a request."""
        self.unstored.discard(client.id)
        change = self.filters_of(client)

        def stored(answer: Stored) -> None:
            self._note(answer)
            if client.id not in self.by_id:
                return
            if answer.error:
                self.unstored.add(client.id)
            else:
                self.filters_stored(client, change)

        if client.name in self.busy:
            self._link.store(change, stored)
        else:
            self.hand_over(client.name, change, stored)

    def remove(self, client: Client) -> None:
        """Remove a client, its slot of the ring and its unstored filters."""
        self._broker.remove_client(client.slot)
        self.unstored.discard(client.id)
        self._kept.remove(client.id)
        self.orders.append(ipc.Kick(client.id, "the client was forgotten"))
        del self.by_id[client.id], self.by_name[client.name]

    def checkpoint(self) -> None:
        """Hand over the state of clients that changed, unless a checkpoint is being stored.

        Once it is stored, publish the oldest position that any client needs.
        """
        if self._checkpointing:
            return
        for client in [self.by_id[id] for id in self.unstored]:
            if client.name not in self.busy:
                self.store_filters(client)
        if self.unstored:  # it would count rows of filters that may not be stored before it
            return
        found = self._broker.checkpoint()
        if found is None:
            self._arena.needed = self._broker.needed()
            return
        position, changed = found
        self._checkpointing = True
        # No clients: nothing to write each second.
        change = Checkpoint(self._link.next_number(), position if self.by_id else 0, changed)
        self._link.store(change, self._checkpoint_stored)

    def _checkpoint_stored(self, answer: Stored) -> None:
        self._checkpointing = False
        self._note(answer)
        if not answer.error:
            self._broker.stored()
            self._arena.needed = self._broker.needed()

    def _note(self, answer: Stored) -> None:
        """Log the first of several failures: meanwhile, queues are served from memory."""
        if answer.error and not self._failing:
            self._context.log("checkpoint_failed", error=answer.error)
        self._failing = bool(answer.error)

    def finish(self, alive: Callable[[], bool]) -> None:
        """Store a last checkpoint, behind all that is under way. Raises `RelayError` if that fails."""
        settled = self._link.settle(alive, FINISH_SECONDS)
        self.checkpoint()
        if not settled or not self._link.settle(alive, FINISH_SECONDS):
            raise RelayError(ErrorCode.UNEXPECTED, "store clients", "the state writer does not answer")
        if self._failing:
            raise RelayError(ErrorCode.UNEXPECTED, "store clients", "the last checkpoint failed", position="state.db")

    def expire(self) -> None:
        """Forget clients that were disconnected for longer than ClientExpiry. Each call looks at some clients."""
        expiry = self._context.config.relay.client_expiry
        if not expiry:
            return
        some = list(islice(self._unexpired, EXPIRE_STEP))
        if len(some) < EXPIRE_STEP:
            self._unexpired = iter(list(self.by_id.values()))
        for client in some:
            if self.by_id.get(client.id) is client and client.name not in self.busy:
                self._expire(client, expiry)

    def _expire(self, client: Client, expiry: float) -> None:
        facts = self._arena.client_stats(client.slot)
        away = time.time() - facts["last_seen"]
        if facts["connected"] or not facts["last_seen"] or away <= expiry:
            return

        def stored(answer: Stored) -> None:
            self._note(answer)
            if not answer.error:
                waiting = self._arena.client_stats(client.slot)["waiting"]
                self._context.log("client_expired", client=client.name, away=round(away), lost_rows=waiting)
                self.remove(client)

        self.hand_over(client.name, ForgetClient(self._link.next_number(), client.id), stored)

    def cut_queues(self) -> None:
        """At the reader's request, drops and counts queued rows that the cap of retention is about to delete."""
        position = self._arena.cut_request
        if position > self._arena.cut_done:
            self._broker.cut(position)
            self._context.log("queues_cut", position=position)
            self._arena.cut_done = position


def _native(filters: list[Filter]) -> list[tuple[str, str, int, int, int, int, int]]:
    return [(f.schema, f.table, f.kinds, f.discard, f.limit, f.since, f.until) for f in filters]
