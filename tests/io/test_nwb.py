"""NWB files, written by the format's own library, against the same table as CSV."""

from datetime import UTC, datetime

import h5py
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import motorcost as mc

TIMES = np.round(np.arange(40) * 0.01, 12)
HAND = np.column_stack([np.sin(TIMES), np.cos(TIMES)])
SPEED = np.cos(TIMES) ** 2
TRIALS = [(0.05, 0.12, "left", 3.5), (0.12, 0.2, "right", 4.5), (0.3, 0.35, "left", 5.5)]
WARNS = pytest.mark.filterwarnings("ignore")  # of the library that writes the files


def write(path, *, rate=None, trials=True, eye=False, compression=False):
    pynwb = pytest.importorskip("pynwb")
    nwb = pynwb.NWBFile("a session", "one", datetime(2024, 1, 8, tzinfo=UTC))
    clock = {"timestamps": TIMES} if rate is None else {"rate": rate, "starting_time": 0.0}
    data = pynwb.H5DataIO(HAND, compression="gzip") if compression else HAND
    hand = pynwb.behavior.SpatialSeries(
        "hand", data=data, reference_frame="table", unit="meters", conversion=0.5, **clock
    )
    # As labs do: the second series has the times of the first, which the file has once.
    shared = {"timestamps": hand} if rate is None else clock
    speed = pynwb.TimeSeries("speed", data=SPEED, unit="m/s", **shared)
    module = nwb.create_processing_module("behavior", "what was done")
    module.add(pynwb.behavior.Position(spatial_series=hand))
    module.add(pynwb.behavior.BehavioralTimeSeries(time_series=speed))
    if eye:
        gaze = pynwb.behavior.SpatialSeries(
            "gaze", data=HAND[::2], reference_frame="screen", unit="degrees",
            timestamps=TIMES[::2],
        )  # fmt: skip
        module.add(pynwb.behavior.EyeTracking(spatial_series=gaze))
    if trials:
        nwb.add_trial_column("side", "where to")
        nwb.add_trial_column("load", "kg")
        nwb.add_trial_column("events", "any number", index=True)
        for start, stop, side, load in TRIALS:
            nwb.add_trial(start_time=start, stop_time=stop, side=side, load=load, events=[1.0, 2.0])
    with pynwb.NWBHDF5IO(path, "w") as io:
        io.write(nwb)
    return path


def twin(folder):
    rows = ["trial,time,hand_x,hand_y,speed,load,side"]
    for i, (start, stop, side, load) in enumerate(TRIALS):
        for time, hand, speed in zip(TIMES, HAND, SPEED, strict=True):
            if start <= time < stop or (time == stop and i != 0):
                rows.append(
                    f"{i},{time!r},{float(hand[0]) / 2!r},{float(hand[1]) / 2!r},{speed!r},{load},"
                    f"{side}"
                )
    (folder / "a.csv").write_text("\n".join(rows).replace("np.float64(", "").replace(")", ""))
    return mc.io.read(folder / "a.csv")


@WARNS
@pytest.mark.parametrize("options", [{}, {"rate": 100.0}, {"compression": True}, {"eye": True}])
def test_an_nwb_file_is_its_table(options, tmp_path):
    expected = twin(tmp_path)
    movements = mc.io.read(write(tmp_path / "a.nwb", **options), channels=list(expected.channels))
    assert movements.labels == expected.labels == ("0", "1", "2")
    for found, wanted in zip(movements.samples, expected.samples, strict=True):
        assert_array_equal(found, wanted)
    for found, wanted in zip(movements.times, expected.times, strict=True):
        assert_allclose(found, wanted, atol=1e-12)
    assert {name: list(values) for name, values in movements.conditions.items()} == {
        name: list(values) for name, values in expected.conditions.items()
    }
    assert movements.channels == {"hand_x": "m", "hand_y": "m", "speed": "m/s"}
    notes = " ".join(movements.notes)
    assert "column 'events' of the trials left out: not one value each" in notes
    assert ("left out: gaze, sampled at other times than speed" in notes) == ("eye" in options)


@WARNS
def test_another_clock_can_be_chosen(tmp_path):
    path = write(tmp_path / "a.nwb", eye=True, trials=False)
    movements = mc.io.read(path, channels=["gaze_x", "gaze_y"])
    assert_array_equal(movements.samples[0], HAND[::2])
    assert movements.channels == {"gaze_x": "deg", "gaze_y": "deg"}
    assert len(mc.io.read(path)) == 1
    with pytest.raises(mc.InputError, match=r"a.nwb: 'hand' and 'gaze' were sampled at different"):
        mc.io.read(path, channels=["hand_x", "gaze_x"])


def skeleton(path):
    """A file as small as can be, without the library."""
    file = h5py.File(path, "w")
    group = file.create_group("processing/behavior/Position")
    group.attrs["neurodata_type"] = "Position"
    series = group.create_group("hand")
    series.attrs["neurodata_type"] = "SpatialSeries"
    series["data"] = HAND
    series["data"].attrs["unit"] = "m"
    series["timestamps"] = TIMES
    return file


def test_a_small_file(tmp_path):
    skeleton(tmp_path / "a.nwb").close()
    movements = mc.io.read(tmp_path / "a.nwb")
    assert_array_equal(movements.samples[0], HAND)


SERIES = "processing/behavior/Position/hand"


def replaced(file, name, make):
    del file[f"{SERIES}/{name}"]
    make(file[SERIES], name)


def outside(group, name):
    size = 40 * 8
    dataset = group.create_dataset(name, (40,), "f8", external=[("secret.bin", 0, size)])
    assert dataset.external is not None


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda f: replaced(f, "timestamps", outside), "'timestamps' is stored in another file"),
        (
            lambda f: replaced(
                f, "timestamps",
                lambda g, n: g.__setitem__(n, h5py.ExternalLink("other.h5", "/x")),
            ),
            "'timestamps' is a link to another file",
        ),
        (
            lambda f: (
                f.__setitem__("way", h5py.ExternalLink("other.h5", "/")),
                replaced(f, "timestamps", lambda g, n: g.__setitem__(n, h5py.SoftLink("/way/x"))),
            ),
            "'way' is a link to another file",
        ),
        (
            lambda f: replaced(
                f, "timestamps",
                lambda g, n: g.__setitem__(n, h5py.SoftLink(f"/{SERIES}/timestamps")),
            ),
            "'timestamps' is a link to a link",
        ),
        (
            lambda f: replaced(
                f, "data", lambda g, n: g.create_dataset(n, (10**9, 2), "f8", chunks=(1000, 2))
            ),
            "unpacks to 16000000000 bytes, more than max_bytes",
        ),
        (lambda f: replaced(f, "data", lambda g, n: g.__setitem__(n, ["a", "b"])), "needs numbers"),
        (lambda f: replaced(f, "timestamps", lambda g, n: g.__setitem__(n, [0.0])), "a time for"),
        (lambda f: f.__delitem__("processing"), "needs a SpatialSeries or BehavioralTimeSeries"),
        (lambda f: f.__delitem__(f"{SERIES}/data"), "a.nwb: needs an NWB file, got one that is da"),
    ],
)  # fmt: skip
def test_bad_files_are_refused_in_one_line(change, message, tmp_path):
    with skeleton(tmp_path / "a.nwb") as file:
        change(file)
    with pytest.raises(mc.InputError) as caught:
        mc.io.read(tmp_path / "a.nwb")
    assert message in str(caught.value)
    assert str(caught.value).startswith("a.nwb: ")


def test_a_heap_that_never_ends(tmp_path):
    """The HDF5 library goes on without end where what is left of a heap has the size 0."""
    skeleton(tmp_path / "a.nwb").close()
    content = bytearray((tmp_path / "a.nwb").read_bytes())
    left = content.index((4000).to_bytes(8, "little"), content.index(b"GCOL"))
    content[left : left + 8] = bytes(8)
    (tmp_path / "a.nwb").write_bytes(content)
    with pytest.raises(mc.InputError, match=r"a.nwb: needs an NWB file, got one that is damaged"):
        mc.io.read(tmp_path / "a.nwb")


def test_bytes_of_any_kind(tmp_path):
    (tmp_path / "a.nwb").write_bytes(b"no HDF5 at all")
    with pytest.raises(mc.InputError):
        mc.io.read(tmp_path / "a.nwb")
