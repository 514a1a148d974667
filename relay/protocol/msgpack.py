"""What the client needs of msgspec, where msgspec is not installed: the standard library suffices for it. No I/O."""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, Generic, TypeVar, get_args

T = TypeVar("T")

_NUMBERS: Final = {
    0xCA: struct.Struct(">f"), 0xCB: struct.Struct(">d"),
    0xCC: struct.Struct(">B"), 0xCD: struct.Struct(">H"), 0xCE: struct.Struct(">I"), 0xCF: struct.Struct(">Q"),
    0xD0: struct.Struct(">b"), 0xD1: struct.Struct(">h"), 0xD2: struct.Struct(">i"), 0xD3: struct.Struct(">q"),
}  # fmt: skip
_CONSTANTS: Final = {0xC0: None, 0xC2: False, 0xC3: True}
# Code -> what it holds, and the bytes of its size.
_SIZED: Final = {
    0xC4: ("bin", 1), 0xC5: ("bin", 2), 0xC6: ("bin", 4), 0xD9: ("str", 1), 0xDA: ("str", 2), 0xDB: ("str", 4),
    0xC7: ("ext", 1), 0xC8: ("ext", 2), 0xC9: ("ext", 4),
    0xDC: ("array", 2), 0xDD: ("array", 4), 0xDE: ("map", 2), 0xDF: ("map", 4),
}  # fmt: skip


class DecodeError(ValueError):
    """The bytes are no MessagePack, or not of the expected shape."""


class Struct:
    """A class of fields, immutable, as `msgspec.Struct` with `frozen` and `array_like`."""

    def __init_subclass__(cls, **options: bool) -> None:
        super().__init_subclass__()
        dataclass(frozen=True)(cls)


class Decoder(Generic[T]):
    """Decode an array of structs: `Decoder(list[Row]).decode(data)`; `ext_hook` makes values of extension types."""

    def __init__(self, kind: type[T], *, ext_hook: Callable[[int, memoryview], Any]) -> None:
        (self._struct,) = get_args(kind)
        self._hook = ext_hook

    def decode(self, data: bytes) -> T:
        """Return the structs. Raises `DecodeError`, and what `ext_hook` raises."""
        try:
            value, end = self._value(data, 0)
            if end != len(data):
                raise DecodeError(f"{len(data) - end} bytes follow the value")
            return [self._struct(*fields) for fields in value]  # type: ignore[return-value]
        except (IndexError, TypeError, RecursionError, UnicodeDecodeError, struct.error) as error:
            raise DecodeError(str(error)) from None

    def _value(self, data: bytes, at: int) -> tuple[Any, int]:
        """Return the value that begins at `at`, and where it ends."""
        code = data[at]
        at += 1
        if code < 0x80:
            return code, at
        if code >= 0xE0:
            return code - 0x100, at
        if code < 0x90:
            return self._sized(data, at, "map", code & 0xF)
        if code < 0xA0:
            return self._sized(data, at, "array", code & 0xF)
        if code < 0xC0:
            return self._sized(data, at, "str", code & 0x1F)
        if code in _CONSTANTS:
            return _CONSTANTS[code], at
        if number := _NUMBERS.get(code):
            return number.unpack_from(data, at)[0], at + number.size
        if code not in _SIZED:
            raise DecodeError(f"unknown code {code:#x}")
        holds, width = _SIZED[code]
        return self._sized(data, at + width, holds, int.from_bytes(data[at : at + width], "big"))

    def _sized(self, data: bytes, at: int, holds: str, size: int) -> tuple[Any, int]:
        if holds in ("bin", "str", "ext"):
            start = at + (holds == "ext")  # the type is before the contents
            end = start + size
            if end > len(data):
                raise DecodeError("the data ends within a value")
            part = data[start:end]
            if holds == "ext":
                return self._hook(data[at], memoryview(part)), end
            return (part if holds == "bin" else part.decode()), end
        values = []
        for _ in range(size if holds == "array" else 2 * size):
            value, at = self._value(data, at)
            values.append(value)
        return (values if holds == "array" else dict(zip(values[::2], values[1::2], strict=True))), at
