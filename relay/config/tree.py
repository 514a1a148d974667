"""The configuration as one frozen tree: a struct for each section, as `relay.config.load` reads it."""

from __future__ import annotations

import ipaddress
from typing import Final

import msgspec

from relay.config.values import Command

EXPOSURE_HINT: Final = "set TLS = required with TLSCert and TLSKey in [Server], or BindAddress = 127.0.0.1"
"""The remedy for `ServerConfig.exposure`."""


class ServerConfig(msgspec.Struct, frozen=True):
    """`[Server]`: address and account of the source; addresses, secrets and limits of the relay's ports."""

    ip_addr: list[str]
    port: int
    login: str
    password: str | Command
    login_cert: str
    login_key: str
    database: str
    source_tls: str
    source_ca: str
    source_key: list[str]
    password_to_unverified_source: str
    auth_secret: str
    admin_secret: str
    admin_from: list[str]
    clients_from: list[str]
    bind_address: str
    server_port: int
    http_address: str
    http_port: int
    http_from: list[str]
    http_hosts: list[str]
    tls: str
    tls_cert: str
    tls_key: str
    legacy_keys: bool
    unlisted_clients: str
    max_connections: int
    auth_attempts: int

    @property
    def exposure(self) -> str:
        """A warning if other machines can reach the classic port without TLS, else ""."""
        if self.tls != "off" or ipaddress.ip_address(self.bind_address).is_loopback:
            return ""
        open_to = f"the clients' port {self.bind_address}:{self.server_port} is open to other machines without TLS"
        return f"{open_to}: others on the network can read rows, and logins that they can replay"


class Account(msgspec.Struct, frozen=True):
    """Host and account for schema queries: `[MySQL]`, by default `[Server]`."""

    login: str
    password: str | Command
    host: str
    port: int


class LoggerConfig(msgspec.Struct, frozen=True):
    """`[Logger]`: the log of changed rows. Sizes are bytes, durations seconds, 0 for no limit."""

    path: str
    schema: list[str]
    excludes: list[str]
    format: str
    time_zone: str
    rotate_bytes: int
    keep_for: int


class SourceConfig(msgspec.Struct, frozen=True):
    """`[Source]`: what to read from the binlog, and from where."""

    tables: list[str]
    exclude_tables: list[str]
    exclude_columns: list[str]
    start_position: str
    server_id: int
    heartbeat_seconds: int


class RelayConfig(msgspec.Struct, frozen=True):
    """`[Relay]`: delivery, values, retention and limits. Sizes are bytes, durations seconds."""

    data_dir: str
    user: str
    workers: int
    delivery: str
    max_repeats: int
    event_position: str
    null_text: str
    time_zone: str
    on_unknown: str
    on_partial_image: str
    on_assumed_charset: str
    on_unproven: str
    journal_keep_bytes: int
    journal_keep_age: int
    journal_max_bytes: int
    segment_bytes: int
    client_expiry: int
    max_clients: int
    max_filters: int
    max_request_bytes: int
    max_buffered_bytes: int
    queue_memory: int
    log_format: str
    drain_timeout: int


class LakeConfig(msgspec.Struct, frozen=True):
    """`[Lake]`: the export. `path` is a folder or a URL, "" for no export."""

    path: str
    tables: list[str]
    roll_seconds: int
    roll_bytes: int
    snapshot: str
    open_tables: str
    merge_seconds: int


class CDCConfig(msgspec.Struct, frozen=True):
    """`[CDC]`: the port for clients of MaxScale. `command_gap` is in milliseconds."""

    enabled: bool
    address: str
    port: int
    allowed_from: list[str]
    users: str
    service_user: str
    tables: list[str]
    values: str
    codec: str
    workers: int
    max_streams: int
    auth_attempts: int
    tls: str
    command_gap: int


class ClientConfig(msgspec.Struct, frozen=True):
    """`[Client NAME]`: the secret of a name, the tables it may request, and its allowed addresses."""

    secret: str
    tables: list[str]
    allowed_from: list[str]


class Config(msgspec.Struct, frozen=True):
    """The whole configuration. `clients` is keyed by client name."""

    server: ServerConfig
    schema_account: Account
    logger: LoggerConfig
    source: SourceConfig
    relay: RelayConfig
    lake: LakeConfig
    cdc: CDCConfig
    clients: dict[str, ClientConfig]
