"""The types of statements that define tables. Names are spelled as in the statement."""

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
    """A literal of hexadecimal or binary digits, or a label that is not text."""

    data: bytes


class DataType(NamedTuple):
    """A column's type.

    `name` is the canonical name ("int" for INTEGER), `length` the first number in its parentheses. `labels` are those
    of ENUM and SET.
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


class Generated(StrEnum):
    """How the server generates a column's values."""

    NO = ""
    VIRTUAL = "virtual"
    STORED = "stored"
    ROW_START = "row start"
    ROW_END = "row end"


class ColumnSpec(NamedTuple):
    """A column in a statement. `nullable` is None if neither NULL nor NOT NULL is specified."""

    name: str
    type: DataType
    nullable: bool | None = None
    has_default: bool = False  # and it is not NULL
    on_update: bool = False
    generated: Generated = Generated.NO
    auto_increment: bool = False
    primary: bool = False
    unique: bool = False
    invisible: bool = False
    versioned: bool = False  # WITH SYSTEM VERSIONING


class IndexPart(NamedTuple):
    """A column of an index; `length` is its prefix in characters, 0 for all. `name` is empty for an expression."""

    name: str
    length: int = 0
    descending: bool = False


class IndexKind(StrEnum):
    """The kind of an index."""

    PRIMARY = "primary"
    UNIQUE = "unique"
    OTHER = "other"


class IndexSpec(NamedTuple):
    """An index in a statement; `name` is empty if the server chooses one."""

    kind: IndexKind
    name: str
    parts: tuple[IndexPart, ...]
    hashed: bool = False  # USING HASH
    overlaps: str = ""  # the period of WITHOUT OVERLAPS


class Period(NamedTuple):
    """PERIOD FOR `name` (start, end)."""

    name: str
    start: str
    end: str


class Options(NamedTuple):
    """Options of a table that affect its columns, or where its rows are, or options of a schema. Empty: not specified.

    `elsewhere`: the rows may be outside of the table (UNION, CONNECTION, an option of an engine).
    """

    charset: str = ""
    collation: str = ""
    engine: str = ""
    versioned: bool = False
    sequence: bool = False
    elsewhere: bool = False


class Position(NamedTuple):
    """The position of a column: behind the column `after`, or first if that is empty."""

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
    """DROP INDEX or PRIMARY KEY, whose name is PRIMARY, or DROP CONSTRAINT, which may be a unique index."""

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
    """A clause about partitions; `table` is the other table of EXCHANGE and CONVERT.

    `verb` is its first word, except that it is "attach" for CONVERT TABLE ... TO PARTITION.
    """

    verb: str
    table: TableName | None = None


class Tablespace(NamedTuple):
    """DISCARD or IMPORT TABLESPACE."""


class Unchanged(NamedTuple):
    """A clause that leaves columns, keys and values as they are."""


Clause: TypeAlias = (
    AddColumn | ChangeColumn | ShowColumn | RenameColumn | DropColumn | AddIndex | DropIndex | RenameIndex | RenameTo
    | ConvertTo | SetOptions | AddPeriod | DropPeriod | AddVersioning | DropVersioning | Partition | Tablespace
    | Unchanged
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


class DropTable(NamedTuple):
    """One table of DROP TABLE."""

    table: TableName


class TruncateTable(NamedTuple):
    """TRUNCATE TABLE."""

    table: TableName


class CreateSchema(NamedTuple):
    """CREATE DATABASE; without a character set in `options`, it has the server's."""

    schema: str
    options: Options
    or_replace: bool = False
    if_not_exists: bool = False


class AlterSchema(NamedTuple):
    """ALTER DATABASE; without a character set in `options`, that of the schema stays."""

    schema: str
    options: Options


class DropSchema(NamedTuple):
    """DROP DATABASE."""

    schema: str


Change: TypeAlias = (
    CreateTable | CreateLike | CreateSequence | AlterTable | AlterSequence | RenameTable | DropTable | TruncateTable
    | CreateSchema | AlterSchema | DropSchema
)  # fmt: skip
