"""Whether an HDF5 file (MATLAB 7.3, NWB) can be read without harm.

Such a file may name other files of the machine as its content, ask for code that is loaded from a
folder of plugins, refer to itself in circles, or unpack to any size. It is asked before it is read.
"""

from __future__ import annotations

import math
import mmap
import struct
import zlib
from pathlib import Path
from typing import Any

import numpy as np

from motorcost.errors import InputError, shown
from motorcost.io.limits import Budget

# The filters that are part of every build of HDF5 and write what zlib and checksums do.
_GZIP = 1
_FILTERS = {_GZIP: "gzip", 2: "shuffle", 3: "fletcher32"}
# What a reader keeps for each object, and for each character of a text, beside the content.
_OBJECT_BYTES = 4000
_CHARACTER_BYTES = 64
# The most that a byte of a gzip stream can unpack to, and what a stream may unpack to unseen.
_GZIP_RATIO = 1032
_UNSEEN_BYTES = 2**26
_PIECE = 2**20
# How a heap of texts begins (its name and version), and what is before each of them: an index, a
# count, nothing, and a length.
_HEAP = b"GCOL\x01\0\0\0"
_HEAP_OBJECT = "<HHIQ"
# Where a text lies: its length, the heap's address, and the index in it.
_TEXT_PLACE = np.dtype([("length", "<u4"), ("heap", "<u8"), ("index", "<u4")])
# What MATLAB's references lead to is counted where they are.
_NOT_READ = ("#refs#", "#subsystem#")


def require_safe(path: Path, max_bytes: int) -> None:
    """Raise unless all of an HDF5 file lies in it and unpacks to at most `max_bytes`."""
    import h5py

    require_sound_heaps(path)
    with h5py.File(path, "r") as file:
        _Inspection(file, Budget(path.name, max_bytes)).begin()


def require_sound_heaps(path: Path) -> None:
    """Raise ValueError where the texts of a file, which lie in heaps, are not one after the other.

    HDF5 itself goes from one to the next without end where a size is 0.
    """
    with path.open("rb") as stream, mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) as data:
        start = data.find(_HEAP)
        while start >= 0:
            _require_sound_heap(data, start)
            start = data.find(_HEAP, start + len(_HEAP))


def _require_sound_heap(data: Any, start: int) -> None:
    header = struct.calcsize(_HEAP_OBJECT)
    (size,) = struct.unpack("<Q", data[start + 8 : start + 16])
    at, end = start + 16, start + size
    if end > len(data):
        raise ValueError("a heap that ends after the file")
    while at + header <= end:
        index, _, _, length = struct.unpack(_HEAP_OBJECT, data[at : at + header])
        # The room that is left has the index 0, and its header is part of its length.
        at += max(length, 1) if index == 0 else header + length + -length % 8
        if at > end or (index == 0 and length < header):
            raise ValueError("a heap whose content has no room")


class _Inspection:
    """A walk over all that a reader of the file would reach, links and references alike."""

    def __init__(self, file: Any, budget: Budget) -> None:
        self.file, self.budget = file, budget
        # By address: what an object unpacks to with all below it; None while it is walked.
        self.sizes: dict[int, int | None] = {}
        self.visits = 0

    def begin(self) -> None:
        """Walk over the whole file, and count what is read of it."""
        root = self.file["/"]
        for name in root:
            size = self._unpacked(child(self.budget.source, root, name), name)
            if name not in _NOT_READ:
                self.budget.take(size)

    def _visit(self, count: int) -> None:
        """Count objects before they are opened, so that very many are not walked to their end."""
        self.visits += count
        Budget(self.budget.source, self.budget.max_bytes).take(self.visits * _OBJECT_BYTES)

    def _unpacked(self, item: Any, name: str) -> int:
        import h5py

        info = h5py.h5o.get_info(item.id)
        if info.fileno != h5py.h5o.get_info(self.file.id).fileno:
            raise _refusal(self.budget.source, name, "lies in another file")
        if info.addr in self.sizes:
            size = self.sizes[info.addr]
            if size is None:
                raise _refusal(self.budget.source, name, "contains itself")
            return size
        self.sizes[info.addr] = None
        if isinstance(item, h5py.Group):
            self._visit(len(item))
            size = sum(self._unpacked(child(self.budget.source, item, key), key) for key in item)
        elif isinstance(item, h5py.Dataset):
            size = self._dataset(item, name)
        else:
            size = 0  # a named type
        self.sizes[info.addr] = size + _OBJECT_BYTES
        return size + _OBJECT_BYTES

    def _dataset(self, dataset: Any, name: str) -> int:
        import h5py

        source = self.budget.source
        size = dataset_bytes(source, dataset, self.budget.max_bytes)
        matlab_class = (
            dataset.attrs.get_id("MATLAB_class") if "MATLAB_class" in dataset.attrs else None
        )
        if matlab_class is not None and (
            matlab_class.shape != () or matlab_class.dtype.kind != "S"
        ):
            raise _refusal(source, name, "has a class that is no text")
        if matlab_class is not None and dataset.attrs["MATLAB_class"] == b"char":
            size += dataset.size * _CHARACTER_BYTES
        if not dataset.dtype.hasobject:
            return size
        if h5py.check_ref_dtype(dataset.dtype) is not h5py.Reference:
            raise _refusal(source, name, "has entries of any length")
        Budget(source, self.budget.max_bytes).take(size)
        self._visit(dataset.size)
        references = dataset[()].ravel() if dataset.shape else [dataset[()]]
        return size + sum(
            self._unpacked(self.file[reference], name) for reference in references if reference
        )


def has(group: Any, name: str) -> bool:
    """Whether a group has a member of a name, without following links, as `in` would."""
    return bool(group.id.links.exists(_encoded(name)))


def child(source: str, group: Any, name: str, *, soft: bool = False) -> Any:
    """The member of a group that lies in the same file; otherwise raise.

    With `soft`, the path of a soft link is followed, step by step, so that none leaves the file.
    """
    import h5py

    for _ in range(8):
        kind = group.id.links.get_info(_encoded(name)).type
        if kind == h5py.h5l.TYPE_HARD:
            return group[name]
        if kind != h5py.h5l.TYPE_SOFT:
            raise _refusal(source, name, "is a link to another file")
        if not soft:
            raise _refusal(source, name, "is a soft link")
        steps = [step for step in group.get(name, getlink=True).path.split("/") if step != "."]
        group = group.file["/"] if steps[0] == "" else group
        *folders, name = [step for step in steps if step]
        for folder in folders:
            group = child(source, group, folder)
    raise _refusal(source, name, "is a link to a link")


def dataset_bytes(source: str, dataset: Any, max_bytes: int) -> int:
    """What a data set unpacks to; raise if it is stored elsewhere or in an unknown way."""
    name = str(dataset.name or "a data set").rsplit("/", 1)[-1]
    if dataset.is_virtual:
        raise _refusal(source, name, "is a virtual data set, put together from others")
    if dataset.external is not None:
        raise _refusal(source, name, "is stored in another file")
    plan = dataset.id.get_create_plist()
    filters = [plan.get_filter(i)[0] for i in range(plan.get_nfilters())]
    for code in filters:
        if code not in _FILTERS or filters.count(code) > 1:
            raise _refusal(source, name, f"needs filters other than {', '.join(_FILTERS.values())}")
    # A chunk is unpacked whole, even where it is larger than what is in it.
    entries = max(math.prod(dataset.shape or ()), math.prod(dataset.chunks or (1,)))
    if dataset.shape is None:
        return 0
    size = entries * max(dataset.dtype.itemsize, 1)
    Budget(source, max_bytes).take(size)
    if _GZIP in filters:
        _require_honest_chunks(source, name, dataset)
    return size


def _require_honest_chunks(source: str, name: str, dataset: Any) -> None:
    """Raise if a chunk unpacks to more than its shape says: HDF5 makes room for all there is."""
    room = math.prod(dataset.chunks) * dataset.dtype.itemsize
    large: list[tuple[int, ...]] = []

    def note(chunk: Any) -> None:
        if chunk.size * _GZIP_RATIO > max(_UNSEEN_BYTES, room):
            large.append(chunk.chunk_offset)

    dataset.id.chunk_iter(note)
    for offset in large:
        skipped, packed = dataset.id.read_direct_chunk(offset)
        stream, unpacked = zlib.decompressobj(), 0
        while packed and not skipped and not stream.eof:
            unpacked += len(stream.decompress(packed, _PIECE))
            packed = stream.unconsumed_tail
            if unpacked > room:
                raise _refusal(source, name, "unpacks to more than its size")


def text_bytes(dataset: Any, path: Path) -> int | None:
    """How long the texts of a data set are in all, None where that cannot be told beforehand.

    HDF5 makes room for each text by the length that is stored beside its place in a heap.
    """
    plan = dataset.id.get_create_plist()
    pieces: list[tuple[int, int]] = []
    if plan.get_nfilters():
        return None
    if dataset.chunks:
        dataset.id.chunk_iter(lambda chunk: pieces.append((chunk.byte_offset, chunk.size)))
    elif dataset.id.get_offset() is None:
        return None
    else:
        pieces.append((dataset.id.get_offset(), dataset.size * _TEXT_PLACE.itemsize))
    total = 0
    with path.open("rb") as stream:
        for offset, size in pieces:
            stream.seek(offset)
            places = np.frombuffer(stream.read(size), _TEXT_PLACE)
            total += int(places["length"].sum(dtype=np.uint64))
    return total


def _encoded(name: str) -> bytes:
    return name.encode("utf-8", "surrogateescape")


def _refusal(source: str, name: str, why: str) -> InputError:
    return InputError(f"{shown(source)}: '{shown(name)}' {why}: such files are not read")
