"""C3D files and KINARM exams, written by a library, against the same table as CSV."""

import io
import struct
import warnings
import zipfile

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import motorcost as mc
from motorcost.io import registry

c3d = pytest.importorskip("c3d")

RATE = 200.0
TIMES = np.arange(6) / RATE
# Binary fractions, which the format's single precision holds exactly.
HAND = np.arange(18).reshape(6, 3) * 0.25 + 100
ELBOW = -HAND / 2
SEEN = np.array([1, 1, 0, 1, 1, 1], bool)


def content(points, labels, *, unit="mm", analog=None, analog_labels=(), per_frame=1, trial=()):
    """The bytes of a C3D file. `points` has axes (frame, point, axis), NaN where not seen."""
    writer = c3d.Writer(
        point_rate=RATE, analog_rate=RATE * per_frame, point_scale=-1.0, point_units=unit.ljust(4)
    )
    writer.set_point_labels(labels)
    if analog_labels:
        writer.set_analog_labels(analog_labels)
    frames = []
    for i, frame in enumerate(points):
        seen = ~np.isnan(frame).any(axis=1)
        full = np.zeros((len(frame), 5), np.float32)
        full[:, :3] = np.where(seen[:, None], frame, 0)
        full[~seen, 3:] = -1
        values = np.zeros((0, 1)) if analog is None else np.atleast_2d(analog[i]).T
        frames.append((full, np.repeat(values, per_frame, axis=1).astype(np.float32)))
    writer.add_frames(frames)
    for name, value in dict(trial).items():
        writer.trial_group.add(name, "", 2, "<h", value)
    stream = io.BytesIO()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that there are no analog channels
        writer.write(stream)
    return stream.getvalue()


def made(**options):
    points = np.stack([HAND, ELBOW], axis=1)
    points[~SEEN, 0] = np.nan
    return content(points, ["hand", "elbow"], **options)


def read(folder, data, name="reach.c3d", **options):
    (folder / name).write_bytes(data)
    return mc.io.read(folder / name, **options)


def test_a_c3d_file_is_its_table(tmp_path):
    rows = ["time,hand_x,hand_y,hand_z,elbow_x,elbow_y,elbow_z"]
    for i, time in enumerate(TIMES):
        hand = [str(v) if SEEN[i] else "" for v in HAND[i]]
        rows.append(",".join([str(time), *hand, *map(str, ELBOW[i])]))
    (tmp_path / "reach.csv").write_text("\n".join(rows))
    twin = mc.io.read(tmp_path / "reach.csv")
    movements = read(tmp_path, made())
    assert list(movements.channels) == list(twin.channels)
    assert set(movements.channels.values()) == {"mm"}
    assert movements.labels == twin.labels == ("1",)
    assert_array_equal(movements.samples[0], twin.samples[0])
    assert_allclose(movements.times[0], twin.times[0], rtol=1e-15)
    chosen = read(tmp_path, made(), channels={"x": "hand_x"}).in_units(x="m")
    assert chosen.channels == {"x": "m"}


def test_analog_channels_at_the_points_rate_are_read(tmp_path):
    force = np.arange(18).reshape(6, 3) * 0.5
    options = {"analog": force, "analog_labels": ["fx", "hand_x", ""]}
    movements = read(tmp_path, made(**options))
    assert list(movements.channels)[-3:] == ["fx", "hand_x_2", "analog_3"]
    assert_array_equal(movements.samples[0][:, -3:], force)
    faster = read(tmp_path, made(**options, per_frame=4))
    assert len(faster.channels) == 6
    assert any("3 analog channels left out: another rate" in note for note in faster.notes)


def test_points_without_a_name_of_their_own(tmp_path):
    points = np.stack([HAND, ELBOW, HAND + 1], axis=1)
    movements = read(tmp_path, content(points, ["hand", "hand", ""]))
    assert [name for name in movements.channels if name.endswith("_x")] == [
        "hand_x", "hand_2_x", "point_3_x",
    ]  # fmt: skip


def exam(path, trials, *, common=True, folder="raw"):
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("description.txt", "an exam")
        if common:
            archive.writestr(f"{folder}/common.c3d", b"metadata that all trials share")
        for i, data in enumerate(trials, start=1):
            archive.writestr(f"{folder}/{i:02d}_01_01.c3d", data)
    return path


def kinarm_trial(number, shift):
    hands = np.stack([HAND / 1024 + shift, ELBOW / 1024], axis=1)
    return content(
        hands, ["Right", "Left"], unit="m", trial={"TRIAL_NUM": number, "TP": 4},
        analog=HAND, analog_labels=["Right_HandXVel", "Right_HandYVel", "ACH0"],
    )  # fmt: skip


def test_a_kinarm_exam_is_its_table(tmp_path):
    rows = ["trial,time,Right_HandX,Right_HandY,Left_HandX,Left_HandY,tp"]
    for trial in (1, 2):
        for i, time in enumerate(TIMES):
            right, left = HAND[i] / 1024 + trial, ELBOW[i] / 1024
            rows.append(f"{trial},{time},{right[0]},{right[1]},{left[0]},{left[1]},4")
    (tmp_path / "exam.csv").write_text("\n".join(rows))
    twin = mc.io.read(tmp_path / "exam.csv")
    path = exam(tmp_path / "exam.zip", [kinarm_trial(1, 1), kinarm_trial(2, 2)])
    movements = mc.io.read(path, channels=list(twin.channels))
    assert movements.labels == twin.labels == ("1", "2")
    for found, expected in zip(movements.samples, twin.samples, strict=True):
        assert_allclose(found, expected, rtol=1e-7)  # single precision
    assert_array_equal(movements.conditions["tp"], twin.conditions["tp"])
    assert movements.channels["Right_HandX"] == "m"
    assert {"Right_HandXVel", "Right_HandYVel"} < set(mc.io.read(path).channels)
    assert mc.io.read(path.rename(tmp_path / "exam.kinarm")).labels == ("1", "2")


def wrong_frames(data):
    """A file whose header tells of more frames than there are."""
    changed = bytearray(data)
    changed[6:10] = struct.pack("<HH", 1, 65000)
    return bytes(changed)


@pytest.mark.parametrize(
    "data",
    [b"x", b"\x02P" + b"\0" * 600, bytes(range(256)) * 8, made()[:700], made()[:-600]],
)
def test_damaged_files_are_refused_in_one_line(data, tmp_path):
    with pytest.raises(mc.InputError, match=r"^reach.c3d: needs a C3D file, got one that is dam"):
        read(tmp_path, data)


def test_more_frames_than_there_are(tmp_path):
    try:
        assert len(read(tmp_path, wrong_frames(made())).times[0]) == 6  # other fields tell it too
    except mc.InputError as error:
        assert str(error).startswith("reach.c3d: needs a C3D file")  # noqa: PT017


def test_too_large(tmp_path):
    with pytest.raises(mc.InputError, match=r"reach.c3d: unpacks to .* more than max_bytes=5000"):
        read(tmp_path, made(), max_bytes=5000)
    path = exam(tmp_path / "exam.zip", [kinarm_trial(1, 1)])
    with pytest.raises(mc.InputError, match=r"exam.zip: unpacks to .* more than max_bytes=4000"):
        mc.io.read(path, max_bytes=4000)


def test_archives_of_another_kind(tmp_path):
    (tmp_path / "a.zip").write_bytes(b"PK\x03\x04")
    with pytest.raises(mc.InputError, match=r"a.zip: needs a KINARM exam, .* damaged or someth"):
        mc.io.read(tmp_path / "a.zip")
    for options in ({"common": False}, {"folder": "other"}):
        path = exam(tmp_path / "b.zip", [made()], **options)
        with pytest.raises(mc.InputError, match=r"b.zip: needs a KINARM exam, an archive with raw"):
            mc.io.read(path)
    path = exam(tmp_path / "c.zip", [made(), b"junk"])
    with pytest.raises(mc.InputError, match=r"c.zip, 02_01_01.c3d: needs a C3D file"):
        mc.io.read(path)


def test_a_missing_library_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr(registry, "find_spec", lambda name: None)
    with pytest.raises(mc.InputError, match=r"reach.c3d: needs .*: pip install 'motorcost\[c3d\]'"):
        read(tmp_path, made())
