"""The broker's registry of clients: their names, their blocks of the arena, and their filters.

The broker replies to a server only after the effect of the request is on disk, so an acknowledged request survives any
process.
"""

from __future__ import annotations

import sqlite3
import time
from functools import singledispatchmethod
from sys import intern

from msgspec.structs import replace

from relay._native import Broker, JournalReader
from relay.base.errors import RelayError, StopCode
from relay.config import patterns
from relay.config.tree import Config
from relay.queues import state
from relay.queues.state import Client, ClientState, Filter
from relay.runtime import ipc
from relay.runtime.context import BrokerContext


class Refused(Exception):
    """A request cannot be carried out. The text goes to the client or operator who made it."""


class Registry:
    """Keeps clients consistent in memory, in the arena and on disk."""

    def __init__(self, context: BrokerContext, broker: Broker, store: ClientState) -> None:
        self._context = context
        self._arena = context.arena
        self._broker = broker
        self._store = store
        self._by_name: dict[str, Client] = {}
        self._by_id: dict[int, Client] = {}
        self._slots: dict[int, int] = {}  # arena slot by client id
        self._tables: dict[str, patterns.Patterns] = {}  # by name of client, for clients that may not have all tables
        self.orders: list[ipc.Order] = []  # for the servers that own the clients; the loop sends them

    def load(self) -> None:
        """Reconciles disk and arena: clients in the arena continue, others are rebuilt from checkpoints."""
        generation, stored = self._journal().generation(), self._store.generation()
        lost = stored not in (None, generation)  # the stored positions belong to a journal that is gone
        if lost:
            self._store.checkpoint(0, [(client.id, b"") for client in self._store.clients()])
        position = self._store.position()
        for client in self._store.clients() if not lost else ():
            self._check_stored(client, position)
        in_arena = {self._arena.client_id(slot): slot for slot in self._arena.client_slots()}
        for client in self._store.clients():
            slot = in_arena.pop(client.id, None)
            if lost:
                self._restart_filters(client)
            if slot is None or lost:
                if slot is not None:
                    self._broker.remove_client(slot)
                filters = _native(client.filters)
                slot = self._broker.add_client(client.id, client.name, filters, client.checkpoint or b"", position)
            else:
                self._broker.set_filters(slot, _native(client.filters))
            self._add(client, slot)
        for slot in in_arena.values():  # forgotten on disk but not yet in the arena when the last broker died
            self._broker.remove_client(slot)
        if stored != generation:  # last: until then a successor must repeat all this
            self._store.set_generation(generation)

    def _check_stored(self, client: Client, position: int) -> None:
        """Raises `RelayError` if a client's stored state is impossible. All are checked before any is served."""
        flaw = self._broker.flaw(client.checkpoint, position) if client.checkpoint else ""
        if flaw:
            cause = f"client {client.name!r}: {flaw}"
            raise RelayError(StopCode.STATE_DAMAGED, "restore the queues", cause, position="state.db")

    def _journal(self) -> JournalReader:
        """For short use: segments that it has read stay mapped, and so on disk, after retention deletes them."""
        return JournalReader(str(self._context.journal_dir))

    def _restart_filters(self, client: Client) -> None:
        """Resets a client after the journal was lost: its filters begin here, and its waiting rows are lost."""
        self._context.log("client_gap", client=client.name, code=StopCode.JOURNAL_LOST, cause="the journal was lost")
        here = self._arena.committed
        self._store.replace_filters(client, [replace(each, since=here) for each in client.in_force()])

    def restrict(self, config: Config) -> None:
        """Limits every client to `Tables` of its section in this configuration, from its waiting rows on.

        A filter that asks for more is withdrawn as if it had never existed. Waiting rows are decided again, from the
        oldest unconfirmed row on. The client may get some of these rows twice.
        """
        self._tables = {name: patterns.compile_all(client.tables) for name, client in config.clients.items()}
        for client in self._by_id.values():
            allowed = [f for f in client.filters if self._allows(client.name, f.schema, f.table)]
            if len(allowed) == len(client.filters):
                continue
            slot = self._slots[client.id]
            for each in client.filters:
                if each not in allowed:
                    self._context.log("filter_withdrawn", client=client.name, schema=each.schema, table=each.table)
            oldest, waits = self._broker.oldest(slot), self._arena.client_stats(slot)["waiting"] > 0
            self._set_filters(client, allowed)
            if waits:
                self._broker.seek(slot, oldest)

    def _allows(self, name: str, schema: str, table: str) -> bool:
        return name not in self._tables or patterns.any_matches(self._tables[name], schema, table)

    def _add(self, client: Client, slot: int) -> None:
        self._by_name[client.name] = self._by_id[client.id] = client
        self._slots[client.id] = slot

    def answer(self, request: ipc.Request) -> ipc.Reply:
        """Carries out a server's request. If that fails, the reply has the reason, and nothing changes."""
        try:
            return self._carry_out(request)
        except (Refused, RelayError, sqlite3.OperationalError) as refusal:  # also if a disk or /dev/shm is full
            if isinstance(refusal, RelayError) and refusal.code is StopCode.SYNC_FAILED:
                raise
            if isinstance(request, ipc.Register):
                return ipc.Registered(request.request, error=str(refusal))
            return ipc.Done(request.request, error=str(refusal))

    @singledispatchmethod
    def _carry_out(self, request: ipc.Request) -> ipc.Reply:
        raise TypeError(f"{type(request).__name__} is no request to the broker")

    @_carry_out.register
    def _(self, request: ipc.Register) -> ipc.Reply:
        client = self._by_name.get(request.name)
        if client is None:
            if len(self._by_name) >= self._context.config.relay.max_clients:
                raise Refused(f"there are {len(self._by_name)} clients already (MaxClients)")
            client = self._store.add_client(request.name)
            self._add(client, self._broker.add_client(client.id, client.name))
            self._context.log("client_new", client=client.name, id=client.id)
        return ipc.Registered(request.request, client.id, self._slots[client.id])

    @_carry_out.register
    def _(self, request: ipc.AddFilter) -> ipc.Reply:
        client = self._client_with_id(request.client_id)
        if not self._allows(client.name, request.schema, request.table):  # servers refuse it first, unless they lag
            raise Refused(f"client {client.name} may not have rows of {request.schema}.{request.table}")
        here = self._arena.committed
        schema, table = intern(request.schema), intern(request.table)
        new = Filter(schema, table, request.kinds, request.discard, request.limit, here)
        in_force = client.in_force()
        if any(f.key == new.key and (f.discard, f.limit) == (new.discard, new.limit) for f in in_force):
            return ipc.Done(request.request)
        if len(in_force) >= self._context.config.relay.max_filters and all(f.key != new.key for f in in_force):
            raise Refused(f"the client has {len(in_force)} filters already (MaxFilters)")
        self._set_filters(client, state.with_filter(client.filters, new))
        return ipc.Done(request.request)

    @_carry_out.register
    def _(self, request: ipc.RemoveFilter) -> ipc.Reply:
        client = self._client_with_id(request.client_id)
        keys = [
            f.key
            for f in client.in_force()
            if (f.schema, f.table) == (request.schema, request.table) and request.kinds in (0, f.kinds)
        ]
        filters = list(client.filters)
        for key in keys:
            filters = state.without_filter(filters, key, self._arena.committed)
        if keys:
            self._set_filters(client, filters)
        return ipc.Done(request.request, data={"removed": len(keys)})

    @_carry_out.register
    def _(self, request: ipc.ListFilters) -> ipc.Reply:
        in_force = self._client_with_id(request.client_id).in_force()
        filters = [ipc.Filter(f.schema, f.table, f.kinds, f.discard, f.limit) for f in in_force]
        return ipc.Filters(request.request, tuple(filters))

    @_carry_out.register
    def _(self, request: ipc.Flush) -> ipc.Reply:
        client = self._client_named(request.client)
        dropped = self._broker.flush(self._slots[client.id])
        self._context.log("client_flushed", client=client.name, rows=dropped)
        return ipc.Done(request.request, data={"dropped": dropped})

    @_carry_out.register
    def _(self, request: ipc.Forget) -> ipc.Reply:
        client = self._client_named(request.client)
        self._remove(client)
        self._context.log("client_forgotten", client=client.name, id=client.id)
        return ipc.Done(request.request, data={"client_id": client.id})

    @_carry_out.register
    def _(self, request: ipc.Seek) -> ipc.Reply:
        client = self._client_named(request.client)
        position = self._locate(request.position)
        slot = self._slots[client.id]
        in_force = [replace(each, since=min(each.since, position)) for each in client.in_force()]
        self._set_filters(client, in_force)
        self._broker.seek(slot, position)
        self._context.log("client_moved", client=client.name, position=position)
        return ipc.Done(request.request, data={"position": position})

    @_carry_out.register
    def _(self, request: ipc.Disconnect) -> ipc.Reply:
        client = self._client_named(request.client)
        connected = self._arena.client_stats(self._slots[client.id])["connected"] > 0
        self.orders.append(ipc.Kick(client.id, "an administrator ended the connection"))
        return ipc.Done(request.request, data={"connected": connected})

    @_carry_out.register
    def _(self, request: ipc.Skip) -> ipc.Reply:
        client = self._client_named(request.client)
        self.orders.append(ipc.LeaveOut(client.id, self._slots[client.id], request.number))
        self._context.log("row_skipped", client=client.name, sequence=request.number + 1)
        return ipc.Done(request.request, data={"sequence": request.number + 1})

    def _set_filters(self, client: Client, filters: list[Filter]) -> None:
        """Sets the filters in the ring, which may refuse them, and then on disk.

        A death in between undoes a filter that is not acknowledged.
        """
        filters = state.pruned(filters, self._broker.decided(self._slots[client.id]))
        self._broker.set_filters(self._slots[client.id], _native(filters))
        self._store.replace_filters(client, filters)

    def _remove(self, client: Client) -> None:
        self._store.forget_client(client)
        self._broker.remove_client(self._slots.pop(client.id))
        self.orders.append(ipc.Kick(client.id, "the client was forgotten"))
        del self._by_id[client.id], self._by_name[client.name]

    def _client_with_id(self, client_id: int) -> Client:
        if client_id not in self._by_id:
            raise Refused(f"no client has the id {client_id}")
        return self._by_id[client_id]

    def _client_named(self, name: str) -> Client:
        if name not in self._by_name:
            raise Refused(f"no client is called {name!r}")
        return self._by_name[name]

    def _locate(self, position: str) -> int:
        """The journal position for newest, oldest, FILE:POS or a number."""
        if position == "newest":
            return self._arena.committed
        journal = self._journal()
        if position == "oldest":
            return journal.first()
        file, colon, offset = position.rpartition(":")
        if colon and offset.isdigit():
            return journal.locate(file, int(offset), self._arena.committed)
        if position.isdigit() and journal.first() <= int(position) <= self._arena.committed:
            return int(position)
        raise Refused(f"{position!r} is no position: newest, oldest, FILE:POS, or a journal position that is kept")

    def checkpoint(self) -> None:
        """Stores the state of clients that changed, and publishes the oldest position that any client needs."""
        found = self._broker.checkpoint()
        if found is not None:
            position, changed = found
            self._store.checkpoint(position if self._by_id else 0, changed)  # no clients: nothing to write each second
            self._broker.stored()
        self._arena.needed = self._broker.needed()

    def expire(self) -> None:
        """Forgets clients that were disconnected for longer than ClientExpiry, and logs their counters."""
        expiry = self._context.config.relay.client_expiry
        if not expiry:
            return
        for client in list(self._by_id.values()):
            facts = self._arena.client_stats(self._slots[client.id])
            away = time.time() - facts["last_seen"]
            if not facts["connected"] and facts["last_seen"] and away > expiry:
                self._context.log("client_expired", client=client.name, away=round(away), lost_rows=facts["waiting"])
                self._remove(client)

    def cut_queues(self) -> None:
        """At the reader's request, drops and counts queued rows that the cap of retention is about to delete."""
        position = self._arena.cut_request
        if position > self._arena.cut_done:
            self._broker.cut(position)
            self._context.log("queues_cut", position=position)
            self._arena.cut_done = position


def _native(filters: list[Filter]) -> list[tuple[str, str, int, int, int, int, int]]:
    return [(f.schema, f.table, f.kinds, f.discard, f.limit, f.since, f.until) for f in filters]
