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
    """Format id given by the client; 1 by default."""
    gtrid: bytes
    """Global part, at most 64 bytes."""
    bqual: bytes
    """Branch qualifier, at most 64 bytes."""

    def __str__(self) -> str:
        """As statements in the binlog spell it."""
        return f"X'{self.gtrid.hex()}',X'{self.bqual.hex()}',{self.format_id}"


class XaPrepareEvent(BinlogEvent, frozen=True, tag="XA_PREPARE"):
    """XA PREPARE: the changes before it wait for an XA COMMIT or XA ROLLBACK, which comes as a separate statement."""

    one_phase: bool
    """XA COMMIT ... ONE PHASE: the changes are committed, and no further statement comes."""
    xid: XaId
    """The transaction's id."""


class MariadbGtidFlag(IntFlag):
    """Bits of `MariadbGtidEvent.flags`."""

    STANDALONE = 0x01
    """One event without COMMIT follows, for example DDL."""
    GROUP_COMMIT_ID = 0x02
    """`commit_id` is set."""
    TRANSACTIONAL = 0x04
    """The group can be rolled back."""
    ALLOW_PARALLEL = 0x08
    """The group may run in parallel with earlier ones."""
    WAITED = 0x10
    """The group waited for another one's row lock."""
    DDL = 0x20
    """The group is DDL."""
    PREPARED_XA = 0x40
    """The group ends in XA PREPARE."""
    COMPLETED_XA = 0x80
    """The group is an XA COMMIT or XA ROLLBACK."""


class GtidExtra(IntFlag):
    """Bits of `MariadbGtidEvent.flags_extra`."""

    MULTI_ENGINE = 0x01
    """`extra_engines` is set."""
    START_ALTER = 0x02
    """An ALTER TABLE in two phases begins."""
    COMMIT_ALTER = 0x04
    """The ALTER TABLE is committed: `sa_seq_no` is set."""
    ROLLBACK_ALTER = 0x08
    """The ALTER TABLE is rolled back: `sa_seq_no` is set."""
    THREAD_ID = 0x10
    """`thread_id` is set."""


class MariadbGtid(msgspec.Struct, frozen=True):
    """A global transaction id of MariaDB."""

    domain_id: int
    """The domain; numbers within a domain are consecutive."""
    server_id: int
    """The server that first wrote the transaction."""
    sequence_nr: int
    """Number within the domain."""

    def __str__(self) -> str:
        """Return `domain-server-sequence`."""
        return f"{self.domain_id}-{self.server_id}-{self.sequence_nr}"


class MariadbGtidEvent(BinlogEvent, frozen=True, tag="MARIADB_GTID"):
    """Beginning of a group of events: MariaDB's GTID event."""

    sequence_nr: int
    """The GTID's number within its domain."""
    domain_id: int
    """The GTID's domain; its server is in the header."""
    flags: int
    """`MariadbGtidFlag` bits."""
    commit_id: int | None = None
    """Groups with the same id were committed together and can be executed in parallel."""
    xid: XaId | None = None
    """The XA transaction that the group prepares or completes."""
    flags_extra: int = 0
    """`GtidExtra` bits."""
    extra_engines: int | None = None
    """Number of engines involved besides the first; 255 if the server does not count them."""
    sa_seq_no: int | None = None
    """Sequence number of the GTID that began the ALTER TABLE that ends here."""
    thread_id: int | None = None
    """The session (MariaDB 11.5 and later)."""

    @property
    def gtid(self) -> str:
        """The GTID as `domain-server-sequence`."""
        return f"{self.domain_id}-{self.header.server_id}-{self.sequence_nr}"


class GtidListEvent(BinlogEvent, frozen=True, tag="GTID_LIST"):
    """MariaDB: the GTIDs before the beginning of the file, or before the position where a stream begins."""

    gtid_cnt: int
    """Number of GTIDs."""
    gtid: tuple[MariadbGtid, ...]
    """The last GTID of each domain and server; within a domain, its last GTID comes last."""
    flags: int
    """1: a replica's UNTIL position is reached; 2: ignore these GTIDs."""


class GtidEvent(BinlogEvent, frozen=True, tag="GTID"):
    """Beginning of a transaction: MySQL's GTID event. Fields that older servers do not write are None."""

    commit_flag: int
    """1: the transaction may have changes in statement format; 0: rows only."""
    source_id: str
    """UUID of the server that first committed the transaction."""
    sequence_nr: int
    """Number of the transaction on that server; 0 without a GTID."""
    last_committed: int | None = None
    """`sequence_number` of the last transaction that this one must wait for in parallel execution."""
    sequence_number: int | None = None
    """Number of the transaction within the file."""
    immediate_commit_timestamp: int | None = None
    """Time of the commit on the server that wrote this event, in microseconds since 1970."""
    original_commit_timestamp: int | None = None
    """Time of the first commit, in microseconds since 1970."""
    transaction_length: int | None = None
    """Bytes from the beginning of this event to the end of the transaction."""
    immediate_server_version: int | None = None
    """Version of the server that wrote this event: 90704 for 9.7.4."""
    original_server_version: int | None = None
    """Version of the server that first committed the transaction."""
    commit_group_ticket: int | None = None
    """Number of the transaction's commit group, in group replication."""

    @property
    def gtid(self) -> str:
        """The GTID as `uuid:number`, "" for an anonymous transaction."""
        return f"{self.source_id}:{self.sequence_nr}" if self.sequence_nr else ""


class AnonymousGtidEvent(GtidEvent, frozen=True, tag="ANONYMOUS_GTID"):
    """Like GTID, for a transaction without a GTID."""


class GtidTaggedEvent(GtidEvent, frozen=True, tag="GTID_TAGGED"):
    """Like GTID, with a tag (MySQL 8.3 and later)."""

    tag: str = ""
    """The tag."""
    unknown: bytes = b""
    """Undecoded bytes, from the first unknown field on."""

    @property
    def gtid(self) -> str:
        """The GTID as `uuid:tag:number`."""
        return f"{self.source_id}:{self.tag}:{self.sequence_nr}"


class PreviousGtidsEvent(BinlogEvent, frozen=True, tag="PREVIOUS_GTIDS"):
    """MySQL: all transactions in the files before this one, purged files included."""

    gtid_set: str
    """As the server prints it."""


class TransactionContextEvent(BinlogEvent, frozen=True, tag="TRANSACTION_CONTEXT"):
    """MySQL's group replication: data for the certification of a transaction."""

    body: bytes
    """All bytes between header and checksum."""


class ViewChangeEvent(BinlogEvent, frozen=True, tag="VIEW_CHANGE"):
    """MySQL's group replication: members joined or left."""

    body: bytes
    """All bytes between header and checksum."""
