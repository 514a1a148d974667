"""Logins of clients: checks name, key and address, and gets the client of that name from the broker."""

from __future__ import annotations

from relay.config.tree import Config
from relay.net.access import Access
from relay.net.login_throttle import LoginThrottle
from relay.net.rejections import RejectionLog
from relay.protocol import classic
from relay.protocol.classic import Auth, Identity, Result
from relay.runtime import ipc
from relay.runtime.ipc import Registered, Reply
from relay.serving.broker_link import BrokerLink
from relay.serving.connection import Connection
from relay.serving.connections import Connections
from relay.serving.handover import Handover


class Logins:
    """Answer Auth."""

    def __init__(
        self,
        config: Config,
        connections: Connections,
        handover: Handover,
        broker: BrokerLink,
        access: Access,
        rejections: RejectionLog,
    ) -> None:
        self._connections = connections
        self._handover = handover
        self._broker = broker
        self._access = access
        self._log = rejections
        self._throttle = LoginThrottle(config.server.auth_attempts, rejections)

    def apply(self, config: Config) -> None:
        """Use the login throttle settings of this configuration."""
        self._throttle.allowed = config.server.auth_attempts

    def tick(self) -> None:
        """Check delayed logins that are due. Call it about once a second."""
        self._throttle.tick(self._connections.now)

    def authenticate(self, connection: Connection, payload: bytes) -> None:
        """Answer the pending Auth, now or when the login throttle allows it. Raises `MalformedPayload`."""
        auth = classic.parse_auth(payload)

        def refuse() -> None:
            if self._connections.is_open(connection):
                self._refuse("auth_failed", connection, auth)

        self._throttle.attempt(
            connection.address, auth.name, self._connections.now, lambda: self._check(connection, auth), refuse
        )

    def _check(self, connection: Connection, auth: Auth) -> bool | None:
        """Accept or reject the login; True if accepted, False if rejected, None if the connection is closed."""
        if not self._connections.is_open(connection):
            return None
        right = self._access.may_log_in(auth.name, auth.key)
        rule = self._access.address_rule(auth.name, connection.address)
        if rule:  # the same reply as for a wrong key: it does not reveal that the key is right
            self._refuse("address_refused", connection, auth, rule=rule)
            return False
        if not right:
            self._refuse("auth_failed", connection, auth)
            return False

        def registered(reply: Reply) -> None:
            if not self._connections.is_open(connection):
                return
            if not isinstance(reply, Registered) or reply.error:
                self._connections.answer(connection, classic.encode_error(reply.error))
                return
            connection.name, connection.key = auth.name, auth.key
            self._handover.pass_on(connection, reply.client_id, reply.slot)

        request = ipc.Register(self._broker.next_id(), auth.name)
        self._broker.ask(request, self._connections.now, registered)
        return True

    def _refuse(self, event: str, connection: Connection, auth: Auth, **fields: str) -> None:
        self._log(event, client=auth.name, peer=connection.address, **fields)
        payload = classic.encode_identity(Identity(auth.key, 0, 0))
        self._connections.answer(connection, classic.encode_reply(Result.ERROR, payload))
