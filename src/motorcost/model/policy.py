"""The agent's policy: control gains, filter gains, and the problem that the agent believes in."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import equinox as eqx
from jaxtyping import Array, Bool, Float, Int

from motorcost import checks
from motorcost.errors import InputError
from motorcost.model.problem import Problem

if TYPE_CHECKING:
    from motorcost.plots.style import CaptionedFigure

Gains = Float[Array, "steps m n *batch"]
FilterGains = Float[Array, "steps n k *batch"]


class Minima(eqx.Module):
    """The distinct minima of the expected cost that the solver's starts led to.

    **Attributes:**

    - `count`: how many were found; 0 if the iterations did not converge.
    - `costs` (starts,): their expected costs, lowest first, then NaN. The first is the cost of the
      policy; the others are exact to about seven digits.

    Starts whose gains approach those of another start are not followed to the end, and count as
    the same minimum. Other minima may exist that no start leads to.

    Examples
    --------
    >>> policy.minima
    Minima: 1 minimum of cost 0.00966076
    """

    count: Int[Array, "*batch"]
    costs: Float[Array, "starts *batch"]

    def plot(self) -> "CaptionedFigure":
        """Draw the expected cost of each minimum; see `mc.plots.plot_minima`."""
        from motorcost.plots.policies import plot_minima

        return plot_minima(self)

    def __repr__(self) -> str:
        if not checks.is_concrete(self.count) or self.count.ndim:
            return f"Minima(count={self.count.shape}, costs={self.costs.shape})"
        count = int(self.count)
        costs = ", ".join(f"{float(cost):.7g}" for cost in self.costs[:count])
        noun = "minimum" if count == 1 else "minima"
        return f"Minima: {count} {noun}" + (f" of cost {costs}" if costs else "")


class Policy(eqx.Module):
    """What the agent does: u = -L xh, xh' = A^ xh + B^ u + K (y - H^ xh) + E eta.

    If it senses a state before it acts on it (`Problem.sense_first`), xh' = p + K (y' - H^ p) +
    E eta with p = A^ xh + B^ u.

    **Attributes:**

    - `L` (T-1, controls, states): the control gains.
    - `K` (T-1, states, senses): the filter gains.
    - `believed`: the problem that the agent believes in, with its A^, B^ and H^.
    - `expected_cost`: the exact expected cost if the agent's beliefs are right.
      `motorcost.expected_cost` gives the expected cost in another world.
    - `converged`: whether the iterations of the solver converged.
    - `iterations`: the number of iterations from the start that led to this policy; for methods
      other than "alternation", from the alternation's result.
    - `iteration_costs`: the expected cost of the gains tried in each iteration, NaN after the last.
    - `minima`: the minima of the expected cost that were found, of which the policy is the lowest.

    Examples
    --------
    >>> policy.L.shape  # (step, control, state): u = -L xh
    (11, 1, 5)
    >>> print(f"{policy.expected_cost:.2e}")
    9.66e-03
    """

    L: Gains
    K: FilterGains
    believed: Problem
    expected_cost: Float[Array, "*batch"]
    iterations: Int[Array, "*batch"]
    converged: Bool[Array, "*batch"]
    iteration_costs: Float[Array, "max_iterations *batch"]
    minima: Minima

    def plot(self, states: Sequence[str] | None = None) -> "CaptionedFigure":
        """Draw the gains over time; see `mc.plots.plot_gains`."""
        from motorcost.plots.policies import plot_gains

        return plot_gains(self, states)

    def require_fit(self, problem: Problem) -> None:
        """Raise unless the gains have the shapes that this problem needs."""
        steps, n, m = problem.B.shape
        wanted = (steps, m, n), (steps, n, problem.H.shape[1])
        if (self.L.shape, self.K.shape) != wanted:
            raise InputError(
                f"the policy was solved for another problem: its L and K have shapes "
                f"{self.L.shape} and {self.K.shape}, this problem needs {wanted[0]} and {wanted[1]}"
            )
        if self.believed.sense_first != problem.sense_first:
            raise InputError(
                f"the policy was solved for a problem with sense_first={self.believed.sense_first},"
                f" this problem has sense_first={problem.sense_first}"
            )

    def __repr__(self) -> str:
        if not checks.is_concrete(self.converged) or self.converged.ndim:
            return f"Policy(L={self.L.shape}, K={self.K.shape})"
        verdict = "converged" if self.converged else "not converged"
        several = (
            f", the lowest of {int(self.minima.count)} minima" if self.minima.count > 1 else ""
        )
        return (
            f"Policy: expected cost {float(self.expected_cost):.10g}, {verdict} "
            f"after {int(self.iterations)} iterations{several}"
        )
