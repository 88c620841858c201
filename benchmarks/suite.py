"""Every benchmark, in one table and one JSON: `make bench`, or

    python benchmarks/suite.py [--quick] [--only SUBSTRING] [-o FILE.json]

Each row times two things in turn and gives the ratio, `against` over the first, of which the
median and the quartiles over all turns are shown: above 1, the first is faster. What both sides
compute is compared before it is timed, where it is the same thing. Times are after compilation
unless a row says otherwise. `--quick` runs everything once, at sizes that say nothing about
speed, to see that it works. Some rows have an aim, a ratio or a number of seconds (those of issues
are meant for 2 quiet cores); rows that miss it are listed at the end.
"""

import argparse
import atexit
import json
import os
import shutil
import tempfile
from collections.abc import Sequence
from dataclasses import asdict
from itertools import chain
from pathlib import Path
from typing import Any

import jax

import core
import delays
import lab
import plain_lqg
import processes
import sizes
from cases import FULL, QUICK
from motorcost.numerics.compiling import forget_programs_if_full
from timing import HEADER, Row, SkippedError, compare, machine, table_row

RESULTS = Path(__file__).parent / "results" / "suite.json"


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="Time motorcost beside other ways.")
    parser.add_argument("--quick", action="store_true", help="tiny sizes, a single turn")
    parser.add_argument("--only", default="", help="only rows whose name contains this")
    parser.add_argument("-o", "--output", type=Path, default=RESULTS, help="the JSON to write")
    args = parser.parse_args(arguments)
    scale = QUICK if args.quick else FULL
    jax.config.update("jax_enable_x64", True)
    if args.quick:
        compile_little()
    facts = machine() | {"quick": args.quick}
    print(
        f"reaching task, T = {scale.steps}, {scale.trials} trials, fully observed, unless a row "
        f"says otherwise; {facts['cpu']}, {facts['cores']} cores, "
        f"jax {facts['versions']['jax']}, motorcost {facts['versions']['motorcost']}"
    )
    print(HEADER)
    rows: list[Row] = []
    skipped: list[dict[str, str]] = []
    modules = (core, lab, delays, plain_lqg, sizes, processes)
    for comparison in chain.from_iterable(module.comparisons(scale) for module in modules):
        if args.only not in comparison.name:
            continue
        forget_programs_if_full()
        try:
            row = compare(comparison, repeats=1 if scale.once else None)
        except SkippedError as reason:
            print(f"*** SKIPPED *** {comparison.name}: {reason}", flush=True)
            skipped.append({"row": comparison.name, "why": str(reason)})
            continue
        print(table_row(row), flush=True)
        rows.append(row)
    missed = [f"{row.what} / {row.against}" for row in rows if row.missed]
    if missed and not args.quick:
        print(f"{len(missed)} of {sum(row.has_aim for row in rows)} aims are missed:")
        print("\n".join(f"  {name}" for name in missed))
    write(args.output, facts, rows, skipped)


def compile_little() -> None:
    """Compile with few optimisations, and share compiled programs with child processes: a quick run
    is almost only compilation."""
    os.environ.setdefault("XLA_FLAGS", "--xla_backend_optimization_level=0")
    folder = tempfile.mkdtemp()
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    settings = {
        "jax_enable_compilation_cache": True,
        "jax_compilation_cache_dir": folder,
        "jax_persistent_cache_min_compile_time_secs": 0.0,
    }
    for name, value in settings.items():
        jax.config.update(name, value)
        os.environ[name.upper()] = str(value)


def write(
    path: Path, facts: dict[str, Any], rows: Sequence[Row], skipped: Sequence[dict[str, str]]
) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    found = {"machine": facts, "rows": [asdict(row) for row in rows], "skipped": skipped}
    path.write_text(json.dumps(found, indent=1) + "\n")
    print(f"wrote {path}")


if __name__ == "__main__":
    main()
