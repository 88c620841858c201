"""Damaged and hostile inputs by the thousand: `make fuzz`, or `make fuzz ARGS='--inputs 100'`.

Each input is made from a good one by a few random changes. Whatever it is, it must be read, or
refused by an `InputError` of one line, within seconds and without much memory. Prints a row for
each kind of input, and every input that was met otherwise.
"""

import argparse
import json
import resource
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import test_c3d
import test_eyelink
import test_hostile
import test_nwb
import typer

import made
import motorcost as mc
from motorcost.cli import app
from motorcost.study.result import compare_results, read_result, result_of

MOST_SECONDS = 10.0
MOST_BYTES = 500e6

# What a field of a table or a value of a file may be instead of what it should be.
ODD_FIELDS = [
    "", "NA", "inf", "-inf", "nan", "1e400", "-3e8", "9" * 40, "x", "'", '"', '"a', "#", " ", "\t",
    "\x00", "\x1b[31m", "é" * 3, "\u2028", "\ud800", "0x1", "1,5", "True", ";;", "a" * 5000, "=1+1",
]  # fmt: skip
ODD_VALUES: list[Any] = [
    None, True, -1, 0, 1e308, 10**30, "", "x", "\x00", "a" * 5000, [], [[]], [1, "a", None], {},
    {"a": {"b": []}}, [1e-320] * 3, "NaN", -0.0, [[[0.0]]], "../../x", "1:2:3",
]  # fmt: skip
ODD_TOML = [
    "-1", "1e999", "nan", "[]", "[[]]", "{}", "{ a = 1 }", '""', '"\\u0000"', "1979-05-27", "true",
    "[1, 'a']", "99999999999999999999", "'" + "a" * 3000 + "'", "[prepare]", "'''", "\x00", "=",
]  # fmt: skip
ODD_ARGUMENTS = [
    "", "-1", "0", "nan", "inf", "1e400", "99999999999999999999", "x", "=", "a=", "=a", "a=b=c",
    "position=mm", "position=", "1:2:3:4", "20:1", "::0", "0:", "\x1b[31m", "é", "a,b,,c", "/",
    "../x", "nul\x00", "effort=1:0", "effort=-1:1", "effort,effort", "file.py:f", "cpu",
]  # fmt: skip
STUDY = """\
title = "a study"
[data]
file = "good.csv"
trial = "trial"
time = "time"
channels = { position = "position" }
conditions = { target = "target" }
[prepare]
least = { target = 0.02, duration = 0.01 }
[model]
task = "reaching"
dt = 0.01
lead = [0, 0.01]
fixed = { motor_noise = 0.5 }
[free]
effort = "usual"
velocity = [1e-3, 10]
force = { low = 1e-4, high = 1.0 }
[observer]
states = ["position"]
noise = 1e-3
[fit]
seed = 0
starts = 2
[report]
profiles = false
folds = 0
"""
COMMANDS = {
    "look": ["--task", "--channel", "--unit", "--condition", "--trial-column", "--time-column",
             "--time-unit", "--rate", "--dt", "--only", "--trials", "--by", "--dataset"],
    "fit": ["--free", "--set", "--per", "--noise", "--lead", "--starts", "--method", "--seed",
            "--bootstrap", "--device", "--dt", "--trials", "--only", "--unknown"],
    "init": ["--task", "--data", "--unknown"],
}  # fmt: skip


@dataclass
class Kind:
    """One kind of input: how the n-th is made and tried, and how often it went how."""

    make: Callable[[np.random.Generator, Path], Callable[[], Any]]
    read: int = 0
    refused: int = 0
    slowest: float = 0.0
    wrong: list[str] = field(default_factory=list)


def damaged(rng: np.random.Generator, content: bytes) -> bytes:
    """The content with a few bytes changed, pieces cut out, doubled or zeroed, or its end lost."""
    changed = bytearray(content)
    for _ in range(rng.integers(1, 5)):
        if not changed:
            break
        at = int(rng.integers(len(changed)))
        size = int(rng.integers(1, 1 + min(64, len(changed) - at)))
        piece = changed[at : at + size]
        how = rng.integers(6)
        if how == 0:
            changed[at] = int(rng.integers(256))
        elif how == 1:
            del changed[at : at + size]
        elif how == 2:
            changed[at:at] = piece
        elif how == 3:
            changed[at : at + size] = bytes(size)
        elif how == 4:
            changed[at : at + size] = rng.bytes(size)
        elif rng.random() < 0.3:
            del changed[at:]
    return bytes(changed)


def damaged_file(name: str) -> Callable[[np.random.Generator, Path], Callable[[], Any]]:
    def make(rng: np.random.Generator, folder: Path) -> Callable[[], Any]:
        bad = folder / f"bad{Path(name).suffix}"
        bad.write_bytes(damaged(rng, (folder / name).read_bytes()))
        return lambda: mc.io.read(bad)

    return make


def odd_table(rng: np.random.Generator, folder: Path) -> Callable[[], Any]:
    """A table of text with odd fields, names and separators."""
    lines = [line.split(",") for line in (folder / "good.csv").read_text().splitlines()]
    for _ in range(rng.integers(1, 6)):
        row = lines[int(rng.integers(len(lines))) if rng.random() < 0.8 else 0]
        at = int(rng.integers(len(row))) if row else 0
        row[at : at + int(rng.integers(2))] = [str(rng.choice(ODD_FIELDS))]
    separator = str(rng.choice([",", ",", ";", "\t", " "]))
    bad = folder / "bad.csv"
    text = str(rng.choice(["\n", "\r\n", "\r"])).join(separator.join(line) for line in lines)
    bad.write_bytes(text.encode("utf-8", "surrogatepass"))
    return lambda: mc.io.read(bad)


def odd_study(rng: np.random.Generator, folder: Path) -> Callable[[], Any]:
    """A study file with lines lost, doubled or moved, and odd values."""
    lines = STUDY.splitlines()
    for _ in range(rng.integers(1, 4)):
        at = int(rng.integers(len(lines)))
        how = rng.integers(4)
        if how == 0:
            lines.insert(int(rng.integers(len(lines))), lines[at])
        elif how == 1:
            del lines[at]
        elif "=" in lines[at]:
            lines[at] = lines[at].split("=")[0] + "= " + str(rng.choice(ODD_TOML))
        else:
            lines[at] = str(rng.choice(ODD_TOML))
    bad = folder / "bad.toml"
    bad.write_bytes("\n".join(lines).encode("utf-8", "surrogatepass"))
    return lambda: mc.look(bad)


def odd_saved_fit(rng: np.random.Generator, folder: Path) -> Callable[[], Any]:
    """A saved fit with parts missing or of another kind, or with damaged bytes."""
    bad = folder / "bad.fit"
    if rng.random() < 0.3:
        bad.write_bytes(damaged(rng, (folder / "good.fit").read_bytes()))
        return lambda: mc.load(bad)
    with np.load(folder / "good.fit") as archive:
        arrays = {name: archive[name] for name in archive.files}
    if rng.random() < 0.3:
        name = str(rng.choice(list(arrays)))
        arrays[name] = arrays[name][: int(rng.integers(2))]
    else:
        header = json.loads(arrays["header"].tobytes())
        _change_a_part(rng, header)
        arrays["header"] = np.frombuffer(json.dumps(header).encode(), np.uint8)
    with bad.open("wb") as stream:
        np.savez(stream, **arrays)
    return lambda: mc.load(bad)


def odd_result(rng: np.random.Generator, folder: Path) -> Callable[[], Any]:
    """A fit.json with parts missing or of another kind, or damaged as text, beside a good one."""
    good, bad = folder / "fit.json", folder / "bad.json"
    if rng.random() < 0.3:
        bad.write_bytes(damaged(rng, good.read_bytes()))
    else:
        result = json.loads(good.read_text())
        for _ in range(rng.integers(1, 4)):
            _change_a_part(rng, result)
        bad.write_text(json.dumps(result))
    return lambda: compare_results({str(path): read_result(path) for path in (good, bad)})


def _change_a_part(rng: np.random.Generator, part: Any) -> None:
    while isinstance(part, (dict, list)) and part:
        key = list(part)[int(rng.integers(len(part)))] if isinstance(part, dict) else 0
        if isinstance(part, list):
            key = int(rng.integers(len(part)))
        if not isinstance(part[key], (dict, list)) or not part[key] or rng.random() < 0.3:
            if rng.random() < 0.3:
                del part[key]
            else:
                part[key] = ODD_VALUES[int(rng.integers(len(ODD_VALUES)))]
            return
        part = part[key]


def odd_command(rng: np.random.Generator, folder: Path) -> Callable[[], Any]:
    """A command with odd options. Fits are of a file that cannot be read, so that none begins."""
    command = str(rng.choice(list(COMMANDS)))
    data = {
        "look": rng.choice(["good.csv", "bad.csv", "study.toml", "none.csv", "good.parquet"]),
        "fit": rng.choice(["none.csv", "none.toml", "folder.csv"]),
        "init": "new.toml",
    }[command]
    arguments = [command, str(folder / str(data))]
    for _ in range(rng.integers(1, 4)):
        arguments.append(str(rng.choice(COMMANDS[command])))
        arguments.append(str(rng.choice(ODD_ARGUMENTS)))
    (folder / "new.toml").unlink(missing_ok=True)

    def run() -> None:
        try:
            app(args=arguments, standalone_mode=False)
        except (typer.TyperException, OSError) as error:  # as `motorcost.cli.main` does
            raise mc.InputError(" ".join(str(error).split())) from None

    return run


def kinds() -> dict[str, Kind]:
    formats = {
        "CSV": "good.csv",
        "Parquet": "good.parquet",
        "npz": "good.npz",
        "MATLAB 5": "good.mat",
        "MATLAB 7.3": "good73.mat",
        "EyeLink": "good.asc",
        "C3D": "good.c3d",
        "NWB": "good.nwb",
    }
    files = {f"damaged {name}": Kind(damaged_file(file)) for name, file in formats.items()}
    return files | {
        "odd tables": Kind(odd_table),
        "odd studies": Kind(odd_study),
        "odd fit.json": Kind(odd_result),
        "odd saved fits": Kind(odd_saved_fit),
        "odd commands": Kind(odd_command),
    }


def good_files(folder: Path) -> None:
    """What the inputs are made from."""
    trials = made.recorded(channels=("position", "velocity"), subjects=["a", "b", "ü"])
    mc.io.write_csv(trials, folder / "good.csv")
    mc.io.write_parquet(trials, folder / "good.parquet")
    mc.io.write_npz(trials, folder / "good.npz")
    mc.io.write_mat(trials, folder / "good.mat")
    test_hostile.matlab_73(folder / "good73.mat").close()
    (folder / "good.asc").write_text(test_eyelink.GOOD)
    (folder / "good.c3d").write_bytes(test_c3d.made())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the library that writes the file
        test_nwb.write(folder / "good.nwb")
    (folder / "study.toml").write_text(STUDY)
    analysis = made.made_analysis(made.made_fit(["effort", "velocity"], trials))
    analysis.fit.save(folder / "good.fit")
    (folder / "fit.json").write_text(json.dumps(result_of(analysis)))


def run(inputs: int, seed: int = 0) -> dict[str, Kind]:
    """Try this many inputs, the same for the same seed."""
    result = kinds()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        good_files(folder)
        for number in range(inputs):
            kind = list(result.values())[number % len(result)]
            _try(kind, np.random.default_rng([seed, number]), folder, number)
    return result


def _try(kind: Kind, rng: np.random.Generator, folder: Path, number: int) -> None:
    attempt = kind.make(rng, folder)
    begin = time.perf_counter()
    try:
        attempt()
        kind.read += 1
    except (mc.InputError, mc.ConvergenceError) as error:
        kind.refused += 1
        said = str(error)
        if not said or "\n" in said or not said.isprintable():
            kind.wrong.append(f"{number}: not one line to print: {said[:200]!r}")
        if len(said) > 2000:
            kind.wrong.append(f"{number}: a message of {len(said)} characters: {said[:200]!r}")
    except BaseException as error:  # the point is to find what nobody expected
        kind.wrong.append(f"{number}: {type(error).__name__}: {str(error)[:200]!r}")
        if isinstance(error, KeyboardInterrupt):
            raise
    seconds = time.perf_counter() - begin
    kind.slowest = max(kind.slowest, seconds)
    if seconds > MOST_SECONDS:
        kind.wrong.append(f"{number}: took {seconds:.1f} s")


def peak_bytes() -> float:
    """The most memory that this process has had."""
    return 1024.0 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def main() -> None:
    parser = argparse.ArgumentParser(description="Try damaged and hostile inputs.")
    parser.add_argument("--inputs", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    before = peak_bytes()
    result = run(args.inputs, args.seed)
    print("| input | read | refused | otherwise | slowest |\n|---|---|---|---|---|")
    for name, kind in result.items():
        print(
            f"| {name} | {kind.read} | {kind.refused} | {len(kind.wrong)} | {kind.slowest:.2f} s |"
        )
    print(f"\nMemory grew by {(peak_bytes() - before) / 1e6:.0f} MB.")
    wrong = [f"{name} {text}" for name, kind in result.items() for text in kind.wrong]
    print("\n".join(wrong))
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
