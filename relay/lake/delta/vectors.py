"""The codec of deletion vectors: which rows of a data file are deleted, as a 64-bit roaring bitmap.

https://github.com/delta-io/delta/blob/master/PROTOCOL.md#deletion-vector-format, and
https://github.com/RoaringBitmap/RoaringFormatSpec, without run containers.
"""

from __future__ import annotations

import struct
import uuid
import zlib
from collections.abc import Sequence
from typing import Any, Final

from relay.lake.arrow import pyarrow
from relay.lake.delta.actions import DeletionVector

_MAGIC: Final = struct.pack("<I", 1681511377)
_NO_RUNS: Final = 12346
_CONTAINER: Final = 1 << 16
_MOST_IN_ARRAY: Final = 4096  # positions; more are a bitmap
_FORMAT: Final = b"\x01"
_INLINE_BYTES: Final = 128
_DIGITS: Final = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"


def encoded(deleted: pyarrow.BooleanArray) -> bytes:
    """Return the bitmap of a mask with at most 2**32 rows."""
    keys, bodies = [], []
    for begin in range(0, len(deleted), _CONTAINER):
        part = deleted[begin : begin + _CONTAINER]
        if not (count := part.true_count):
            continue
        keys.append(struct.pack("<HH", begin // _CONTAINER, count - 1))
        bodies.append(_array(part) if count <= _MOST_IN_ARRAY else _bitmap(part))
    head = struct.pack("<II", _NO_RUNS, len(keys)) + b"".join(keys)
    offset = len(head) + 4 * len(keys)
    offsets = b""
    for body in bodies:
        offsets += struct.pack("<I", offset)
        offset += len(body)
    return _MAGIC + struct.pack("<QI", 1, 0) + head + offsets + b"".join(bodies)


def decoded(data: bytes, rows: int) -> pyarrow.BooleanArray:
    """Reverse `encoded` for a file with that many rows. Raises ValueError for anything else."""
    if data[:4] != _MAGIC or struct.unpack_from("<QII", data, 4) != (1, 0, _NO_RUNS):
        raise ValueError("not a bitmap of the relay")
    (count,) = struct.unpack_from("<I", data, 20)
    bits = bytearray(-(-rows // _CONTAINER) * (_CONTAINER // 8))
    for number in range(count):
        key, last = struct.unpack_from("<HH", data, 24 + 4 * number)
        (offset,) = struct.unpack_from("<I", data, 24 + 4 * (count + number))
        begin, offset = key * (_CONTAINER // 8), offset + 16  # offsets count from the 32-bit bitmap
        if last >= _MOST_IN_ARRAY:
            bits[begin : begin + _CONTAINER // 8] = data[offset : offset + _CONTAINER // 8]
        else:
            for position in struct.unpack_from(f"<{last + 1}H", data, offset):
                bits[begin + (position >> 3)] |= 1 << (position & 7)
    return pyarrow.BooleanArray.from_buffers(pyarrow.bool_(), rows, [None, pyarrow.py_buffer(bytes(bits))])


def _array(part: pyarrow.BooleanArray) -> bytes:
    positions = pyarrow.compute.indices_nonzero(part).cast(pyarrow.uint16())
    return bytes(positions.buffers()[1][: 2 * len(positions)])


def _bitmap(part: pyarrow.BooleanArray) -> bytes:
    bits = pyarrow.concat_arrays([part, part[:0]]) if part.offset % 8 else part  # begins at a byte
    begin = bits.offset // 8
    data = bytes(bits.buffers()[1][begin : begin + -(-len(bits) // 8)])
    if tail := len(bits) % 8:
        data = data[:-1] + bytes([data[-1] & ((1 << tail) - 1)])
    return data.ljust(_CONTAINER // 8, b"\0")


class VectorFile:
    """Collects the vectors of one commit into one file; small ones go into the log itself."""

    def __init__(self) -> None:
        self._unique = uuid.uuid4()
        self.data = _FORMAT

    @property
    def name(self) -> str:
        """The name of the file, relative to the table."""
        return f"deletion_vector_{self._unique}.bin"

    @property
    def has_vectors(self) -> bool:
        """Whether the file has any vector."""
        return len(self.data) > len(_FORMAT)

    def add(self, deleted: pyarrow.BooleanArray) -> DeletionVector:
        """Add the vector of a data file, and return where it is."""
        data = encoded(deleted)
        count = deleted.true_count
        if len(data) <= _INLINE_BYTES:
            return DeletionVector("i", _text(data), len(data), count)
        offset = len(self.data)
        self.data += struct.pack(">I", len(data)) + data + struct.pack(">I", zlib.crc32(data))
        return DeletionVector("u", _text(self._unique.bytes), len(data), count, offset)


def name_of(vector: DeletionVector) -> str:
    """Return the name of the file that has a vector; "" if the log has it."""
    if vector.storage_type == "i":
        return ""
    return f"deletion_vector_{uuid.UUID(bytes=_bytes(vector.path_or_inline_dv))}.bin"


def read(vector: DeletionVector, rows: int, file: bytes) -> pyarrow.BooleanArray:
    """Return the mask of a vector; `file` are the bytes of the file `name_of`. Raises ValueError for a damaged one."""
    if vector.storage_type == "i":
        return decoded(_bytes(vector.path_or_inline_dv)[: vector.size_in_bytes], rows)
    begin = (vector.offset or 0) + 4
    data = file[begin : begin + vector.size_in_bytes]
    if len(data) != vector.size_in_bytes or struct.unpack_from(">I", file, begin + len(data))[0] != zlib.crc32(data):
        raise ValueError("its checksum is wrong")
    return decoded(data, rows)


def _text(data: bytes) -> str:
    """Encode as Z85; the data is filled up to words of four bytes."""
    words = struct.iter_unpack(">I", data.ljust(-(-len(data) // 4) * 4, b"\0"))
    return "".join(_DIGITS[word // 85**power % 85] for (word,) in words for power in (4, 3, 2, 1, 0))


def _bytes(text: str) -> bytes:
    digits: Sequence[Any] = [_DIGITS.index(each) for each in text]
    made = b""
    for at in range(0, len(digits), 5):
        word = 0
        for digit in digits[at : at + 5]:
            word = word * 85 + digit
        made += struct.pack(">I", word)
    return made
