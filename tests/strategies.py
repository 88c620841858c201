"""Problems that Hypothesis draws."""

import jax
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import motorcost as mc

# Numbers of states, controls, senses, control-dependent and state-dependent noise terms. There are
# few shapes, because each is compiled separately; the second has several of everything, and is
# what the quick tests use.
SHAPES = [(1, 1, 1, 1, 1), (3, 2, 2, 2, 2), (4, 1, 3, 1, 2)]

TASKS = ("reaching", "saccade", "tracking", "random_problem")


def make_problem(shape, seed, *, steps=8, plain=False, internal=True, scale=0.3):
    """A problem with time-varying matrices and every kind of noise or, with `plain`, without noise
    that depends on signals."""
    n, m, k, c, d = shape
    rng = np.random.default_rng(seed)

    def normal(count, *size):
        return rng.normal(size=(count, *size))

    def spread(count, size):
        factor = normal(count, size, size)
        return factor @ factor.swapaxes(-1, -2)

    T = steps
    A = 0.9 * normal(T - 1, n, n) / np.sqrt(n)
    return mc.Problem(
        steps=T,
        A=A,
        B=normal(T - 1, n, m),
        C=[] if plain else [scale * normal(T - 1, n, m) for _ in range(c)],
        V=scale * normal(T - 1, n, n),
        H=normal(T - 1, k, n),
        W=scale * normal(T - 1, k, k) + np.eye(k),
        D=[] if plain else [scale * normal(T - 1, k, n) for _ in range(d)],
        E=None if plain else scale * (normal(T - 1, n, n) if internal else np.zeros((T - 1, n, n))),
        Q=spread(T, n),
        R=spread(T - 1, m) + 0.1 * np.eye(m),
        initial_belief=rng.normal(size=n),
        initial_belief_cov=0.1 * spread(1, n)[0],
        initial_state_cov=0.1 * spread(1, n)[0],
    )


def for_problems(max_examples=20, **options):
    """Decorate a test of a problem and a random generator, to run it on many problems."""

    def decorate(test):
        # The problem is made inside the test: JAX uses Python's random module on its way,
        # which Hypothesis does not allow while it draws.
        @pytest.mark.parametrize("shape", in_time(SHAPES, SHAPES[0], SHAPES[2]))
        @settings(max_examples=-(-max_examples // len(SHAPES)))
        @given(seed=st.integers(0, 10_000))
        def run(shape, seed):
            test(make_problem(shape, seed, **options), np.random.default_rng(seed))

        run.__name__, run.__doc__ = test.__name__, test.__doc__
        return run

    return decorate


def in_time(names, *slow):
    """Parametrise a test by `names`, of which those in `slow`, which take long to compile, run with
    `make test-slow` only."""
    marked = [pytest.param(name, marks=pytest.mark.slow) for name in slow]
    return [name for name in names if name not in slow] + marked


def built_in(name):
    """The problem of a built-in task of `TASKS` at its defaults."""
    random = name == "random_problem"
    return (mc.tasks.random_problem(jax.random.key(0)) if random else getattr(mc.tasks, name))()
