"""Files that were made to do harm: each is refused in one line, quickly and with little memory.

A bomb is a file of some kB that unpacks to GB. Its size must be found out before it is unpacked.
"""

import io
import re
import struct
import tracemalloc
import zipfile
import zlib

import h5py
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import scipy.io

import motorcost as mc
from motorcost.errors import shown
from motorcost.io import datasets

LIMIT = 10_000_000


def refused(path, *, max_bytes=LIMIT, most_memory=3 * LIMIT, **options):
    """What is said of a file that is not read."""
    tracemalloc.start()
    try:
        with pytest.raises(mc.InputError) as caught:
            mc.io.read(path, max_bytes=max_bytes, **options)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    said = str(caught.value)
    assert said.startswith(shown(path.name))
    assert said.isprintable()
    assert len(said) < 1000
    assert peak < most_memory
    return said


def matlab_73(path):
    """An HDF5 file with the header that MATLAB 7.3 writes, and columns of a table."""
    h5py.File(path, "w", userblock_size=512).close()
    with path.open("r+b") as stream:
        stream.write(b"MATLAB 7.3 MAT-file".ljust(124) + b"\x00\x02IM")
    file = h5py.File(path, "r+")
    for name, values in (("trial", [1, 1, 2, 2]), ("time", [0, 1, 0, 1]), ("x", [1, 2, 3, 4])):
        file[name] = np.array([values], float)
        file[name].attrs["MATLAB_class"] = np.bytes_("double")
    return file


def hidden_reference(file):
    """A reference to a data set that no link leads to, and that is stored in another file."""
    secret = file.create_dataset("secret", (4,), "u1", external=[("/etc/hostname", 0, 4)])
    file.create_dataset("y", data=np.array([[secret.ref]], h5py.ref_dtype))
    file["y"].attrs["MATLAB_class"] = np.bytes_("cell")
    file.create_group("#refs#")
    file.move("secret", "#refs#/a")


def circle(file):
    file.create_group("a/b")
    file["a/b/again"] = file["a"]


def reference_circle(file):
    file.create_dataset("y", (1, 1), h5py.ref_dtype)
    file["y"][0, 0] = file["y"].ref


def virtual(file):
    layout = h5py.VirtualLayout((4,), "f8")
    layout[:] = h5py.VirtualSource("other.h5", "x", (4,))
    file.create_virtual_dataset("y", layout)


def plugin(file):
    plan = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    plan.set_chunk((4,))
    plan.set_filter(32008, h5py.h5z.FLAG_OPTIONAL, ())  # bitshuffle, which is loaded if found
    h5py.h5d.create(file.id, b"y", h5py.h5t.IEEE_F64LE, h5py.h5s.create_simple((4,)), plan)


def twice_packed(file):
    plan = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    plan.set_chunk((4,))
    plan.set_deflate(9)
    plan.set_deflate(9)
    h5py.h5d.create(file.id, b"y", h5py.h5t.IEEE_F64LE, h5py.h5s.create_simple((4,)), plan)


@pytest.mark.parametrize(
    ("harm", "message"),
    [
        (
            lambda f: f.create_dataset("y", (4,), "u1", external=[("/etc/hostname", 0, 4)]),
            "a.mat: 'y' is stored in another file: such files are not read",
        ),
        (lambda f: f.__setitem__("y", h5py.ExternalLink("b.h5", "/x")), "'y' is a link to another"),
        (lambda f: f.__setitem__("y", h5py.SoftLink("/x")), "'y' is a soft link"),
        (virtual, "'y' is a virtual data set, put together from others"),
        (plugin, "'y' needs filters other than gzip, shuffle, fletcher32"),
        (lambda f: f.create_dataset("y", data=np.ones(4), compression="lzf"), "'y' needs filters"),
        (twice_packed, "'y' needs filters other"),
        (hidden_reference, "is stored in another file"),
        (circle, "'again' contains itself"),
        (reference_circle, "'y' contains itself"),
        (lambda f: f.__setitem__("y", ["text", "of any length"]), "'y' has entries of any length"),
        (
            lambda f: f["x"].attrs.__setitem__("MATLAB_class", np.array([b"a"] * 9)),
            "'x' has a class that is no text",
        ),
        (
            lambda f: f.__setitem__("y\x1b]0;owned\x07" + "z" * 500, h5py.SoftLink("/x")),
            r"'y\x1b]0;owned\x07zzz",
        ),
    ],
)  # fmt: skip
def test_a_matlab_file_that_reaches_out(harm, message, tmp_path):
    with matlab_73(tmp_path / "a.mat") as file:
        harm(file)
    assert message in refused(tmp_path / "a.mat")


def test_a_matlab_file_of_good_intent(tmp_path):
    with matlab_73(tmp_path / "a.mat") as file:
        file.create_dataset(
            "y", data=np.arange(4.0)[None], compression="gzip", shuffle=True, fletcher32=True
        )
        file.create_dataset("#refs#/a", data=np.ones((1, 3)))
        file.create_dataset("cells", data=np.array([[file["#refs#/a"].ref]], h5py.ref_dtype))
    size = (tmp_path / "a.mat").stat().st_size
    assert list(mc.io.read(tmp_path / "a.mat", max_bytes=5 * size).channels) == ["x", "y"]


def fill_value(file):
    file.create_dataset("y", (300_000_000,), "f8", chunks=(1000,))


def large_chunk(file):
    file.create_dataset("y", (4,), "f8", maxshape=(None,), chunks=(50_000_000,))


def repeated(file):
    """Each level refers ten times to the one below: ten million arrays in all."""
    target = file.create_dataset("#refs#/0", data=np.ones(8)).ref
    for level in range(1, 9):
        name = f"#refs#/{level}" if level < 8 else "y"
        target = file.create_dataset(name, data=np.array([target] * 10, h5py.ref_dtype)).ref


def long_text(file):
    file.create_dataset("y", (1, 1_000_000), "u2", chunks=(1, 1000))
    file["y"].attrs["MATLAB_class"] = np.bytes_("char")


def many_references(file):
    target = file["x"].ref
    file.create_dataset("y", data=np.array([target] * 10_000, h5py.ref_dtype), compression="gzip")


@pytest.mark.parametrize("bomb", [fill_value, large_chunk, repeated, many_references, long_text])
def test_a_small_matlab_73_file_that_unpacks_to_much(bomb, tmp_path):
    with matlab_73(tmp_path / "a.mat") as file:
        bomb(file)
    assert (tmp_path / "a.mat").stat().st_size < 100_000
    assert f"bytes, more than max_bytes={LIMIT}" in refused(tmp_path / "a.mat")


def test_a_chunk_that_lies_about_its_size(tmp_path):
    """HDF5 makes room for whatever a gzip stream holds."""
    with matlab_73(tmp_path / "a.mat") as file:
        dataset = file.create_dataset("y", (1, 1000), "u1", chunks=(1, 1000), compression="gzip")
        dataset.id.write_direct_chunk((0, 0), zlib.compress(bytes(200_000_000), 9))
    assert "'y' unpacks to more than its size" in refused(tmp_path / "a.mat")


def compressed_matlab_5(inner):
    packed = zlib.compress(inner, 9)
    return (
        b"MATLAB 5.0 MAT-file".ljust(124)
        + b"\x00\x01IM"
        + struct.pack("<II", 15, len(packed))
        + packed
    )


def element(kind, payload):
    return struct.pack("<II", kind, len(payload)) + payload + b"\0" * (-len(payload) % 8)


def matrix(array_class, shape, *content):
    return element(
        14,
        element(6, struct.pack("<II", array_class, 0))
        + element(5, struct.pack("<ii", *shape))
        + element(1, b"y")
        + b"".join(content),
    )


@pytest.mark.parametrize(
    ("inner", "message"),
    [
        (bytes(60_000_000), "got one that is damaged"),  # more than the limit, and no variable
        (struct.pack("<II", 14, 10**9) + bytes(60_000_000), "more than max_bytes"),
        # One byte each, eight unpacked.
        (matrix(6, (1, 2_000_000), element(2, bytes(2_000_000))), "more than max_bytes"),
        # Cells without content.
        (matrix(1, (1, 500_000), element(14, b"") * 500_000), "more than max_bytes"),
    ],
)
def test_a_small_matlab_5_file_that_unpacks_to_much(inner, message, tmp_path):
    path = tmp_path / "a.mat"
    path.write_bytes(compressed_matlab_5(inner))
    assert message in refused(path)


def test_a_variable_that_is_longer_than_it_says(tmp_path):
    path = tmp_path / "a.mat"
    path.write_bytes(compressed_matlab_5(struct.pack("<II", 14, 8) + bytes(200_000_000)))
    assert "needs a MATLAB file" in refused(path)


def test_matlab_5_within_the_limit_is_read(tmp_path):
    columns = {"trial": [1, 1], "time": [0, 1.0], "x": [1.0, 2]}
    scipy.io.savemat(tmp_path / "a.mat", columns, do_compression=True)
    assert len(mc.io.read(tmp_path / "a.mat", max_bytes=LIMIT)) == 1


def npz(path, **members):
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in members.items():
            archive.writestr(f"{name}.npy", data)
    return path


def npy(shape, descr="<f8", content=b""):
    stream = io.BytesIO()
    np.lib.format.write_array_header_1_0(
        stream, {"shape": shape, "fortran_order": False, "descr": descr}
    )
    return stream.getvalue() + content


@pytest.mark.parametrize(
    ("members", "message"),
    [
        ({"x": npy((10**9,))}, "unpacks to 80000001.. bytes"),
        ({"x": npy((2_000_000,), content=bytes(16_000_000))}, "unpacks to 160001.. bytes"),
        ({"x": npy((10**12,), "|V0")}, "unpacks to 10000000001.. bytes"),
        ({"x": npy((10**6,), "<U500")}, "unpacks to 20000001.. bytes"),
        ({"samples": npy((10**6, 10**6, 0))}, "unpacks to 1.* bytes"),
        ({f"c{i}": npy((1,), content=b"12345678") for i in range(1000)}
         | {"samples": npy((1, 10**5, 1), content=bytes(800_000)), "dt": npy((1,), "f8", bytes(8))},
         "unpacks to 8.* bytes"),
        ({"x": npy((-(10**9),))}, "damaged"),
        ({"x": npy((3,), "|O", b"\x80\x04.")}, "got Python objects, which are not loaded"),
    ],
)  # fmt: skip
def test_a_small_archive_that_unpacks_to_much(members, message, tmp_path):
    said = refused(npz(tmp_path / "a.npz", **members))
    assert re.search(message, said), said


def test_an_archive_packed_in_another_way(tmp_path):
    with zipfile.ZipFile(tmp_path / "a.npz", "w", zipfile.ZIP_BZIP2) as archive:
        archive.writestr("x.npy", npy((10,), content=bytes(80)))
    assert "damaged" in refused(tmp_path / "a.npz")


def test_a_long_text_is_not_repeated_for_every_sample(tmp_path):
    samples = np.random.default_rng(0).normal(size=(2, 1000, 1))
    np.savez(
        tmp_path / "a.npz", samples=samples, dt=0.1, note=np.array(["a" * 100_000, "b"])
    )  # fmt: skip
    movements = mc.io.read(tmp_path / "a.npz", max_bytes=LIMIT)
    assert "a.npz: column 'note' left out: text of over 1000 characters" in movements.notes
    assert "needs text of at most 1000 characters" in refused(
        tmp_path / "a.npz", conditions=["note"]
    )


def parquet(path, columns, **options):
    pq.write_table(pa.table(columns), path, **options)
    return path


@pytest.mark.parametrize(
    ("column", "kind"),
    [
        (pa.array([[1.0], [2.0, 3.0]]), "list"),
        (pa.array([{"a": 1}, {"a": 2}]), "struct"),
        (pa.array([[("a", 1)], []], pa.map_(pa.string(), pa.int64())), "map"),
        (pa.array([[[1]], [[2]]]), "list"),
        (pa.array([b"ab", b"cd"], pa.binary(2)), "bytes"),
    ],
)
def test_nested_columns_are_named(column, kind, tmp_path):
    path = parquet(tmp_path / "a.parquet", {"time": [0.0, 1.0], "x\n\x1b[1m": column})
    said = refused(path)
    assert r"a.parquet: column 'x\n\x1b[1m' needs" in said
    assert kind in said


def zeros(count):
    return {"time": np.zeros(count), "x": np.zeros(count)}


@pytest.mark.parametrize(
    ("columns", "options"),
    [
        (zeros(1_000_000), {}),
        (zeros(1_000_000), {"compression": "zstd", "use_dictionary": False}),
        ({"x": pa.nulls(10_000_000)}, {}),
        ({"x": pa.DictionaryArray.from_arrays(np.zeros(300_000, "i4"), ["t" * 100_000])}, {}),
        ({"x": ["t" * 1_000_000] * 20}, {"use_dictionary": False, "compression": "zstd"}),
    ],
)
def test_a_small_parquet_file_that_unpacks_to_much(columns, options, tmp_path):
    path = parquet(tmp_path / "a.parquet", columns, **options)
    assert path.stat().st_size < 500_000
    before = pa.total_allocated_bytes()
    assert f"bytes, more than max_bytes={LIMIT}" in refused(path)
    assert pa.total_allocated_bytes() - before < LIMIT


def test_differences_of_texts(tmp_path):
    """A few bytes may say: as before, and all of it again."""
    path = parquet(
        tmp_path / "a.parquet", {"time": [0.0, 1.0], "x": ["a" * 1000, "a" * 1000]},
        use_dictionary=False, column_encoding={"x": "DELTA_BYTE_ARRAY", "time": "PLAIN"},
    )  # fmt: skip
    assert "a.parquet: column 'x' is stored as differences of texts" in refused(path)


def test_a_repeated_text_takes_its_memory_once(tmp_path):
    count = 20_000
    frame = {
        "time": np.arange(count) / 100, "x": np.arange(count) % 7 + 0.5,
        "note": pa.DictionaryArray.from_arrays(np.zeros(count, "i4"), ["t" * 100_000]),
    }  # fmt: skip
    movements = mc.io.read(parquet(tmp_path / "a.parquet", frame), max_bytes=LIMIT)
    assert "a.parquet: column 'note' left out: text of over 1000 characters" in movements.notes


def test_pages_that_unpack_to_more_than_the_footer_says(tmp_path):
    """Arrow makes room for a page by the size in its own header."""
    path = parquet(
        tmp_path / "a.parquet", {"x": np.arange(100_000) % 7.0}, use_dictionary=False,
        compression="gzip", column_encoding="PLAIN",
    )  # fmt: skip
    most = 1_000_000
    assert len(mc.io.read(path, rate=100, max_bytes=most)) == 1
    content = bytearray(path.read_bytes())
    # After the page's type, its size: seven bits in each byte, the lowest first.
    assert content[4:7] == b"\x15\x00\x15"
    content[7:10] = b"\xfe\xff\x7f"
    path.write_bytes(content)
    assert "bytes, more than max_bytes=1000000" in refused(path, rate=100, max_bytes=most)


def test_names_are_escaped_and_cut(tmp_path):
    name = "x\x1b[31m\u202e" + "y" * 500
    path = tmp_path / ("n\x1b[2J" + "m" * 100 + ".csv")
    path.write_text(f'trial,time,"z\u200b{"z" * 5000}"\n1,0,1\n1,1,bad\n1,2,3\n')
    said = refused(path)
    assert said.startswith(r"n\x1b[2J" + "m" * 50)
    assert r"column 'z\u200bzzz" in said
    assert len(said) < 300
    assert r"unknown column 'x\x1b[31m\u202eyyy" in refused(path, time=name)
    with pytest.raises(mc.InputError) as caught:
        mc.io.read(tmp_path / "no\nsuch\x07file.csv")
    assert str(caught.value).endswith(r"no\nsuch\x07file.csv: there is no such file")


def test_very_many_columns(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text(",".join(f"column_{i}" for i in range(20_000)) + "\n")
    assert "a.csv: needs at most 5000 columns, got 20000: a table needs one row" in refused(path)
    path.write_text(",".join(["c" * 5000] * 200) + "\n" + ",".join("1" * 200) + "\n")
    assert "columns must differ from each other" in refused(path)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (npy((10**10,)), "unpacks to 80000000"),
        (npy((10**5,)), "needs a NumPy file with the fields"),
        (npy((3,), "|O", b"\x80\x04."), "got Python objects, which are not loaded"),
        (npy((2,), [("t", "<f8"), ("x", "|O")], b"\x80\x04."), "got Python objects"),
        (b"\x93NUMPY\x01\x00v\x00{'descr': '<f8', 'shape': (10**13,)}", "needs a NumPy file"),
        (b"", "needs a NumPy file"),
    ],
)
def test_data_sets_obey_too(content, message, tmp_path):
    path = tmp_path / "lookAtPoint_EL_S1.npy"
    path.write_bytes(content)
    with pytest.raises(mc.InputError) as caught:
        datasets.load("saccades", path)
    assert message in str(caught.value)
    assert str(caught.value).startswith(path.name)


def test_saved_fits_obey_too(tmp_path):
    npz(tmp_path / "fit.npz", header=npy((10**11,), "|u1"))
    with pytest.raises(mc.InputError, match=r"is not a file that Fit.save wrote"):
        mc.load(tmp_path / "fit.npz")
