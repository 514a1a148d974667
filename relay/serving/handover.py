"""Pass sockets to the server processes that own their clients, and receive those of its own clients."""

from __future__ import annotations

import array
import socket
from typing import Final

from relay.runtime import ipc
from relay.runtime.context import ServerContext
from relay.serving.connection import Connection
from relay.serving.connections import Connections

_PACKET: Final = 1 << 20


class Handover:
    """A client belongs to the server with the index `client id mod workers`, whichever server accepted it."""

    def __init__(self, context: ServerContext, connections: Connections) -> None:
        self._context = context
        self._connections = connections
        self._inbox = context.inboxes[context.index][0]

    def fileno(self) -> int:
        """Return the descriptor to wait for."""
        return self._inbox.fileno()

    def pass_on(self, connection: Connection, client_id: int, slot: int) -> None:
        """Bind a connection that has logged in as this client, or send it to the server that owns the client."""
        self._connections.release(connection)
        connection.client_id, connection.slot = client_id, slot
        owner = client_id % self._context.workers
        if owner == self._context.index:
            self._connections.bind(connection)
        else:
            self._send(connection, owner)

    def _send(self, connection: Connection, owner: int) -> None:
        received, unsent = connection.session.take()
        client = connection.client_id, connection.slot, connection.name, connection.key, connection.address
        packet = ipc.encode(ipc.Handover(*client, received, unsent))
        rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [connection.fd]))]
        try:
            self._context.inboxes[owner][1].sendmsg([packet], rights)
        except OSError as error:
            self._failed(connection.name, connection.address, server=owner, error=error)
        self._connections.drop(connection)

    def receive(self) -> None:
        """Receive connections of own clients that other servers have accepted."""
        while True:
            try:
                packet, ancillary, _, _ = self._inbox.recvmsg(_PACKET, socket.CMSG_SPACE(array.array("i").itemsize))
            except BlockingIOError:
                return
            handover = ipc.decode_handover(packet)
            descriptors = array.array("i")
            for level, kind, data in ancillary:
                if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
                    descriptors.frombytes(data)
            if not descriptors:
                self._failed(handover.name, handover.peer, error="no descriptor received")
                continue
            sock = socket.socket(fileno=descriptors[0])
            connection = self._connections.take_over(sock, handover.peer, handover.name, handover.key, handover.unsent)
            if connection is not None:
                connection.client_id, connection.slot = handover.client_id, handover.slot
                self._connections.bind(connection, handover.received, handover.unsent)

    def _failed(self, name: str, address: str, **fields: object) -> None:
        self._context.log("hand_over_failed", client=name, peer=address, **fields)
