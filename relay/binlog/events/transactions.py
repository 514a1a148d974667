"""Events that begin, end and number transactions."""

from __future__ import annotations

from enum import IntFlag

import msgspec

from relay.binlog.events.header import BinlogEvent


class XidEvent(BinlogEvent, frozen=True, tag="XID"):
    """COMMIT of a transaction."""

    transaction_nr: int
    """The server's number of the transaction."""


class XaId(msgspec.Struct, frozen=True):
    """The id of an XA transaction."""

    format_id: int
    """Its format, as the client gave it; 1 by default."""
    gtrid: bytes
    """Global part, at most 64 bytes."""
    bqual: bytes
    """Branch qualifier, at most 64 bytes."""

    def __str__(self) -> str:
        """As statements in the binlog spell it."""
        return f"X'{self.gtrid.hex()}',X'{self.bqual.hex()}',{self.format_id}"


class XaPrepareEvent(BinlogEvent, frozen=True, tag="XA_PREPARE"):
    """XA PREPARE: the changes before it wait for an XA COMMIT or XA ROLLBACK, which comes as a statement of its own."""

    one_phase: bool
    """XA COMMIT ... ONE PHASE: nothing more comes, they are committed."""
    xid: XaId
    """The transaction's id."""


class MariadbGtidFlag(IntFlag):
    """Bits of `MariadbGtidEvent.flags`."""

    STANDALONE = 0x01
    """One event without COMMIT follows, such as DDL."""
    GROUP_COMMIT_ID = 0x02
    """There is a `commit_id`."""
    TRANSACTIONAL = 0x04
    """It can be rolled back."""
    ALLOW_PARALLEL = 0x08
    """It may be tried in parallel with those before."""
    WAITED = 0x10
    """It waited for a row lock of another."""
    DDL = 0x20
    """It is a definition."""
    PREPARED_XA = 0x40
    """It ends in XA PREPARE."""
    COMPLETED_XA = 0x80
    """It is XA COMMIT or XA ROLLBACK."""


class GtidExtra(IntFlag):
    """Bits of `MariadbGtidEvent.flags_extra`."""

    MULTI_ENGINE = 0x01
    """There is `extra_engines`."""
    START_ALTER = 0x02
    """An ALTER TABLE in two phases begins."""
    COMMIT_ALTER = 0x04
    """It is committed: there is `sa_seq_no`."""
    ROLLBACK_ALTER = 0x08
    """It is rolled back: there is `sa_seq_no`."""
    THREAD_ID = 0x10
    """There is `thread_id`."""


class MariadbGtid(msgspec.Struct, frozen=True):
    """A global transaction id of MariaDB."""

    domain_id: int
    """Numbers of one domain follow one another."""
    server_id: int
    """The server that first wrote the transaction."""
    sequence_nr: int
    """Its number within the domain."""

    def __str__(self) -> str:
        """domain-server-sequence"""
        return f"{self.domain_id}-{self.server_id}-{self.sequence_nr}"


class MariadbGtidEvent(BinlogEvent, frozen=True, tag="MARIADB_GTID"):
    """A group of events begins: MariaDB's GTID event."""

    sequence_nr: int
    """The GTID's number within its domain."""
    domain_id: int
    """The GTID's domain; its server stands in the header."""
    flags: int
    """`MariadbGtidFlag` bits."""
    commit_id: int | None = None
    """Groups of one id were committed together, and can be executed in parallel."""
    xid: XaId | None = None
    """Of a group that prepares or completes an XA transaction."""
    flags_extra: int = 0
    """`GtidExtra` bits."""
    extra_engines: int | None = None
    """How many engines take part beyond the first; 255 where the server does not count them."""
    sa_seq_no: int | None = None
    """Sequence number of the GTID with which the ALTER TABLE began that ends here."""
    thread_id: int | None = None
    """The session (MariaDB 11.5 and later)."""

    @property
    def gtid(self) -> str:
        """domain-server-sequence"""
        return f"{self.domain_id}-{self.header.server_id}-{self.sequence_nr}"


class GtidListEvent(BinlogEvent, frozen=True, tag="GTID_LIST"):
    """MariaDB: where the binlog stood at the beginning of the file, or at the place where a stream begins."""

    gtid_cnt: int
    """How many there are."""
    gtid: tuple[MariadbGtid, ...]
    """The last of each domain and server; the last of each domain comes last."""
    flags: int
    """1: a replica's UNTIL position is reached; 2: its GTIDs are to be ignored."""


class GtidEvent(BinlogEvent, frozen=True, tag="GTID"):
    """A transaction begins: MySQL's GTID event. What older servers do not write is None."""

    commit_flag: int
    """1: it may have changes made in statement format; 0: rows only."""
    source_id: str
    """UUID of the server that committed it first."""
    sequence_nr: int
    """Its number there; 0 if it has no GTID."""
    last_committed: int | None = None
    """`sequence_number` of the last transaction that it must wait for in parallel execution."""
    sequence_number: int | None = None
    """Its number within the file."""
    immediate_commit_timestamp: int | None = None
    """Microseconds since 1970 of its commit on the server that wrote this."""
    original_commit_timestamp: int | None = None
    """Microseconds since 1970 of its first commit."""
    transaction_length: int | None = None
    """Bytes from this event to the transaction's end."""
    immediate_server_version: int | None = None
    """Version of the server that wrote this: 90704 for 9.7.4."""
    original_server_version: int | None = None
    """Version of the server that committed it first."""
    commit_group_ticket: int | None = None
    """Number of the group that it was committed with, in group replication."""

    @property
    def gtid(self) -> str:
        """uuid:number, "" for an anonymous transaction"""
        return f"{self.source_id}:{self.sequence_nr}" if self.sequence_nr else ""


class AnonymousGtidEvent(GtidEvent, frozen=True, tag="ANONYMOUS_GTID"):
    """As GTID, from a server that gave the transaction none."""


class GtidTaggedEvent(GtidEvent, frozen=True, tag="GTID_TAGGED"):
    """As GTID, with a tag (MySQL 8.3 and later)."""

    tag: str = ""
    """The tag."""
    unknown: bytes = b""
    """From the first field on that is not known here."""

    @property
    def gtid(self) -> str:
        """uuid:tag:number"""
        return f"{self.source_id}:{self.tag}:{self.sequence_nr}"


class PreviousGtidsEvent(BinlogEvent, frozen=True, tag="PREVIOUS_GTIDS"):
    """MySQL: all transactions that stand in the files before this one, those purged with them."""

    gtid_set: str
    """As the server prints it."""


class TransactionContextEvent(BinlogEvent, frozen=True, tag="TRANSACTION_CONTEXT"):
    """MySQL's group replication: what a transaction needs to be certified."""

    body: bytes
    """Everything between header and checksum."""


class ViewChangeEvent(BinlogEvent, frozen=True, tag="VIEW_CHANGE"):
    """MySQL's group replication: members came or went."""

    body: bytes
    """Everything between header and checksum."""
