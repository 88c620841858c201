"""Likelihoods per second on an accelerator: `python benchmarks/gpu.py [-o FILE.json]`.

The reaching task, T = 30, 100 trials, fully observed, float64: log likelihoods with the solve,
and their gradients, of many parameter sets at once. Runs on whatever device JAX picks.
"""

import argparse
import json
import time
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import motorcost as mc
from motorcost.fitting.objective import DataSets, evaluate
from motorcost.fitting.specification import make_objective
from timing import machine

RESULTS = Path(__file__).parent / "results" / "gpu.json"
SETS = (256, 2_048, 16_384)


def main() -> None:
    parser = argparse.ArgumentParser(description="Time motorcost on an accelerator.")
    parser.add_argument("-o", "--output", type=Path, default=RESULTS, help="where the JSON goes")
    parser.add_argument("--sets", type=int, nargs="*", default=SETS)
    args = parser.parse_args()
    jax.config.update("jax_enable_x64", True)
    device = jax.devices()[0]
    print(f"{device.device_kind}, jax {jax.__version__}, reaching, T = 30, 100 trials")
    rows = [measure(n, gradient=gradient) for n in args.sets for gradient in (False, True)]
    facts = machine() | {"device": device.device_kind}
    args.output.parent.mkdir(parents=True, exist_ok=True)
    args.output.write_text(json.dumps({"facts": facts, "rows": rows}, indent=1))


def measure(sets: int, *, gradient: bool) -> dict[str, Any]:
    """Time the log likelihoods, and their gradients, of parameter sets around the defaults."""
    problem = mc.tasks.reaching()
    trials = mc.simulate(problem, mc.solve(problem), n_trials=100, key=jax.random.key(0))
    model = make_objective(mc.tasks.reaching, trials, ["effort", "velocity", "force"])
    centre = model.point({"effort": 1e-5, "velocity": 0.2, "force": 0.02})
    points = centre + 0.5 * jax.random.normal(jax.random.key(1), (sets, len(centre)))
    which, counted, rough = jnp.zeros(sets, int), jnp.ones(sets), jnp.asarray(False)

    def run() -> Any:
        found = evaluate(
            model, DataSets(), which, points, counted, rough, gradient=gradient, priors=False
        )
        return jax.block_until_ready(found)

    begin = time.perf_counter()
    values = run().values
    first = time.perf_counter() - begin
    seconds: list[float] = []
    while len(seconds) < 5 or (sum(seconds) < 3 and len(seconds) < 50):
        begin = time.perf_counter()
        run()
        seconds.append(time.perf_counter() - begin)
    median = float(np.median(seconds))
    what = "value and gradient" if gradient else "log likelihood"
    print(
        f"{what:<20}{sets:>7,} sets: first call {first:6.1f} s, then {median * 1e3:9.2f} ms, "
        f"{sets / median:>10,.0f} per second; {int(np.isfinite(values).sum())} finite",
        flush=True,
    )
    return {"what": what, "sets": sets, "first": first, "seconds": seconds, "rate": sets / median}


if __name__ == "__main__":
    main()
