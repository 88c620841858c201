import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import motorcost as mc


def parts(**changes):
    """The arguments of a small problem: 2 states, 1 control, 3 senses, 4 steps."""
    plain = {
        "steps": 4,
        "A": np.eye(2),
        "B": np.ones((2, 1)),
        "H": np.ones((3, 2)),
        "Q": np.eye(2),
        "R": np.eye(1),
    }
    return plain | changes


def test_a_constant_matrix_is_the_same_as_a_constant_stack():
    constant = mc.Problem(**parts(V=np.eye(2), C=[np.ones((2, 1))]))
    varying = mc.Problem(
        **parts(
            A=np.stack([np.eye(2)] * 3),
            V=np.stack([np.eye(2)] * 3),
            Q=np.stack([np.eye(2)] * 4),
            C=[np.stack([np.ones((2, 1))] * 3)],
        )
    )
    assert jax.tree.structure(constant) == jax.tree.structure(varying)
    for leaf, stacked in zip(jax.tree.leaves(constant), jax.tree.leaves(varying), strict=True):
        assert_allclose(leaf, stacked)


def test_defaults_are_no_noise_and_numbered_names():
    problem = mc.Problem(**parts())
    assert problem.C.shape == (3, 0, 2, 1)
    assert problem.D.shape == (3, 0, 3, 2)
    assert problem.V.shape == (3, 2, 0)
    assert problem.initial_belief.tolist() == [0, 0]
    assert problem.state_names == ("state_1", "state_2")
    assert problem.sense_names == ("sense_1", "sense_2", "sense_3")


def test_problem_is_an_immutable_pytree():
    problem = mc.Problem(**parts())
    with pytest.raises(AttributeError):
        problem.A = np.zeros((3, 2, 2))
    doubled = jax.tree.map(lambda leaf: 2 * leaf, problem)
    assert_allclose(doubled.A, 2 * problem.A)
    assert doubled.state_names == problem.state_names


def test_replace_changes_one_thing():
    problem = mc.Problem(**parts(C=[np.ones((2, 1))], states={"angle": "deg", "rate": "deg/s"}))
    other = problem.replace(A=2 * np.eye(2))
    assert_allclose(other.A[0], 2 * np.eye(2))
    assert other.state_units == ("deg", "deg/s")
    assert_allclose(other.C, problem.C)


def test_beliefs_add_up_and_do_not_change_the_world():
    problem = mc.Problem(**parts(C=[np.ones((2, 1))]))
    wrong = problem.believing(C=[]).believing(H=np.zeros((3, 2)))
    assert wrong.believed.C.shape[1] == 0
    assert_allclose(wrong.believed.H, 0)
    assert wrong.C.shape[1] == 1
    assert problem.believed is None
    assert problem.as_believed is problem
    assert_allclose(wrong.as_believed.H, 0)
    assert wrong.replace(R=2 * np.eye(1)).believed.C.shape[1] == 0
    assert "the agent believes in another problem" in repr(wrong)


@pytest.mark.usefixtures("as_users_call_it")
@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"H": np.ones((3, 4))}, r"H must have shape \(senses, states\) = \(any, 2\) or "
         r"\(T-1, senses, states\) = \(3, any, 2\), got \(3, 4\)\.$"),
        ({"H": np.ones((2, 3))}, r"H must have shape .* got \(2, 3\)\. Transposed\?$"),
        ({"H": np.ones((2, 3)), "senses": ["a", "b", "c"]}, r"\(3, 2\) .* Transposed\?$"),
        ({"Q": np.eye(3)}, r"Q must have shape \(states, states\) = \(2, 2\) or \(T, "),
        ({"W": np.ones((2, 3))}, r"W must have .* \(senses, noises\) = \(3, any\).*Transposed\?"),
        ({"C": [np.ones((1, 2))]}, r"C\[0\] must have shape \(states, controls\) = \(2, 1\).*"
         r"got \(1, 2\)\. Transposed\?"),
        ({"C": np.ones((2, 1))}, r"C must be a list of matrices.*write C=\[\.\.\.\]"),
        ({"D": [np.ones((3, 2)), np.ones((2, 2))]}, r"D\[1\] must have shape"),
        ({"A": np.ones((2, 2, 2))}, r"A must have shape .* got \(2, 2, 2\)"),
        ({"A": np.ones(2)}, r"A must be a matrix, or one per time step, got shape \(2,\)"),
        ({"B": np.ones((2, 0))}, "B has no controls"),
        ({"B": np.ones((1, 2))}, r"B must have shape .*got \(1, 2\)\. Transposed\?"),
        ({"A": [[1, np.inf], [0, 1]]}, r"A must be finite, got inf at index \(0, 1\)"),
        ({"A": [[1, "x"], [0, 1]]}, "A must be real numbers"),
        ({"A": [[1, 2], [3]]}, "A must be real numbers"),
        ({"A": 1j * np.eye(2)}, r"A must be real numbers, got an array of shape \(2, 2\)"),
        ({"A": np.ma.masked_equal(np.eye(2), 0)}, "A must be finite, got nan"),
        ({"V": [[np.nan], [0]]}, r"V must be finite, got nan at index \(0, 0\)"),
        ({"R": [[0.0]]}, "R must be positive definite, got lowest eigenvalue 0"),
        ({"R": np.stack([np.eye(1), -np.eye(1), np.eye(1)])}, r"R must .* -1 at R\[1\]"),
        ({"Q": -np.eye(2)}, "Q must be positive semidefinite, got lowest eigenvalue -1"),
        ({"Q": [[1, 2], [0, 1]]}, "Q must be symmetric"),
        ({"Q": np.diag([1e12, -1])}, "Q must be positive semidefinite, got lowest eigenvalue -1$"),
        ({"Q": np.stack([-np.eye(2)] * 3 + [1e12 * np.eye(2)])}, r"Q must .* -1 at Q\[0\]"),
        ({"steps": 1}, r"steps \(T, the number of states in a trial\) must be at least 2, got 1"),
        ({"steps": 3.0}, "steps .* must be a whole number, got 3.0"),
        ({"dt": 0}, "dt must be positive"),
        ({"dt": np.ones(4)}, r"dt must be one number, got an array of shape \(4,\)"),
        ({"states": {"a", "b"}}, "states must be a list of names"),
        ({"states": [1, 2]}, "states must be a list of names"),
        ({"initial_belief": [0.0]}, r"initial_belief must have shape \(states,\) = \(2,\)"),
        ({"initial_state_cov": [1.0, 1.0]}, r"_cov must be a covariance of shape .* got \(2,\)"),
        ({"initial_belief_cov": -np.eye(2)}, "initial_belief_cov must be positive semidefinite"),
        ({"states": ["a"]}, "states must have 2 names, got 1: a"),
        ({"states": ["a", "a"]}, "states must differ from each other, got 'a' twice"),
        ({"controls": "u"}, "controls must be a list of names"),
    ],
)  # fmt: skip
def test_bad_input_is_named_in_one_line(changes, message):
    with pytest.raises(mc.InputError, match=message) as raised:
        mc.Problem(**parts(**changes))
    assert "\n" not in str(raised.value)


def test_repr_of_a_small_problem_names_everything():
    problem = mc.Problem(
        **parts(C=[np.ones((2, 1))], states={"angle": "deg", "rate": "deg/s"}, dt=0.01)
    )
    assert repr(problem).splitlines() == [
        "Problem: 4 steps of 0.01 s",
        "  2 states: angle (deg), rate (deg/s)",
        "  1 control: control_1",
        "  3 senses: sense_1, sense_2, sense_3",
        "  noise terms: 1 control-dependent (C), 0 state-dependent (D)",
    ]


def test_repr_of_a_large_problem_fits_a_screen():
    problem = mc.delay(mc.tasks.reaching(), 25).believing(C=[])
    assert len(problem.state_names) == 80
    lines = repr(problem).splitlines()
    assert len(lines) <= 8
    assert max(map(len, lines)) <= 80
    assert lines[1].startswith("  80 states: position (m), velocity (m/s)")
    assert lines[1].endswith(", ...")


def test_noise_terms_are_stored_by_time_and_term():
    terms = [np.stack([(t + 10 * i) * np.ones((2, 1)) for t in range(3)]) for i in range(2)]
    problem = mc.Problem(**parts(C=terms))
    assert problem.C.shape == (3, 2, 2, 1)
    assert_allclose(problem.C[2, 1], 12)
    for i, term in enumerate(terms):
        assert_allclose(problem.C[:, i], term)


@pytest.mark.usefixtures("as_users_call_it")
@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"H": np.ones((2, 2))},
            r"the believed H must have the world's shape \(3, 2\) or \(3, 3, 2\), got \(2, 2\)",
        ),
        ({"steps": 9}, "the agent's steps must be those of the world"),
        ({"a": np.eye(2)}, "unknown part of a Problem 'a'"),
        ({"Q": -np.eye(2)}, "Q must be positive semidefinite"),
        ({"initial_belief": [0, 1]}, "initial_belief is the agent's belief already"),
    ],
)
def test_bad_beliefs(changes, message):
    with pytest.raises(mc.InputError, match=message):
        mc.Problem(**parts()).believing(**changes)


def test_values_are_not_checked_while_tracing():
    """Inside jit a bad value is data for the optimiser, not an exception."""
    cost = jax.jit(lambda r: mc.Problem(**parts(R=r * jnp.eye(1))).R.sum())
    assert cost(-1.0) == -3.0


def test_single_precision_is_refused():
    code = "import motorcost as mc; mc.tasks.reaching()"
    environment = {"JAX_ENABLE_X64": "0", "PATH": ""}
    run = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=environment
    )
    assert run.returncode == 1
    assert "needs double precision" in run.stderr.splitlines()[-1]
    assert "jax.config.update('jax_enable_x64', True)" in run.stderr


def test_import_is_quick_and_quiet():
    slow = (
        "matplotlib", "numpyro", "arviz", "pandas", "dask", "scipy", "h5py", "jinja2", "typer",
        "rich",
    )  # fmt: skip
    code = f"import sys, motorcost; print([m for m in {slow} if m in sys.modules])"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout == "[]\n"
    assert run.stderr == ""


def test_noise_terms_of_a_problem_go_back_in():
    problem = mc.tasks.reaching(steps=4).replace(D=[0.1 * np.ones((3, 5))])
    louder = problem.replace(C=2.0 * problem.C, D=2.0 * problem.D)
    assert_array_equal(louder.C, 2.0 * problem.C)
    mistaken = problem.believing(C=louder.C, D=louder.D).believed
    assert_array_equal(mistaken.C, louder.C)
    assert_array_equal(mistaken.D, louder.D)
    with pytest.raises(mc.InputError, match=r"C\[0\] must have shape"):
        problem.replace(C=problem.C[:2])
