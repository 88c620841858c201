"""Apache Thrift's compact protocol, in which Parquet files say what is in them."""

from __future__ import annotations

import struct
from typing import Any

_TRUE, _FALSE, _BYTE, _I16, _I32, _I64, _DOUBLE, _BINARY, _LIST, _SET, _MAP, _STRUCT = range(1, 13)
_DEEPEST = 16


def read_struct(data: Any, at: int) -> tuple[dict[int, Any], int]:
    """The structure at a position of some bytes, by the numbers of its fields, and its end."""
    reader = _Reader(data, at)
    return reader.structure(0), reader.at


class _Reader:
    def __init__(self, data: Any, at: int) -> None:
        self.data, self.at = data, at

    def byte(self) -> int:
        value = self.data[self.at]
        self.at += 1
        return value

    def unsigned(self) -> int:
        """A number of seven bits in each byte, the lowest first."""
        value = shift = 0
        while shift < 70:
            byte = self.byte()
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
            shift += 7
        raise ValueError("a number that does not end")

    def signed(self) -> int:
        value = self.unsigned()
        return (value >> 1) ^ -(value & 1)

    def structure(self, depth: int) -> dict[int, Any]:
        fields: dict[int, Any] = {}
        number = 0
        while head := self.byte():
            kind, step = head & 0x0F, head >> 4
            number = number + step if step else self.signed()
            fields[number] = self.value(kind, depth)
        return fields

    def value(self, kind: int, depth: int) -> Any:
        if depth > _DEEPEST:
            raise ValueError("structures within structures")
        if kind in (_TRUE, _FALSE):
            return kind == _TRUE
        if kind == _BYTE:
            return self.byte()
        if kind in (_I16, _I32, _I64):
            return self.signed()
        if kind == _DOUBLE:
            return struct.unpack("<d", self.content(8))[0]
        if kind == _BINARY:
            return self.content(self.unsigned())
        if kind == _STRUCT:
            return self.structure(depth + 1)
        if kind in (_LIST, _SET):
            return self.entries(depth)
        raise ValueError("a type that Parquet files do not have")

    def content(self, size: int) -> bytes:
        content = self.data[self.at : self.at + size]
        if len(content) < size:
            raise ValueError("content that ends early")
        self.at += size
        return content

    def entries(self, depth: int) -> list[Any]:
        head = self.byte()
        size, kind = head >> 4, head & 0x0F
        size = self.unsigned() if size == 15 else size
        if size > len(self.data):
            raise ValueError("a list that is longer than the file")
        # In a list, unlike in a field, true and false take a byte each.
        return [self.value(_BYTE if kind <= _FALSE else kind, depth + 1) for _ in range(size)]
