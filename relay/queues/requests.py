"""Carry out the requests of servers about clients and filters.

A server gets its reply only after the effect of its request is stored, so an acknowledged request survives any process.
Meanwhile the broker decides on, and further requests about the same client wait.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial, singledispatchmethod
from sys import intern

from msgspec.structs import replace

from relay._native import Broker
from relay.base.errors import RelayError
from relay.queues import state
from relay.queues.registry import Registry
from relay.queues.state import Client, Filter
from relay.queues.state_link import StateLink
from relay.queues.state_messages import AddClient, Change, ForgetClient, ReplaceFilters, Stored
from relay.runtime import ipc
from relay.runtime.context import BrokerContext

Send = Callable[[ipc.Reply], None]


class Refused(Exception):
    """A request cannot be carried out. The text goes to the client or operator who made it."""


@dataclass
class _Change:
    """What a request changes. Once stored, `finish` makes the reply or a further change; if that fails, `undo`."""

    change: Change
    finish: Callable[[], ipc.Reply | _Change]
    undo: Callable[[], None] = lambda: None


class Requests:
    """Answer requests, with the clients of `registry`."""

    def __init__(self, context: BrokerContext, broker: Broker, registry: Registry, link: StateLink) -> None:
        self._context = context
        self._arena = context.arena
        self._broker = broker
        self._registry = registry
        self._link = link

    def answer(self, request: ipc.Request, send: Send) -> None:
        """Carry out a server's request. `send` gets the reply, now or once the effect is stored.

        If that fails, the reply has the reason.
        """
        name = self._name(request)
        busy = self._registry.busy.get(name)
        if busy is None:
            self._step(name, request, send, partial(self._carry_out, request))
        elif request.request != busy.request:
            busy.later[request.request] = partial(self.answer, request, send)

    def _name(self, request: ipc.Request) -> str:
        """Return the name of the client that the request is about; "" if there is no such client."""
        match request:
            case ipc.Register():
                return request.name
            case ipc.AddFilter() | ipc.RemoveFilter() | ipc.ListFilters():
                client = self._registry.by_id.get(request.client_id)
                return client.name if client else ""
            case _:
                return request.client

    def _step(self, name: str, request: ipc.Request, send: Send, carry_out: Callable[[], ipc.Reply | _Change]) -> None:
        try:
            done = carry_out()
        except (Refused, RelayError) as refusal:  # also if /dev/shm is full
            send(_refusal(request, str(refusal)))
            return
        if isinstance(done, ipc.Reply):
            send(done)
            return

        def stored(answer: Stored) -> None:
            if answer.error:
                done.undo()
                send(_refusal(request, answer.error))
            else:
                self._step(name, request, send, done.finish)

        self._registry.hand_over(name, done.change, stored, request.request)

    @singledispatchmethod
    def _carry_out(self, request: ipc.Request) -> ipc.Reply | _Change:
        raise TypeError(f"{type(request).__name__} is no request to the broker")

    @_carry_out.register
    def _(self, request: ipc.Register) -> ipc.Reply | _Change:
        client = self._registry.by_name.get(request.name)
        if client is not None:
            return ipc.Registered(request.request, client.id, client.slot)
        if len(self._registry.by_name) >= self._context.config.relay.max_clients:
            raise Refused(f"there are {len(self._registry.by_name)} clients already (MaxClients)")
        new = Client(self._registry.last_id + 1, request.name, [], None)
        slot = self._broker.add_client(new.id, new.name)
        self._registry.last_id = new.id
        self._registry.add(new, slot)

        def finish() -> ipc.Reply:
            self._context.log("client_new", client=new.name, id=new.id)
            return ipc.Registered(request.request, new.id, slot)

        change = AddClient(self._link.next_number(), new.id, new.name)
        return _Change(change, finish, undo=lambda: self._registry.remove(new))

    @_carry_out.register
    def _(self, request: ipc.AddFilter) -> ipc.Reply | _Change:
        client = self._client_with_id(request.client_id)
        if not self._registry.allows(client.name, request.schema, request.table):
            # Servers refuse it first, unless they lag.
            raise Refused(f"client {client.name} may not have rows of {request.schema}.{request.table}")
        here = self._arena.committed
        schema, table = intern(request.schema), intern(request.table)
        new = Filter(schema, table, request.kinds, request.discard, request.limit, here)
        in_force = client.in_force()
        if any(f.key == new.key and (f.discard, f.limit) == (new.discard, new.limit) for f in in_force):
            return self._once_stored(client, ipc.Done(request.request))
        if len(in_force) >= self._context.config.relay.max_filters and all(f.key != new.key for f in in_force):
            raise Refused(f"the client has {len(in_force)} filters already (MaxFilters)")
        self._registry.set_filters(client, state.with_filter(client.filters, new))
        return self._once_stored(client, ipc.Done(request.request))

    @_carry_out.register
    def _(self, request: ipc.RemoveFilter) -> ipc.Reply | _Change:
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
            self._registry.set_filters(client, filters)
        return self._once_stored(client, ipc.Done(request.request, data={"removed": len(keys)}))

    @_carry_out.register
    def _(self, request: ipc.ListFilters) -> ipc.Reply:
        in_force = self._client_with_id(request.client_id).in_force()
        filters = [ipc.Filter(f.schema, f.table, f.kinds, f.discard, f.limit) for f in in_force]
        return ipc.Filters(request.request, tuple(filters))

    @_carry_out.register
    def _(self, request: ipc.Flush) -> ipc.Reply:
        client = self._client_named(request.client)
        dropped = self._broker.flush(client.slot)
        self._context.log("client_flushed", client=client.name, rows=dropped)
        return ipc.Done(request.request, data={"dropped": dropped})

    @_carry_out.register
    def _(self, request: ipc.Forget) -> ipc.Reply | _Change:
        client = self._client_named(request.client)

        def finish() -> ipc.Reply:
            self._registry.remove(client)
            self._context.log("client_forgotten", client=client.name, id=client.id)
            return ipc.Done(request.request, data={"client_id": client.id})

        return _Change(ForgetClient(self._link.next_number(), client.id), finish)

    @_carry_out.register
    def _(self, request: ipc.Seek) -> ipc.Reply | _Change:
        client = self._client_named(request.client)
        position = self._locate(request.position)
        change = ReplaceFilters(self._link.next_number(), client.id, _reaching_back(client.in_force(), position))

        def finish() -> ipc.Reply | _Change:
            if _reaching_back(client.in_force(), position) != change.filters:  # `restrict` has changed them
                return self._carry_out(request)
            slot = client.slot
            self._broker.flush(slot)  # else rows that still count with the former filters would wait with the new ones
            self._registry.use_stored_filters(client, change)
            self._broker.seek(slot, position)
            self._context.log("client_moved", client=client.name, position=position)
            return ipc.Done(request.request, data={"position": position})

        self._registry.keep_filters(client)  # the queue counts with them until it is flushed
        return _Change(change, finish, undo=lambda: self._registry.unstored.add(client.id))

    @_carry_out.register
    def _(self, request: ipc.Disconnect) -> ipc.Reply:
        client = self._client_named(request.client)
        connected = self._arena.client_stats(client.slot)["connected"] > 0
        self._registry.orders.append(ipc.Kick(client.id, "an administrator ended the connection"))
        return ipc.Done(request.request, data={"connected": connected})

    @_carry_out.register
    def _(self, request: ipc.Skip) -> ipc.Reply:
        client = self._client_named(request.client)
        self._registry.orders.append(ipc.LeaveOut(client.id, client.slot, request.number))
        self._context.log("row_skipped", client=client.name, sequence=request.number + 1)
        return ipc.Done(request.request, data={"sequence": request.number + 1})

    def _once_stored(self, client: Client, reply: ipc.Reply) -> ipc.Reply | _Change:
        """Return the reply, which says that the client's filters are stored."""
        if client.id not in self._registry.unstored:
            return reply
        self._registry.unstored.discard(client.id)
        change = self._registry.filters_of(client)

        def finish() -> ipc.Reply:
            self._registry.filters_stored(client, change)
            return reply

        return _Change(change, finish, undo=lambda: self._registry.unstored.add(client.id))

    def _client_with_id(self, client_id: int) -> Client:
        if client_id not in self._registry.by_id:
            raise Refused(f"no client has the id {client_id}")
        return self._registry.by_id[client_id]

    def _client_named(self, name: str) -> Client:
        if name not in self._registry.by_name:
            raise Refused(f"no client is called {name!r}")
        return self._registry.by_name[name]

    def _locate(self, position: str) -> int:
        """Return the journal position for newest, oldest, FILE:POS or a number."""
        if position == "newest":
            return self._arena.committed
        journal = self._registry.journal()
        if position == "oldest":
            return journal.first()
        file, colon, offset = position.rpartition(":")
        if colon and offset.isdigit():
            return journal.locate(file, int(offset), self._arena.committed)
        if position.isdigit() and journal.first() <= int(position) <= self._arena.committed:
            return int(position)
        raise Refused(f"{position!r} is no position: newest, oldest, FILE:POS, or a journal position that is kept")


def _reaching_back(filters: list[Filter], position: int) -> list[Filter]:
    """Return the filters, so that they also hold for rows from `position` on."""
    return [replace(each, since=min(each.since, position)) for each in filters]


def _refusal(request: ipc.Request, error: str) -> ipc.Reply:
    if isinstance(request, ipc.Register):
        return ipc.Registered(request.request, error=error)
    return ipc.Done(request.request, error=error)
