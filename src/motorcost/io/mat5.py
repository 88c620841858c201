"""Whether a MATLAB file of version 5 is sound.

SciPy trusts the codes and sizes in such a file, and a wrong one can end the whole process; so they
are checked before it reads them.
"""

from __future__ import annotations

import math
import struct
import zlib
from collections.abc import Iterator
from pathlib import Path

from motorcost.io.limits import Budget

# What SciPy keeps for each element beside its content, and for each entry of an array by its class.
_ELEMENT_BYTES = 200
_ENTRY_BYTES = {4: 4, 6: 8, 7: 4, 8: 1, 9: 1, 10: 2, 11: 2, 12: 4, 13: 4, 14: 8, 15: 8}
_INT8, _INT32, _UINT32, _MATRIX, _COMPRESSED, _UTF8 = 1, 5, 6, 14, 15, 16
_NUMBERS = {1, 2, 3, 4, 5, 6, 7, 9, 12, 13}
_TEXT = {1, 2, 3, 4, 16, 17, 18}
_CELL, _STRUCT, _OBJECT, _CHAR, _SPARSE, _FUNCTION, _OPAQUE = 1, 2, 3, 4, 5, 16, 17


def require_sound(path: Path, max_bytes: int) -> None:
    """Raise ValueError where a version 5 file has a code or a size that cannot be, InputError
    where it unpacks to more than `max_bytes`."""
    data = path.read_bytes()
    order = {b"IM": "<", b"MI": ">"}.get(data[126:128])
    if order is None or data[124:126] not in (b"\x00\x01", b"\x01\x00"):
        return  # another version, which others read
    budget = Budget(path.name, max_bytes)
    for kind, payload in _elements(memoryview(data)[128:], order):
        if kind == _COMPRESSED:
            inner = _unpacked(payload, order, budget)
            for inner_kind, inner_payload in _elements(memoryview(inner), order):
                _require(inner_kind == _MATRIX, "a variable")
                _matrix(inner_payload, order, budget)
        else:
            _require(kind == _MATRIX, "a variable")
            _matrix(payload, order, budget)


def _unpacked(payload: memoryview, order: str, budget: Budget) -> bytes:
    """A compressed variable, if it has the size that its first bytes say."""
    stream = zlib.decompressobj()
    tag = stream.decompress(payload, 8)
    _require(len(tag) == 8, "a tag")
    size = struct.unpack(order + "II", tag)[1]
    Budget(budget.source, budget.left).take(size)
    inner = tag + stream.decompress(stream.unconsumed_tail, size + 8)
    stream.decompress(stream.unconsumed_tail, 1)
    # zlib's own check of the content comes at its end.
    _require(stream.eof, "a compressed variable")
    return inner


def _elements(data: memoryview, order: str) -> Iterator[tuple[int, memoryview]]:
    """The type and content of each element, one after the other."""
    at = 0
    while at < len(data):
        _require(at + 8 <= len(data), "a tag")
        kind, size = struct.unpack(order + "II", data[at : at + 8])
        if kind >> 16:  # up to four bytes are packed into the tag itself
            kind, size, start, after = kind & 0xFFFF, kind >> 16, at + 4, at + 8
            _require(size <= 4, "a small element")
        else:
            start = at + 8
            after = start + size if kind == _COMPRESSED else start + size + -size % 8
        _require(start + size <= len(data), "an element")
        yield kind, data[start : start + size]
        at = after


def _matrix(payload: memoryview, order: str, budget: Budget) -> None:
    if not len(payload):
        return
    elements = []
    for element in _elements(payload, order):
        budget.take(_ELEMENT_BYTES)
        elements.append(element)
    _require(len(elements) >= 3, "an array")
    (flags_kind, flags), *rest = elements
    _require(flags_kind == _UINT32 and len(flags) == 8, "flags")
    word = struct.unpack(order + "I", flags[:4])[0]
    array_class, is_complex = word & 0xFF, bool(word & 0x0800)
    _require(1 <= array_class <= _OPAQUE, "a class")
    if array_class == _OPAQUE:
        _nested(rest, order, {_MATRIX, *_NUMBERS, *_TEXT}, budget)
        return
    (dims_kind, dims), (name_kind, _), *parts = rest
    _require(dims_kind in (_INT32, _UINT32) and len(dims) >= 8 and len(dims) % 4 == 0, "dimensions")
    shape = struct.unpack(f"{order}{len(dims) // 4}i", dims)
    # Each entry takes a byte at least; a sparse array stores only some.
    most = 2**31 if array_class == _SPARSE else len(payload)
    fields = 1
    _require(min(shape) >= 0 and name_kind in (_INT8, _UTF8), "dimensions and a name")
    if array_class in (_STRUCT, _OBJECT):
        parts = parts[array_class == _OBJECT :]
        _require(len(parts) >= 2, "fields")
        (width_kind, width), (names_kind, names), *parts = parts
        _require(width_kind == _INT32 and len(width) == 4 and names_kind == _INT8, "field names")
        longest = struct.unpack(order + "i", width)[0]
        _require(longest > 0 and len(names) % longest == 0, "field names")
        fields = len(names) // longest
    if array_class in (_CELL, _STRUCT, _OBJECT):
        _require(len(parts) == math.prod(shape) * fields, "as many entries as there is room for")
        _nested(parts, order, {_MATRIX}, budget)
        return
    _require(math.prod(shape) <= most, "as many entries as there is room for")
    if array_class != _SPARSE:  # which stays sparse
        budget.take(math.prod(shape) * _ENTRY_BYTES.get(array_class, 8) * (1 + is_complex))
    allowed = {_CHAR: _TEXT, _FUNCTION: {_MATRIX}}.get(array_class, _NUMBERS)
    plain = {_SPARSE: 3}.get(array_class, 1)
    _require(len(parts) == plain + is_complex, "content")
    _nested(parts, order, allowed, budget)


def _nested(
    elements: list[tuple[int, memoryview]], order: str, allowed: set[int], budget: Budget
) -> None:
    for kind, payload in elements:
        _require(kind in allowed, "content")
        if kind == _MATRIX:
            _matrix(payload, order, budget)


def _require(sound: bool, what: str) -> None:
    if not sound:
        raise ValueError(f"{what} cannot be as it is")
