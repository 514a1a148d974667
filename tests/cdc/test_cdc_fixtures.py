"""The schema and a row of every type, byte for byte as CDC clients get them, from each server and in both value forms.

tests/fixtures/cdc has them: the line of the schema, that of a row, that of a row of NULLs, Avro's schema, and the two
records in hexadecimal digits. They were checked by hand against docs/cdc.md, and are only compared since.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from examples.dbserver import DatabaseServer
from relay._native import CdcReader, JournalReader, JournalWriter
from relay.cdc.schema import avro_schema, schema_line
from relay.journal.frames import Definition
from tests.support import FIXTURES, ROOT
from tests.types.case import TableCase
from tests.types.compare import Frame
from tests.types.run import Tables

pytestmark = pytest.mark.every_server

FIXTURES = FIXTURES / "cdc"
TRIPLET = "0-3000-5000000003"
TIME = 1537429419
COLUMNS = {
    "ti TINYINT": "-128", "tu TINYINT UNSIGNED": "255", "si SMALLINT": "-32768", "su SMALLINT UNSIGNED": "65535",
    "mi MEDIUMINT": "-8388608", "mu MEDIUMINT UNSIGNED": "16777215", "ii INT": "-2147483648",
    "iu INT UNSIGNED": "4294967295", "bi BIGINT": "-9223372036854775808", "bu BIGINT UNSIGNED": "18446744073709551615",
    "small BIGINT UNSIGNED": "7", "bo BOOLEAN": "TRUE", "zf INT(6) ZEROFILL": "42",
    "fl FLOAT": "1.1", "fw FLOAT": "100", "db DOUBLE": "1.1", "dw DOUBLE": "1e22", "fd DOUBLE(10,3)": "2.5",
    "de DECIMAL(20,2)": "100.10", "dl DECIMAL(65,30)": f"{'1234567' * 5}.{'012345' * 5}",
    "dn DECIMAL(10)": "-7",
    "ch CHAR(10)": "'ab '", "vc VARCHAR(20)": r"'ä€😀\"\\/\n\t'", "nu VARCHAR(20)": r"'a\0b'", "ev VARCHAR(20)": "''",
    "la VARCHAR(10) CHARACTER SET latin1": "'é'", "tt TINYTEXT": "'t'", "tx TEXT": "'text'", "et TEXT": "''",
    "mt MEDIUMTEXT": "'m'", "lt LONGTEXT": "'l'",
    "bn BINARY(4)": "'ab'", "vb VARBINARY(4)": "X'FF00'", "vt VARBINARY(4)": "'ab'", "tb TINYBLOB": "X'00'",
    "bl BLOB": "X'FF00'", "bt BLOB": "'ab'", "be BLOB": "''", "mb MEDIUMBLOB": "X'80'", "lb LONGBLOB": "X'C3A4'",
    "en ENUM('small','big')": "'big'", "st SET('a','b','c')": "'a,c'", "ez ENUM('small','big')": "0",
    "b1 BIT(1)": "1", "b10 BIT(10)": "513", "b64 BIT(64)": "18446744073709551615",
    "da DATE": "'2024-02-29'", "dz DATE": "'0000-00-00'", "dy DATE": "'0987-06-05'",
    "dt DATETIME": "'2024-02-29 13:14:15'", "d3 DATETIME(3)": "'2024-02-29 13:14:15.5'",
    "d0 DATETIME": "'0000-00-00 00:00:00'", "ts TIMESTAMP NULL": "'2024-02-29 13:14:15'",
    "t6 TIMESTAMP(6) NULL": "'2024-02-29 13:14:15.000001'", "tm TIME": "'13:14:15'", "tl TIME": "'838:59:59'",
    "t2 TIME(2)": "'-01:02:03.5'", "yr YEAR": "2024", "yz YEAR": "0",
    "js JSON": "'{\"a\": [1, 2.5, null]}'", "ge POINT": "ST_GeomFromText('POINT(1 2)')",
    "`timestamp` INT": "1", "`a b` INT": "2",
}  # fmt: skip
MORE = {
    "mysql97": {"ve VECTOR(2)": "STRING_TO_VECTOR('[1,2]')"},
    "mariadb1011": {
        "uu UUID": "'0e9cc2d6-9af3-11ee-a9a5-0242ac110002'", "i4 INET4": "'192.0.2.1'", "i6 INET6": "'2001:db8::1'",
        "co TEXT COMPRESSED": "'packed'",
    },
}  # fmt: skip
MORE["mariadb118"] = MORE["mariadb1011"]


@pytest.fixture(scope="module")
def frame(server: DatabaseServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Frame]:
    """The insert of a row of values and one of NULLs, as the journal has it."""
    columns = COLUMNS | MORE[server.name]
    nulls = ", ".join(["2", *("NULL" for _ in columns)])
    case = TableCase(
        "cdc", "every type", ", ".join(["id INT PRIMARY KEY", *columns]),
        [f"VALUES (1, {', '.join(columns.values())}), ({nulls})"], update="",
    )  # fmt: skip
    tables = Tables(server, [case])
    try:
        [outcome] = tables.run("FULL", tmp_path_factory.mktemp("cdc") / "journal")
        assert not outcome.wrong
        yield outcome.frames[0]
    finally:
        tables.close()


@pytest.mark.parametrize("values", ["exact", "maxscale"])
def test_every_type_is_what_it_was_byte_for_byte(
    server: DatabaseServer, frame: Frame, values: str, tmp_path: Path
) -> None:
    made = _made(frame, values, tmp_path)
    assert made == (FIXTURES / f"{server.name}-{values}.txt").read_text().splitlines()


def _made(frame: Frame, values: str, folder: Path) -> list[str]:
    found = msgspec.msgpack.decode(frame.definition, type=Definition)
    definition = msgspec.msgpack.encode(msgspec.structs.replace(found, schema="shop", table="every"))
    writer = JournalWriter(folder, 1 << 20)
    rows = frame.rows
    writer.rows(writer.define(definition), rows.kind, 100, TIME, rows.rows, rows.body)
    writer.commit(100, TIME, TRIPLET)
    until = writer.flush()
    parts = []
    for form in ("json", "avro"):
        reader = CdcReader(
            JournalReader(folder), schema="shop", table="every", domain=lambda source: 1, form=form, values=values
        )
        reader.expect(definition)
        assert reader.read(until, 1 << 20).why == "end"
        parts.append(reader.take()[1])
    lines, records = parts
    return [
        schema_line(definition, 1, TRIPLET, values).decode().removesuffix("\n"),
        *lines.decode().splitlines(),
        json.dumps(avro_schema(definition, values), separators=(",", ":")),
        records.hex(),
    ]


def test_the_documentation_says_the_types() -> None:
    text = (ROOT / "docs" / "cdc.md").read_text()
    rows = re.findall(
        r"^\| (`[a-z0-9`, ]+`)[^|]* \| ([a-z, ]+) \|[^|]+\| ([a-z]+) \|", text.partition("## Values")[2], re.M
    )
    said = {word: types for words, *types in rows for word in re.findall(r"`(\w+)`", words)}
    met = set()
    for path in FIXTURES.glob("*.txt"):
        exact = path.stem.endswith("exact")
        for field in json.loads(path.read_text().splitlines()[0])["fields"][6:]:
            word, kind = field["real_type"], field["type"][1]
            known = said[word][0 if exact else 1]
            wide = exact and field["unsigned"] and ", unsigned " in known
            assert kind == known.split(", unsigned ")[wide], f"{path.stem}: {word}"
            met.add(word)
    assert met == set(said)
