"""Access rules: who may log in, ask for which tables, and use admin commands."""

from __future__ import annotations

from relay.config import patterns
from relay.config.tree import Config
from relay.net.addresses import Addresses, plain
from relay.protocol import classic_keys


class Access:
    """The rules of `[Server]` and of each `[Client NAME]`."""

    def __init__(self, config: Config) -> None:
        self.apply(config)

    def apply(self, config: Config) -> None:
        """Use the rules of this configuration from now on."""
        server = config.server
        legacy = server.legacy_keys
        self._shared = classic_keys.accepted_keys(_raw(server.auth_secret), legacy=legacy)
        self._listed = {
            name: classic_keys.accepted_keys(_raw(client.secret), legacy=legacy)
            for name, client in config.clients.items()
        }
        self._tables = {name: patterns.compile_all(client.tables) for name, client in config.clients.items()}
        self._unlisted = server.unlisted_clients == "allow"
        self._admin = (classic_keys.fnv1a64(_raw(server.admin_secret)),) if server.admin_secret else ()
        self._admin_from = Addresses(server.admin_from)
        self._clients_from = Addresses(server.clients_from)
        self._from = {name: Addresses(client.allowed_from) for name, client in config.clients.items()}

    def may_log_in(self, name: str, key: int) -> bool:
        """Whether the key matches the secret of that name: its own, or the shared one if the name has no section."""
        listed = self._listed.get(name)
        if listed is not None:
            return classic_keys.key_matches(key, listed)
        return classic_keys.key_matches(key, self._shared) and self._unlisted

    def may_connect(self, address: str) -> bool:
        """Whether any login or admin command may come from this address."""
        return (
            self.address_rule("", address) == ""
            or any(address in each for each in self._from.values())
            or (self.has_admin and self.may_administrate(address))
        )

    def address_rule(self, name: str, address: str) -> str:
        """Return the configuration key that forbids the name to log in from this address, "" if none does."""
        own = self._from.get(name)
        if own:
            return "" if address in own else f"[Client {name}] From"
        return "" if self._clients_from.admit(address) else "[Server] ClientsFrom"

    def may_ask(self, name: str, schema: str, table: str) -> bool:
        """Whether the client may have rows of schema.table; `*` means all."""
        allowed = self._tables.get(name)
        return allowed is None or patterns.any_matches(allowed, schema, table)

    @property
    def has_admin(self) -> bool:
        """Whether admin commands are enabled."""
        return bool(self._admin)

    def is_admin(self, key: int) -> bool:
        """Whether the key matches AdminSecret."""
        return classic_keys.key_matches(key, self._admin)

    def may_administrate(self, address: str) -> bool:
        """Whether admin commands may come from this address."""
        return plain(address).is_loopback or address in self._admin_from


def _raw(secret: str) -> bytes:
    """Return the bytes of a secret as in the configuration file."""
    return secret.encode("utf-8", "surrogateescape")
