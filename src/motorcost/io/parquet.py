"""Parquet files."""

from __future__ import annotations

import mmap
import struct
from pathlib import Path
from typing import TYPE_CHECKING, Any

from motorcost.errors import InputError, shown
from motorcost.io.limits import Budget, require_few_columns
from motorcost.io.thrift import read_struct

if TYPE_CHECKING:
    from pandas import DataFrame

# What a number and a text take in memory beside the text's characters.
_NUMBER_BYTES = 8
_TEXT_BYTES = 64
# Each text as its difference from the one before: a few bytes may unpack to any number of them.
_DELTA_BYTE_ARRAY = 7
_MOST_PAGES = 200_000
# Numbers of fields, of the file's footer: rows and groups of them; of a group: its columns' chunks
# and rows; of a chunk: the file that it is in, if that is another one, and its description. Arrow's
# own objects for these end the process where a description contradicts itself.
_ROWS, _GROUPS = 3, 4
_CHUNKS, _GROUP_ROWS = 1, 3
_OTHER_FILE, _METADATA = 1, 3
# Of the description of a chunk.
_PATH, _VALUES, _CHUNK_UNPACKED, _CHUNK_PACKED, _FIRST_PAGE, _DICTIONARY = 3, 5, 6, 7, 9, 11
# Of the header of a page: its size, that in the file, and the headers of pages of data, which name
# their encoding.
_UNPACKED, _PACKED, _DATA, _DATA_2 = 2, 3, 5, 8


def read_parquet(path: Path, max_bytes: int) -> DataFrame:
    """The table in a Parquet file of plain columns, text as categories."""
    import pandas as pd
    import pyarrow.parquet as pq

    try:
        with path.open("rb") as stream:
            file = pq.ParquetFile(stream)
            require_few_columns(path.name, file.metadata.num_columns)
            texts = _text_columns(path.name, file.schema_arrow)
            with mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) as content:
                columns = file.metadata.num_columns
                _require_room(content, Budget(path.name, max_bytes), columns, len(texts))
            # Dictionaries of texts stay as they are, rather than being written out for each row.
            frame = pq.ParquetFile(stream, read_dictionary=texts).read().to_pandas()
    except InputError:
        raise
    except Exception as error:  # damaged files make Arrow raise nearly anything
        raise InputError(
            f"{shown(path.name)}: needs a Parquet file, got one that is damaged or something else "
            f"({type(error).__name__})"
        ) from None
    return frame if isinstance(frame.index, pd.RangeIndex) else frame.reset_index()


def _text_columns(source: str, schema: Any) -> list[str]:
    """The columns of text; raise for columns that are neither text nor numbers."""
    import pyarrow as pa

    texts = []
    for field in schema:
        kind = field.type.value_type if pa.types.is_dictionary(field.type) else field.type
        if pa.types.is_nested(kind):
            raise InputError(
                f"{shown(source)}: column '{shown(field.name)}' needs one value per row, got "
                f"{shown(kind, 30)}: write one column per value"
            )
        if pa.types.is_fixed_size_binary(kind):
            raise InputError(
                f"{shown(source)}: column '{shown(field.name)}' needs numbers or text, got bytes"
            )
        if not (pa.types.is_primitive(kind) or pa.types.is_null(kind)):
            texts.append(field.name)
    return texts


def _require_room(content: Any, budget: Budget, columns: int, texts: int) -> None:
    """Raise if the table would take more than the budget, by what the file says of itself in
    several places, of which a reader may believe any."""
    footer = _footer(content)
    groups = footer.get(_GROUPS, [])
    rows = max(footer[_ROWS], sum(group[_GROUP_ROWS] for group in groups))
    budget.take(rows * ((columns - texts) * _NUMBER_BYTES + texts * _TEXT_BYTES))
    unpacked = pages = 0
    for chunk in (chunk for group in groups for chunk in group[_CHUNKS]):
        name = b".".join(chunk[_METADATA][_PATH]).decode("utf-8", "replace")
        where = f"{shown(budget.source)}: column '{shown(name)}'"
        if chunk.get(_OTHER_FILE):
            raise InputError(f"{where} is stored in another file: such files are not read")
        sizes = _page_sizes(content, chunk[_METADATA], where)
        pages += len(sizes)
        if pages > _MOST_PAGES:
            raise InputError(
                f"{shown(budget.source)}: has more than {_MOST_PAGES} pages: write larger ones"
            )
        unpacked += max(chunk[_METADATA][_CHUNK_UNPACKED], chunk[_METADATA][_VALUES], sum(sizes))
        Budget(budget.source, budget.max_bytes).take(unpacked)


def _footer(content: Any) -> dict[int, Any]:
    """What the end of a file says of all of it."""
    (length,) = struct.unpack("<I", content[-8:-4])
    if content[-4:] != b"PAR1" or length + 8 > len(content):
        raise ValueError("no footer")
    return read_struct(content, len(content) - 8 - length)[0]


def _page_sizes(content: Any, column: dict[int, Any], where: str) -> list[int]:
    """What each page of a column unpacks to, by its own header."""
    at = column[_FIRST_PAGE]
    if 0 < column.get(_DICTIONARY, 0) < at:
        at = column[_DICTIONARY]
    end = at + column[_CHUNK_PACKED]
    sizes: list[int] = []
    while at < end and len(sizes) <= _MOST_PAGES:
        header, at = read_struct(content, at)
        for page, encoding in ((_DATA, 2), (_DATA_2, 4)):
            if page in header and header[page].get(encoding) == _DELTA_BYTE_ARRAY:
                raise InputError(
                    f"{where} is stored as differences of texts (DELTA_BYTE_ARRAY): write it with "
                    "another encoding"
                )
        if min(header[_UNPACKED], header[_PACKED]) < 0:
            raise ValueError("a page of a negative size")
        sizes.append(header[_UNPACKED])
        at += header[_PACKED]
    return sizes
