"""The broker's knowledge of clients: which exist, where they stand in the arena, which filters they have.

Every answer to a server is given after its effect is on disk, so what was acknowledged survives any process.
"""

from __future__ import annotations

import sqlite3
import time
from functools import singledispatchmethod
from sys import intern

from relay import messages
from relay._native import Broker, JournalReader
from relay.config import Config
from relay.context import BrokerContext
from relay.errors import RelayError, StopCode
from relay.queues import state
from relay.queues.state import Client, ClientState, Filter
from relay.serving import patterns


class Refused(Exception):
    """A request cannot be carried out; the text goes to the client or operator who made it."""


class Registry:
    """Clients in memory, in the arena and on disk, kept the same."""

    def __init__(self, context: BrokerContext, broker: Broker, store: ClientState) -> None:
        self._context = context
        self._arena = context.arena
        self._broker = broker
        self._store = store
        self._by_name: dict[str, Client] = {}
        self._by_id: dict[int, Client] = {}
        self._slots: dict[int, int] = {}  # arena slot by client id
        self._tables: dict[str, patterns.Patterns] = {}  # by the name of a client that may not have all
        self.orders: list[messages.Order] = []  # for the servers that own the clients, for the loop to send

    def load(self) -> None:
        """Brings disk and arena together: clients of a living arena carry on, others are rebuilt from checkpoints."""
        generation, stored = self._journal().generation(), self._store.generation()
        lost = stored not in (None, generation)  # the stored positions belong to a journal that is gone
        if lost:
            self._store.checkpoint(0, [(client.id, b"") for client in self._store.clients()])
        position = self._store.position()
        living = {self._arena.client_id(slot): slot for slot in self._arena.client_slots()}
        for client in self._store.clients():
            slot = living.pop(client.id, None)
            if lost:
                self._start_anew(client)
            if slot is None or lost:
                if slot is not None:
                    self._broker.remove_client(slot)
                slot = self._broker.add_client(client.id, client.name)
                self._broker.set_filters(slot, _native(client.filters))
                if client.checkpoint is not None:
                    self._broker.restore(slot, client.checkpoint, position)
            else:
                self._broker.set_filters(slot, _native(client.filters))
            self._enter(client, slot)
        for slot in living.values():  # forgotten on disk, but not yet in the arena, when the last broker died
            self._broker.remove_client(slot)
        if stored != generation:  # last: until then a successor has to do all this again
            self._store.set_generation(generation)

    def _journal(self) -> JournalReader:
        """For a short use: what a reader has looked at stays mapped, and so on disk although retention deletes it."""
        return JournalReader(str(self._context.journal_dir))

    def _start_anew(self, client: Client) -> None:
        """After the loss of the journal its positions mean nothing: filters hold from here, what waited is gone."""
        self._context.log("client_gap", client=client.name, code=StopCode.JOURNAL_LOST, cause="the journal was lost")
        here = self._arena.committed
        self._store.replace_filters(
            client, [Filter(f.schema, f.table, f.kinds, f.discard, f.limit, here) for f in client.in_force()]
        )

    def restrict(self, config: Config) -> None:
        """Hold every client to `Tables` of its section in this configuration, from the rows on that wait for it.

        A filter that asks for more is withdrawn as if there had been none. What waits is decided once more, from the
        oldest row on that is not confirmed; it is the client's to notice that it has some of these already.
        """
        self._tables = {name: patterns.compiled(client.tables) for name, client in config.clients.items()}
        for client in self._by_id.values():
            allowed = [f for f in client.filters if self._allows(client.name, f.schema, f.table)]
            if len(allowed) == len(client.filters):
                continue
            slot = self._slots[client.id]
            for each in client.filters:
                if each not in allowed:
                    self._context.log("filter_withdrawn", client=client.name, schema=each.schema, table=each.table)
            oldest, waits = self._broker.oldest(slot), self._arena.client_stats(slot)["waiting"] > 0
            self._set(client, allowed)
            if waits:
                self._broker.seek(slot, oldest)

    def _allows(self, name: str, schema: str, table: str) -> bool:
        return name not in self._tables or patterns.allow(self._tables[name], schema, table)

    def _enter(self, client: Client, slot: int) -> None:
        self._by_name[client.name] = self._by_id[client.id] = client
        self._slots[client.id] = slot

    def answer(self, request: messages.Request) -> messages.Reply:
        """Carries out a server's request. What cannot be done is told in the reply and changes nothing."""
        try:
            return self._do(request)
        except (Refused, RelayError, sqlite3.OperationalError) as refusal:  # also where a disk or /dev/shm is full
            if isinstance(request, messages.Register):
                return messages.Registered(request.request, error=str(refusal))
            return messages.Done(request.request, error=str(refusal))

    @singledispatchmethod
    def _do(self, request: messages.Request) -> messages.Reply:
        raise TypeError(f"{type(request).__name__} is no request to the broker")

    @_do.register
    def _(self, request: messages.Register) -> messages.Reply:
        client = self._by_name.get(request.name)
        if client is None:
            if len(self._by_name) >= self._context.config.relay.max_clients:
                raise Refused(f"there are {len(self._by_name)} clients already (MaxClients)")
            client = self._store.add_client(request.name)
            self._enter(client, self._broker.add_client(client.id, client.name))
            self._context.log("client_new", client=client.name, id=client.id)
        return messages.Registered(request.request, client.id, self._slots[client.id])

    @_do.register
    def _(self, request: messages.AddFilter) -> messages.Reply:
        client = self._client(request.client_id)
        if not self._allows(client.name, request.schema, request.table):  # a server that knows it has refused already
            raise Refused(f"client {client.name} may not have rows of {request.schema}.{request.table}")
        here = self._arena.committed
        schema, table = intern(request.schema), intern(request.table)
        new = Filter(schema, table, request.kinds, request.discard, request.limit, here)
        in_force = client.in_force()
        if any(f.key == new.key and (f.discard, f.limit) == (new.discard, new.limit) for f in in_force):
            return messages.Done(request.request)
        if len(in_force) >= self._context.config.relay.max_filters and all(f.key != new.key for f in in_force):
            raise Refused(f"the client has {len(in_force)} filters already (MaxFilters)")
        self._set(client, state.with_filter(client.filters, new))
        return messages.Done(request.request)

    @_do.register
    def _(self, request: messages.RemoveFilter) -> messages.Reply:
        client = self._client(request.client_id)
        keys = [
            f.key
            for f in client.in_force()
            if (f.schema, f.table) == (request.schema, request.table) and request.kinds in (0, f.kinds)
        ]
        filters = list(client.filters)
        for key in keys:
            filters = state.without_filter(filters, key, self._arena.committed)
        if keys:
            self._set(client, filters)
        return messages.Done(request.request, data={"removed": len(keys)})

    @_do.register
    def _(self, request: messages.ListFilters) -> messages.Reply:
        filters = (
            messages.Filter(f.schema, f.table, f.kinds, f.discard, f.limit)
            for f in self._client(request.client_id).in_force()
        )
        return messages.Filters(request.request, tuple(filters))

    @_do.register
    def _(self, request: messages.Flush) -> messages.Reply:
        client = self._named(request.client)
        dropped = self._broker.flush(self._slots[client.id])
        self._context.log("client_flushed", client=client.name, rows=dropped)
        return messages.Done(request.request, data={"dropped": dropped})

    @_do.register
    def _(self, request: messages.Forget) -> messages.Reply:
        client = self._named(request.client)
        self._remove(client)
        self._context.log("client_forgotten", client=client.name, id=client.id)
        return messages.Done(request.request, data={"client_id": client.id})

    @_do.register
    def _(self, request: messages.Seek) -> messages.Reply:
        client = self._named(request.client)
        position = self._locate(request.position)
        slot = self._slots[client.id]
        in_force = [
            Filter(f.schema, f.table, f.kinds, f.discard, f.limit, min(f.since, position)) for f in client.in_force()
        ]
        self._set(client, in_force)
        self._broker.seek(slot, position)
        self._context.log("client_moved", client=client.name, position=position)
        return messages.Done(request.request, data={"position": position})

    @_do.register
    def _(self, request: messages.Disconnect) -> messages.Reply:
        client = self._named(request.client)
        connected = self._arena.client_stats(self._slots[client.id])["connected"] > 0
        self.orders.append(messages.Kick(client.id, "an administrator ended the connection"))
        return messages.Done(request.request, data={"connected": connected})

    @_do.register
    def _(self, request: messages.Skip) -> messages.Reply:
        client = self._named(request.client)
        self.orders.append(messages.LeaveOut(client.id, self._slots[client.id], request.number))
        self._context.log("row_skipped", client=client.name, sequence=request.number + 1)
        return messages.Done(request.request, data={"sequence": request.number + 1})

    def _set(self, client: Client, filters: list[Filter]) -> None:
        """The rings first: they may refuse. A death before the store leaves an unacknowledged filter undone."""
        filters = state.pruned(filters, self._broker.decided(self._slots[client.id]))
        self._broker.set_filters(self._slots[client.id], _native(filters))
        self._store.replace_filters(client, filters)

    def _remove(self, client: Client) -> None:
        self._store.forget_client(client)
        self._broker.remove_client(self._slots.pop(client.id))
        self.orders.append(messages.Kick(client.id, "the client was forgotten"))
        del self._by_id[client.id], self._by_name[client.name]

    def _client(self, client_id: int) -> Client:
        if client_id not in self._by_id:
            raise Refused(f"no client has the id {client_id}")
        return self._by_id[client_id]

    def _named(self, name: str) -> Client:
        if name not in self._by_name:
            raise Refused(f"no client is called {name!r}")
        return self._by_name[name]

    def _locate(self, position: str) -> int:
        """The journal position that newest, oldest, FILE:POS or a number stands for."""
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
        """Stores where clients stand that moved, and tells the reader what nobody needs any more."""
        found = self._broker.checkpoint()
        if found is not None:
            position, changed = found
            self._store.checkpoint(position if self._by_id else 0, changed)  # nobody: nothing to be written each second
            self._broker.stored()
        self._arena.needed = self._broker.needed()

    def expire(self) -> None:
        """Forgets clients that were away for longer than ClientExpiry; their counters go with them, into the log."""
        expiry = self._context.config.relay.client_expiry
        if not expiry:
            return
        for client in list(self._by_id.values()):
            facts = self._arena.client_stats(self._slots[client.id])
            away = time.time() - facts["last_seen"]
            if not facts["connected"] and facts["last_seen"] and away > expiry:
                self._context.log("client_expired", client=client.name, away=round(away), lost_rows=facts["waiting"])
                self._remove(client)

    def cut(self) -> None:
        """Drops from the queues what retention's cap is about to delete, by the reader's request, and counts it."""
        position = self._arena.cut_request
        if position > self._arena.cut_done:
            self._broker.cut(position)
            self._context.log("queues_cut", position=position)
            self._arena.cut_done = position


def _native(filters: list[Filter]) -> list[tuple[str, str, int, int, int, int, int]]:
    return [(f.schema, f.table, f.kinds, f.discard, f.limit, f.since, f.until) for f in filters]
