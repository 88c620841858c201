import sys
import zipfile

import h5py
import jax
import numpy as np
import pandas as pd
import pytest
import scipy.io
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

import motorcost as mc
from motorcost.data.movements import Movements

WRITERS = {
    "csv": mc.io.write_csv,
    "parquet": mc.io.write_parquet,
    "npz": mc.io.write_npz,
    "mat": mc.io.write_mat,
}
TABLE = "trial,time,x,y,target\n1,0,1,2,9\n1,0.1,1.5,2.5,9\n2,0,3,4,8\n2,0.1,3.5,4.5,8\n"


@pytest.fixture(scope="module")
def trials():
    problem = mc.tasks.reaching(steps=5)
    trials = mc.simulate(problem, mc.solve(problem), n_trials=4, key=jax.random.key(0))
    observed = trials.observed.at[1, 2, 0].set(np.nan)
    return mc.Trials.recorded(
        np.asarray(observed),
        dt=0.01,
        channels=trials.channel_names,
        conditions={"load": ["heavy", "light", "light", "none"], "reach": [0.1, 0.2, 0.2, 1 / 3]},
    )


def written(path, content):
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


@pytest.mark.parametrize("format", WRITERS)
def test_what_is_written_reads_back_bit_for_bit(format, trials, tmp_path):
    path = tmp_path / f"trials.{format}"
    WRITERS[format](trials, path)
    movements = mc.io.read(path, channels=trials.channel_names)
    again = movements.trials(0.01)
    assert_array_equal(again.observed, trials.observed)
    assert_array_equal(again.times, trials.times)
    assert list(again.conditions) == list(trials.conditions)
    for name, values in trials.conditions.items():
        assert_array_equal(again.conditions[name], values)
    assert movements.labels == ("1", "2", "3", "4")
    assert movements.notes == (
        f"trials.{format}: 1 of 20 samples missing, longest run 1 in trial 2",
    )
    assert [file.name for file in tmp_path.iterdir()] == [path.name]


def test_columns_are_sorted_into_channels_and_conditions(tmp_path):
    text = (
        "subject,trial,time,x,y,phase,block,load,note,z\n"
        "S1,1,0,1,2,go,1,,n,\nS1,1,0.1,1,3,move,1,2.5,n,\n"
        "S1,2,0,1,2,go,1,3.5,m,\nS1,2,0.1,2,3,move,1,,m,\n"
    )
    movements = mc.io.read(written(tmp_path / "a.csv", text))
    assert list(movements.channels) == ["x", "y"]
    assert {name: list(values) for name, values in movements.conditions.items()} == {
        "subject": ["S1", "S1"], "block": [1, 1], "load": [2.5, 3.5], "note": ["n", "m"],
    }  # fmt: skip
    assert movements.notes == (
        "a.csv: column 'phase' left out: text that changes within a trial",
        "a.csv: column 'z' left out: it is empty",
    )


def test_columns_are_named_and_measured(tmp_path):
    text = "id;t [ms];hand;px\na;100;1;720\na;110;2;720\n"
    movements = mc.io.read(
        written(tmp_path / "a.txt", text),
        trial="id",
        time="t [ms]",
        time_unit="ms",
        channels={"position": "hand"},
        conditions={"target": "px"},
        units={"position": "mm", "target": "px"},
    )
    assert movements.channels == {"position": "mm"}
    assert movements.condition_units == {"target": "px"}
    assert movements.labels == ("a",)
    assert_allclose(movements.times[0], [0.1, 0.11])


def test_rows_of_a_trial_may_be_apart(tmp_path):
    text = "trial,time,x\nb,0,1\na,0,10\nb,1,2\na,1,20\n"
    movements = mc.io.read(written(tmp_path / "a.csv", text))
    assert movements.labels == ("b", "a")
    assert movements.samples[1].ravel().tolist() == [10, 20]


def test_several_columns_may_tell_trials_apart(tmp_path):
    text = "subject,trial,time,x\n1,1,0,1\n1,1,1,2\n2,1,0,3\n2,1,1,4\n1,2,0,5\n1,2,1,6\n"
    movements = mc.io.read(written(tmp_path / "a.csv", text), trial=["subject", "trial"])
    assert movements.labels == ("1/1", "2/1", "1/2")
    assert [samples[0, 0] for samples in movements.samples] == [1, 3, 5]


def test_a_single_trial_needs_no_column(tmp_path):
    path = written(tmp_path / "a.csv", "time,x\n0,1\n1,2\n")
    assert len(mc.io.read(path)) == 1
    steady = mc.io.read(written(tmp_path / "b.csv", "x\n1\n2\n4\n"), rate=50.0)
    assert_allclose(steady.times[0], [0, 0.02, 0.04])


@pytest.mark.parametrize(
    "content",
    [
        "\ufefftrial,time,x\n1,0,1\n1,1,2\n",
        "trial\ttime\tx\n1\t0\t1\n1\t1\t2\n",
        "trial;time;x\r\n1;0;1\r\n1;1;2\r\n",
        "trial,time,x\r1,0,1\r1,1,2",
        '"trial", "time", "x"\n"1", "0", "1"\n"1", "1", "2"\n',
        "trial,time,x\n1,0,1\n\n1,1,2\n,,\n",
        ",trial,time,x\n1,1,0,1\n2,1,1,2\n",
        "\n\ntrial,time,x\n1,0,1\n1,1,2\n",
        "trial,time,x,sübject\n1,0,1,é\n1,1,2,é\n".encode("latin-1"),
    ],
)
def test_many_kinds_of_text(content, tmp_path):
    movements = mc.io.read(written(tmp_path / "a.csv", content))
    assert movements.labels == ("1",)
    assert_array_equal(movements.samples[0], [[1], [2]])
    assert_array_equal(movements.times[0], [0, 1])


@pytest.mark.parametrize(
    ("text", "note"),
    [
        (TABLE + "3,0,1,1,7\n", "1 of 3 trials left out: they have one sample"),
        (TABLE + "3,0,,1,7\n3,0.1,,,7\n3,0.2,1,2,7\n", "2 of 7 samples missing, longest run 2"),
        (TABLE + "3,0,1,1,7\n3,0.15,2,2,7\n", "sampled unevenly: 0.1 to 0.15 s apart, 0.1 s at"),
        (TABLE + ",,,,\n", "1 empty rows left out"),
    ],
)
def test_what_was_done_is_noted(text, note, tmp_path):
    notes = mc.io.read(written(tmp_path / "a.csv", text)).notes
    assert any(note in text for text in notes), notes


@pytest.mark.parametrize(
    ("text", "options", "message"),
    [
        (TABLE, {"time": "tme"}, "a.csv: unknown column 'tme': did you mean time? known: trial,"),
        (TABLE, {"channels": ["xx"]}, "a.csv: unknown column 'xx'"),
        (TABLE, {"trial": ["trial", "who"]}, "a.csv: unknown column 'who'"),
        (TABLE, {"conditions": ["x"]}, "a.csv: row 3, column 'x': needs one value throughout tri"),
        (TABLE, {"units": {"z": "m"}}, "unknown channel or condition 'z'"),
        (TABLE, {"time_unit": "h"}, "unknown time unit 'h'"),
        (TABLE, {"rate": -1.0}, "rate must be positive"),
        (TABLE, {"format": "excel"}, "unknown format 'excel'"),
        (TABLE, {"max_bytes": 10}, f"a.csv: has {len(TABLE)} bytes, more than max_bytes=10"),
        (TABLE, {"trial": "block"}, "row 4, column 'time': needs times that increase within trial"),
        (TABLE, {"trial": "block"}, "name the column that numbers them, trial='...'"),
        (TABLE.replace("2.5", "abc"), {}, "a.csv: row 3, column 'y': needs a number, got 'abc'"),
        (TABLE.replace("2.5", "1_0"), {}, "a.csv: row 3, column 'y': needs a number, got '1_0'"),
        (TABLE.replace("0.1", "late", 1), {}, "row 3, column 'time': needs a number, got 'late'"),
        (TABLE.replace("2.5", "inf"), {}, "row 3, column 'y': needs a finite number, got inf"),
        (TABLE.replace("2.5", "1e999"), {}, "row 3, column 'y': needs a finite number, got inf"),
        (TABLE.replace("1,0.1", "1,-1"), {}, "row 3, column 'time': needs times that increase wi"),
        (TABLE.replace("1,0.1", "1,-1"), {}, "got -1 after 0 in row 2"),
        (TABLE.replace("1,0.1", "1,0"), {}, "row 3, column 'time': needs times that increase wit"),
        (TABLE.replace("1,0.1", "1,0"), {}, "got 0 again, as in row 2"),
        (TABLE.replace("1,0.1", "1,"), {}, "row 3, column 'time': needs a time, got nothing"),
        (TABLE.replace("1,0.1", ",0.1"), {}, "row 3, column 'trial': needs the trial's name, got"),
        (TABLE.replace("2.5", "2.5,7"), {}, "row 3: needs 5 fields, as in the header, got 6"),
        (TABLE.replace(",2.5", ""), {}, "a.csv: row 3: needs 5 fields, as in the header, got 4"),
        (TABLE.replace("y", "x", 1), {}, "a.csv: columns must differ from each other, got 'x' twi"),
        ("", {}, "a.csv: needs samples, got an empty file"),
        ("\n \n", {}, "a.csv: needs a header and rows of samples, got an empty file"),
        ("trial,time,x\n", {}, "a.csv: needs rows of samples, got only a header"),
        ("trial,time,x\n\n\n", {}, "a.csv: needs rows of samples, got only a header"),
        ("trial,time,x\n1,0,1\n2,0,1\n", {}, "needs trials of two samples or more, got one"),
        ("trial,time,x\n1,0,1\n1,1,1\n", {}, "a.csv: needs a column of numbers that change"),
        ("trial,time,x\n1,0,\n1,1,\n", {}, "column 'x' needs numbers, got none"),
        ("trial,time,x\n1,0,\n1,1,\n", {"channels": ["x"]}, "column 'x' needs numbers, got none"),
        ("trial;time;x\n1;0;0,5\n1;1;0,6\n", {"channels": ["x"]}, "'0,5' (numbers take a decimal"),
        ('trial,time,x\n1,0,"1\n1,1,2\n', {}, "a.csv: row 2: needs quotes in pairs, got"),
        (b"\x89PNG\r\n\x1a\n\0\0\0", {}, "a.csv: needs text, got a binary file"),
        (b"trial,time\n\xff\x81\x82,3\n", {}, "a.csv: needs text, got a binary file"),
        (b"PK\x03\x04\x14", {}, "a.csv: needs text, got a binary file"),
    ],
)  # fmt: skip
def test_bad_text_is_refused_in_one_line(text, options, message, tmp_path):
    path = written(tmp_path / "a.csv", text)
    with pytest.raises(mc.InputError) as caught:
        mc.io.read(path, **options)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_the_line_is_the_files_even_after_empty_ones(tmp_path):
    path = written(tmp_path / "a.csv", "trial,time,x\n\n1,0,1\n\n1,1,oops\n1,2,3\n1,3,4\n")
    with pytest.raises(mc.InputError, match="row 5, column 'x': needs a number, got 'oops'"):
        mc.io.read(path)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.xlsx", b"PK", "a.xlsx: is a spreadsheet: save it as CSV"),
        ("a.trc", b"x", "a.trc: needs one of .csv, .tsv, .txt, .parquet, .npz, .mat, .asc, .nwb"),
        ("a", b"x", "a: needs one of .csv"),
        ("a.npz", b"not an archive", "a.npz: needs an .npz file, got one that is damaged"),
        ("a.mat", b"not MATLAB's" * 30, "a.mat: needs a MATLAB file, got one that is damaged"),
        ("a.parquet", b"PAR1", "a.parquet: needs a Parquet file, got one that is damaged"),
    ],
)
def test_files_of_another_kind(name, content, message, tmp_path):
    with pytest.raises(mc.InputError) as caught:
        mc.io.read(written(tmp_path / name, content))
    assert message in str(caught.value)


def test_no_file(tmp_path):
    with pytest.raises(mc.InputError, match=r"nowhere\.csv: there is no such file"):
        mc.io.read(tmp_path / "nowhere.csv")
    with pytest.raises(mc.InputError, match="needs a file, got a folder"):
        mc.io.read(tmp_path)


@pytest.mark.parametrize("format", ["parquet", "npz", "mat"])
def test_half_a_file(format, trials, tmp_path):
    WRITERS[format](trials, tmp_path / f"a.{format}")
    whole = (tmp_path / f"a.{format}").read_bytes()
    half = written(tmp_path / f"half.{format}", whole[: len(whole) // 2])
    with pytest.raises(mc.InputError, match=f"half.{format}: needs"):
        mc.io.read(half)


STACKED = np.random.default_rng(0).normal(size=(3, 4, 2))


def stacked_arrays(**more):
    return {"samples": STACKED, "channels": ["x", "y"], "units": ["mm", "mm"], **more}


@pytest.mark.parametrize("format", ["npz", "mat"])
@pytest.mark.parametrize(
    "times",
    [{"dt": 0.5}, {"times": np.arange(4) / 2}, {"times": np.tile(np.arange(4) / 2, (3, 1))}],
)
def test_stacked_arrays(format, times, tmp_path):
    path = tmp_path / f"a.{format}"
    arrays = stacked_arrays(load=[1.5, 2.5, 3.5], junk=np.ones((2, 7)), **times)
    (np.savez if format == "npz" else lambda p, **a: scipy.io.savemat(p, a))(path, **arrays)
    movements = mc.io.read(path)
    assert_array_equal(np.array(movements.samples), STACKED)
    assert_array_equal(movements.times[2], [0, 0.5, 1, 1.5])
    assert movements.channels == {"x": "mm", "y": "mm"}
    assert movements.conditions["load"].tolist() == [1.5, 2.5, 3.5]
    assert movements.notes == (f"a.{format}: 'junk' left out: its shape is that of no column",)
    renamed = mc.io.read(path, channels={"z": "y"}, units={"z": "cm"})
    assert renamed.channels == {"z": "cm"}


def test_matlab_drops_axes_of_length_one(tmp_path):
    path = tmp_path / "a.mat"
    scipy.io.savemat(path, {"samples": STACKED[:1], "channels": ["x", "y"], "dt": 0.1})
    assert_array_equal(mc.io.read(path).samples[0], STACKED[0])
    scipy.io.savemat(path, {"samples": STACKED[:, :, :1], "channels": "x", "dt": 0.1})
    assert_array_equal(np.array(mc.io.read(path).samples), STACKED[:, :, :1])


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        (
            {"samples": np.ones((3, 4))},
            "'samples' needs the axes (trial, time, channel), got (3, 4",
        ),
        ({"samples": np.ones((3, 4, 2)), "channels": ["x"]}, "a name (and a unit) for each of 2"),
        ({"samples": np.ones((3, 4, 2)), "dt": [1, 2]}, "'times' needs numbers of shape (time,) ="),
        ({"samples": np.array([[["a"]]])}, "'samples' needs numbers"),
        (stacked_arrays(), "unknown column 'time'"),
        ({"trial": [1, 1], "time": [0, 1], "x": [1j, 2]}, "'x' needs real numbers, got complex"),
        ({"trial": [1, 1], "time": [0, 1], "x": [1, np.inf]}, "row 1, column 'x': needs a finite"),
        ({"x": np.array([{}], object)}, "needs arrays of numbers or text, got Python objects"),
        ({}, "needs arrays, got none"),
    ],
)
def test_bad_arrays(arrays, message, tmp_path):
    np.savez(tmp_path / "a.npz", **arrays)
    with pytest.raises(mc.InputError) as caught:
        mc.io.read(tmp_path / "a.npz")
    assert message in str(caught.value)


def test_an_archive_that_grows_too_large(tmp_path):
    np.savez_compressed(tmp_path / "a.npz", x=np.zeros(100_000))
    with pytest.raises(mc.InputError, match=r"unpacks to 8001.. bytes, more than max_bytes=10000"):
        mc.io.read(tmp_path / "a.npz", max_bytes=10_000)


def test_nothing_is_unpickled(tmp_path):
    class Trap:
        def __reduce__(self):
            return sys.exit, ("unpickled",)

    np.savez(tmp_path / "a.npz", trial=np.array([Trap()], object))
    with pytest.raises(mc.InputError, match="Python objects, which are not loaded"):
        mc.io.read(tmp_path / "a.npz")


def matlab_73(path):
    """An HDF5 file with the header that MATLAB 7.3 writes."""
    file = h5py.File(path, "w", userblock_size=512)
    file.close()
    header = b"MATLAB 7.3 MAT-file".ljust(124) + b"\x00\x02IM"
    with path.open("r+b") as stream:
        stream.write(header)
    return h5py.File(path, "r+")


def put(group, name, value):
    """As MATLAB does: axes reversed, text as numbers of characters."""
    text = isinstance(value, str)
    array = np.array([[ord(c)] for c in value], np.uint16) if text else np.atleast_2d(value).T
    group[name] = array
    group[name].attrs["MATLAB_class"] = np.bytes_("char" if text else "double")


def structs(file, group, entries):
    """A structure array: for each field, references to its elements' values."""
    for field in entries[0]:
        references = []
        for i, entry in enumerate(entries):
            name = f"#refs#/{group.name.strip('/').replace('/', '_')}_{field}_{i}"
            put(file, name, entry[field])
            references.append(file[name].ref)
        group.create_dataset(field, data=np.array([references], h5py.ref_dtype).T)


def test_matlab_73_columns(tmp_path):
    with matlab_73(tmp_path / "a.mat") as file:
        put(file, "trial", np.array([[1.0], [1], [2], [2]]))
        put(file, "time", np.array([[0.0], [0.1], [0], [0.1]]))
        put(file, "x", np.array([[1 / 3], [2], [3], [4]]))
    movements = mc.io.read(tmp_path / "a.mat")
    assert movements.labels == ("1", "2")
    assert movements.samples[0].ravel().tolist() == [1 / 3, 2]


def dream_trials():
    rng = np.random.default_rng(0)
    return [
        {
            "Time": np.arange(n)[:, None] * 0.01,
            "HandPos": rng.normal(size=(n, 2)),
            "TargetPos": np.array([[0.1 * n, -1.0]]),
            "Reward": float(n),
            "Spikes": rng.normal(size=(3, 5)),
        }
        for n in (5, 7, 6)
    ]


def check_dream(movements):
    assert movements.channels == {"x": "cm", "y": "cm"}
    assert movements.labels == ("1/1", "1/2", "1/3")
    trials = zip(movements.samples, movements.times, dream_trials(), strict=True)
    for samples, time, expected in trials:
        assert_array_equal(samples, expected["HandPos"])
        assert_array_equal(time, expected["Time"][:, 0])
    assert_allclose(movements.conditions["target_x"], [0.5, 0.7, 0.6])
    assert_allclose(movements.conditions["target_y"], -1)
    assert movements.conditions["Reward"].tolist() == [5, 7, 6]
    assert movements.conditions["subject"].tolist() == [1, 1, 1]


def as_structs(entries):
    array = np.zeros((1, len(entries)), dtype=[(name, object) for name in entries[0]])
    for i, entry in enumerate(entries):
        for name, value in entry.items():
            array[0, i][name] = value
    return array


def test_dream_in_matlab_5(tmp_path):
    subject = as_structs([{"Trial": as_structs(dream_trials())}])
    scipy.io.savemat(tmp_path / "a.mat", {"Subject": subject})
    check_dream(mc.io.read(tmp_path / "a.mat", units={"x": "cm", "y": "cm"}))
    two = as_structs([{"Trial": as_structs(dream_trials()[:n])} for n in (2, 1)])
    scipy.io.savemat(tmp_path / "b.mat", {"Subject": two})
    movements = mc.io.read(tmp_path / "b.mat", channels={"aside": "x"}, conditions=["subject"])
    assert movements.labels == ("1/1", "1/2", "2/1")
    assert list(movements.channels) == ["aside"]
    assert list(movements.conditions) == ["subject"]


def test_dream_in_matlab_73(tmp_path):
    with matlab_73(tmp_path / "a.mat") as file:
        structs(file, file.create_group("Subject/Trial"), dream_trials())
    check_dream(mc.io.read(tmp_path / "a.mat", units={"x": "cm", "y": "cm"}))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"Time": np.zeros((5, 1))}, "a.mat: Subject(1).Trial(1).Time: needs times that increase"),
        ({"HandPos": np.ones((4, 2))}, "Trial(1).HandPos: needs shape (time, axis) = (5, 1 to 3)"),
        ({"HandPos": np.full((5, 2), np.inf)}, "Trial(1).HandPos: needs finite numbers"),
        ({"HandPos": "left"}, "Trial(1).HandPos: needs numbers, got"),
        ({"HandPos": np.ones((5, 3))}, "HandPos needs as many axes in all trials"),
    ],
)
def test_bad_dream(change, message, tmp_path):
    entries = dream_trials()
    entries[0] |= change
    scipy.io.savemat(tmp_path / "a.mat", {"Subject": as_structs([{"Trial": as_structs(entries)}])})
    with pytest.raises(mc.InputError) as caught:
        mc.io.read(tmp_path / "a.mat")
    assert message in str(caught.value)


def test_frames_of_many_types():
    frame = pd.DataFrame(
        {
            "trial": pd.Categorical(["a", "a", "b", "b"]),
            "time": np.array([0, 1, 0, 1], np.int16),
            "x": pd.array([1, None, 3, 4], dtype="Int64"),
            "y": np.array([1, 2, 3, 4], np.float32),
            "ok": [True, True, False, False],
        },
        index=list("pqrs"),
    )
    movements = mc.io.from_frame(frame)
    assert_array_equal(movements.samples[0], [[1, 1], [np.nan, 2]])
    assert movements.conditions["ok"].tolist() == [True, False]
    frame["y"] = ["1", "2", "3", "oops"]
    with pytest.raises(mc.InputError, match="the table: row s, column 'y': needs a number, got"):
        mc.io.from_frame(frame)
    dates = frame.assign(time=pd.to_datetime(["2020-01-01", "2020-01-02"] * 2))
    with pytest.raises(mc.InputError, match="row p, column 'time': needs a number"):
        mc.io.from_frame(dates)


def test_names_that_a_format_cannot_hold(trials, tmp_path):
    with pytest.raises(mc.InputError, match="'a b' cannot be the name of a MATLAB variable"):
        mc.io.write_mat(trials.with_conditions(**{"a b": 1}), tmp_path / "a.mat")
    with pytest.raises(mc.InputError, match=r"an .npz file cannot be called 'file'"):
        mc.io.write_npz(trials.with_conditions(file=1), tmp_path / "a.npz")


# Whatever is in a file: movements, or one line that says why not.

fuzz = settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])


def read_or_refuse(path):
    try:
        assert isinstance(mc.io.read(path), Movements)
        return
    except mc.InputError as error:
        said = str(error)
    assert "\n" not in said
    assert said.startswith(path.name)


@fuzz
@given(content=st.binary(max_size=200))
def test_any_bytes(content, tmp_path):
    for name in ("a.csv", "a.npz", "a.mat", "a.parquet"):
        read_or_refuse(written(tmp_path / name, content))


cells = st.sampled_from(
    ["0", "1", "2", "0.5", "-3e8", "", "NA", "inf", "x", '"', '"a"', "'", " ", "1,5", "\n",
     "9" * 30, "True", "é", "\t", ";", "0x1", "1e400", "\u2028", "nan", "#"]
)  # fmt: skip


@fuzz
@given(
    header=st.sampled_from(["trial,time,x", "trial;time;x", "time,x", "x", "trial,time,x,x", ""]),
    rows=st.lists(st.lists(cells, min_size=1, max_size=5), max_size=8),
    separator=st.sampled_from([",", ";", "\t"]),
)
def test_any_table(header, rows, separator, tmp_path):
    text = "\n".join([header, *(separator.join(row) for row in rows)])
    read_or_refuse(written(tmp_path / "a.csv", text))


@fuzz
@given(data=st.data())
def test_tables_with_a_flaw(data, tmp_path):
    lines = [line.split(",") for line in TABLE.split("\n")[:-1]]
    row = data.draw(st.integers(0, len(lines) - 1))
    column = data.draw(st.integers(0, 4))
    lines[row][column] = data.draw(cells)
    read_or_refuse(written(tmp_path / "a.csv", "\n".join(map(",".join, lines))))


@pytest.mark.parametrize("format", ["npz", "mat", "parquet"])
@fuzz
@given(data=st.data())
def test_files_with_a_flaw(format, data, trials, tmp_path):
    path = tmp_path / f"good.{format}"
    if not path.exists():
        WRITERS[format](trials, path)
    content = bytearray(path.read_bytes())
    for _ in range(data.draw(st.integers(1, 4))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    end = data.draw(st.one_of(st.just(len(content)), st.integers(0, len(content))))
    read_or_refuse(written(tmp_path / f"bad.{format}", bytes(content[:end])))


def test_a_wrong_code_in_a_matlab_file_does_not_end_the_process(trials, tmp_path):
    mc.io.write_mat(trials, tmp_path / "a.mat")
    content = bytearray((tmp_path / "a.mat").read_bytes())
    for flaw in (14, 15, 19, 200):  # types that numbers cannot have, where SciPy crashes
        # The first variable's tag and flags take 24 bytes, its dimensions 16, its name 8 to 16.
        for at in range(128 + 24, 128 + 80, 8):
            path = written(
                tmp_path / "b.mat", bytes(content[:at] + bytes([flaw]) + content[at + 1 :])
            )
            read_or_refuse(path)
    content[128 + 17] |= 8  # complex numbers, without their second part
    with pytest.raises(mc.InputError, match=r"b.mat: needs a MATLAB file"):
        mc.io.read(written(tmp_path / "b.mat", bytes(content)))


def test_archives_of_anything(tmp_path):
    with zipfile.ZipFile(tmp_path / "a.npz", "w") as archive:
        archive.writestr("x.npy", b"\x93NUMPY\x01\x00v\x00{'descr': '<f8', 'shape': (10**13,)}")
        archive.writestr("readme.txt", "hello")
    read_or_refuse(tmp_path / "a.npz")
