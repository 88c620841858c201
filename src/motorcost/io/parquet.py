"""Parquet files."""

from __future__ import annotations

import mmap
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
# Of the header of a page: its size, that in the file, and the headers of pages of data, which name
# their encoding.
_MOST_PAGES = 200_000
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
                _require_room(content, file, Budget(path.name, max_bytes), texts)
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


def _require_room(content: Any, file: Any, budget: Budget, texts: list[str]) -> None:
    """Raise if the table would take more than the budget, by what the file says of itself in
    several places, of which a reader may believe any."""
    metadata = file.metadata
    groups = [metadata.row_group(i) for i in range(metadata.num_row_groups)]
    rows = max(metadata.num_rows, sum(group.num_rows for group in groups))
    numbers = metadata.num_columns - len(texts)
    budget.take(rows * (numbers * _NUMBER_BYTES + len(texts) * _TEXT_BYTES))
    unpacked = pages = 0
    for group in groups:
        for j in range(group.num_columns):
            column = group.column(j)
            if column.file_path:
                raise InputError(
                    f"{shown(budget.source)}: column '{shown(column.path_in_schema)}' is stored in "
                    "another file: such files are not read"
                )
            sizes = _page_sizes(content, column, budget.source)
            pages += len(sizes)
            if pages > _MOST_PAGES:
                raise InputError(
                    f"{shown(budget.source)}: has more than {_MOST_PAGES} pages: write larger ones"
                )
            unpacked += max(column.total_uncompressed_size, column.num_values, sum(sizes))
            Budget(budget.source, budget.max_bytes).take(unpacked)


def _page_sizes(content: Any, column: Any, source: str) -> list[int]:
    """What each page of a column unpacks to, by its own header."""
    at = column.data_page_offset
    if column.has_dictionary_page and 0 < column.dictionary_page_offset < at:
        at = column.dictionary_page_offset
    end = at + column.total_compressed_size
    sizes: list[int] = []
    while at < end and len(sizes) <= _MOST_PAGES:
        header, at = read_struct(content, at)
        for page, encoding in ((_DATA, 2), (_DATA_2, 4)):
            if page in header and header[page].get(encoding) == _DELTA_BYTE_ARRAY:
                raise InputError(
                    f"{shown(source)}: column '{shown(column.path_in_schema)}' is stored as "
                    "differences of texts (DELTA_BYTE_ARRAY): write it with another encoding"
                )
        if min(header[_UNPACKED], header[_PACKED]) < 0:
            raise ValueError("a page of a negative size")
        sizes.append(header[_UNPACKED])
        at += header[_PACKED]
    return sizes
