"""What statements that define tables say: typed, and with names as they are spelled."""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple, TypeAlias


class TableName(NamedTuple):
    """A table, by schema and name."""

    schema: str
    table: str

    def __str__(self) -> str:
        return f"{self.schema}.{self.table}"


class Bytes(NamedTuple):
    """A literal of hexadecimal or binary digits, or a label that is no text."""

    data: bytes


class DataType(NamedTuple):
    """A column's type. `name` is the type's own ("int" for INTEGER), `length` what stands first in its parentheses.

    `labels` are those of ENUM and SET.
    """

    name: str
    length: int | None = None
    decimals: int | None = None
    labels: tuple[str | Bytes, ...] = ()
    unsigned: bool = False
    zerofill: bool = False
    charset: str = ""
    collation: str = ""
    compressed: bool = False


class Value(StrEnum):
    """What a column has in rows that give it no value."""

    NONE = "none"  # nothing is said
    NULL = "null"
    OTHER = "other"


class Generated(StrEnum):
    """How the server makes a column's values."""

    NO = ""
    VIRTUAL = "virtual"
    STORED = "stored"
    ROW_START = "row start"
    ROW_END = "row end"


class ColumnSpec(NamedTuple):
    """A column as a statement defines it. `nullable` is None where it says neither NULL nor NOT NULL."""

    name: str
    type: DataType
    nullable: bool | None = None
    default: Value = Value.NONE
    on_update: bool = False
    generated: Generated = Generated.NO
    auto_increment: bool = False
    primary: bool = False
    unique: bool = False
    invisible: bool = False
    versioned: bool = False  # WITH SYSTEM VERSIONING


class IndexPart(NamedTuple):
    """A column of an index, of which `length` characters count; 0: all. `name` is empty for an expression."""

    name: str
    length: int = 0
    descending: bool = False


class IndexKind(StrEnum):
    """What an index promises."""

    PRIMARY = "primary"
    UNIQUE = "unique"
    OTHER = "other"


class IndexSpec(NamedTuple):
    """An index as a statement defines it; `name` is empty where the server chooses one."""

    kind: IndexKind
    name: str
    parts: tuple[IndexPart, ...]
    hashed: bool = False  # USING HASH
    overlaps: str = ""  # the period named in WITHOUT OVERLAPS


class Period(NamedTuple):
    """PERIOD FOR `name` (start, end)."""

    name: str
    start: str
    end: str


class Options(NamedTuple):
    """Options of a table that change what its columns are, or whether its rows are its own; empty: not said.

    `elsewhere`: it says where rows are that the table does not hold itself (UNION, CONNECTION, an option of an engine).
    """

    charset: str = ""
    collation: str = ""
    engine: str = ""
    versioned: bool = False
    sequence: bool = False
    elsewhere: bool = False


class Position(NamedTuple):
    """Where a column is put: first, or after the column named."""

    after: str = ""


class AddColumn(NamedTuple):
    """ADD COLUMN."""

    column: ColumnSpec
    position: Position | None = None
    if_not_exists: bool = False


class ChangeColumn(NamedTuple):
    """CHANGE COLUMN, and MODIFY COLUMN, which keeps the name."""

    old: str
    column: ColumnSpec
    position: Position | None = None
    if_exists: bool = False


class ShowColumn(NamedTuple):
    """ALTER COLUMN ... SET VISIBLE or INVISIBLE."""

    name: str
    visible: bool


class RenameColumn(NamedTuple):
    """RENAME COLUMN."""

    old: str
    new: str
    if_exists: bool = False


class DropColumn(NamedTuple):
    """DROP COLUMN."""

    name: str
    if_exists: bool = False


class AddIndex(NamedTuple):
    """ADD INDEX, PRIMARY KEY or UNIQUE; `replaces`: CREATE OR REPLACE INDEX."""

    spec: IndexSpec
    if_not_exists: bool = False
    replaces: bool = False


class DropIndex(NamedTuple):
    """DROP INDEX; of the primary key the name is PRIMARY."""

    name: str
    if_exists: bool = False


class DropConstraint(NamedTuple):
    """DROP CONSTRAINT, which may be a unique index."""

    name: str
    if_exists: bool = False


class RenameIndex(NamedTuple):
    """RENAME INDEX."""

    old: str
    new: str
    if_exists: bool = False


class RenameTo(NamedTuple):
    """RENAME TO."""

    table: TableName


class ConvertTo(NamedTuple):
    """CONVERT TO CHARACTER SET; an empty `charset` is the schema's."""

    charset: str
    collation: str = ""


class SetOptions(NamedTuple):
    """Options of the table."""

    options: Options


class AddPeriod(NamedTuple):
    """ADD PERIOD."""

    period: Period


class DropPeriod(NamedTuple):
    """DROP PERIOD."""

    name: str


class AddVersioning(NamedTuple):
    """ADD SYSTEM VERSIONING."""


class DropVersioning(NamedTuple):
    """DROP SYSTEM VERSIONING."""


class Partition(NamedTuple):
    """A clause about partitions by its first word; `table` is the other table of EXCHANGE and CONVERT.

    `verb` of CONVERT TABLE ... TO PARTITION is "attach".
    """

    verb: str
    table: TableName | None = None


class Tablespace(NamedTuple):
    """DISCARD or IMPORT TABLESPACE."""


class Unchanged(NamedTuple):
    """A clause that leaves columns, keys and values as they are."""

    words: str


Clause: TypeAlias = (
    AddColumn | ChangeColumn | ShowColumn | RenameColumn | DropColumn | AddIndex | DropIndex | DropConstraint
    | RenameIndex | RenameTo | ConvertTo | SetOptions | AddPeriod | DropPeriod | AddVersioning | DropVersioning
    | Partition | Tablespace | Unchanged
)  # fmt: skip


class CreateTable(NamedTuple):
    """CREATE TABLE with a list of columns."""

    table: TableName
    columns: tuple[ColumnSpec, ...]
    indexes: tuple[IndexSpec, ...]
    periods: tuple[Period, ...]
    options: Options
    or_replace: bool = False
    if_not_exists: bool = False


class CreateLike(NamedTuple):
    """CREATE TABLE ... LIKE."""

    table: TableName
    like: TableName
    or_replace: bool = False
    if_not_exists: bool = False


class CreateSequence(NamedTuple):
    """CREATE SEQUENCE, which MariaDB keeps as a table."""

    table: TableName
    type: DataType | None = None
    or_replace: bool = False
    if_not_exists: bool = False


class AlterTable(NamedTuple):
    """ALTER TABLE, CREATE INDEX and DROP INDEX."""

    table: TableName
    clauses: tuple[Clause, ...]
    if_exists: bool = False
    ignore: bool = False


class AlterSequence(NamedTuple):
    """ALTER SEQUENCE, which may change the values in its row, but not its columns."""

    table: TableName


class RenameTable(NamedTuple):
    """One pair of RENAME TABLE."""

    old: TableName
    new: TableName
    if_exists: bool = False


class DropTable(NamedTuple):
    """One table of DROP TABLE."""

    table: TableName


class TruncateTable(NamedTuple):
    """TRUNCATE TABLE."""

    table: TableName


class CreateSchema(NamedTuple):
    """CREATE DATABASE; an empty `charset` is the server's."""

    schema: str
    charset: str
    collation: str
    or_replace: bool = False
    if_not_exists: bool = False


class AlterSchema(NamedTuple):
    """ALTER DATABASE; an empty `charset` stays as it is."""

    schema: str
    charset: str
    collation: str


class DropSchema(NamedTuple):
    """DROP DATABASE."""

    schema: str


Change: TypeAlias = (
    CreateTable | CreateLike | CreateSequence | AlterTable | AlterSequence | RenameTable | DropTable | TruncateTable
    | CreateSchema | AlterSchema | DropSchema
)  # fmt: skip
