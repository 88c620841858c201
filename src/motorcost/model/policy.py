"""The agent's policy: control gains, filter gains, and the problem that the agent believes in."""

import equinox as eqx
from jaxtyping import Array, Bool, Float, Int

from motorcost import checks
from motorcost.errors import InputError
from motorcost.model.problem import Problem

Gains = Float[Array, "steps m n *batch"]
FilterGains = Float[Array, "steps n k *batch"]


class Policy(eqx.Module):
    """What the agent does: u = -L xh, xh' = A^ xh + B^ u + K (y - H^ xh) + E eta.

    **Attributes:**

    - `L` (T-1, controls, states): the control gains.
    - `K` (T-1, states, senses): the filter gains.
    - `believed`: the problem that the agent believes in, with its A^, B^ and H^.
    - `expected_cost`: the exact expected cost if the agent's beliefs are right.
      `motorcost.expected_cost` gives the expected cost in another world.
    - `converged`: whether the iterations of the solver converged.
    - `iterations`: the number of iterations.
    - `iteration_costs`: the expected cost of the gains tried in each iteration, NaN after the last.
    """

    L: Gains
    K: FilterGains
    believed: Problem
    expected_cost: Float[Array, "*batch"]
    iterations: Int[Array, "*batch"]
    converged: Bool[Array, "*batch"]
    iteration_costs: Float[Array, "max_iterations *batch"]

    def require_fit(self, problem: Problem) -> None:
        """Raise unless the gains have the shapes that this problem needs."""
        steps, n, m = problem.B.shape
        wanted = (steps, m, n), (steps, n, problem.H.shape[1])
        if (self.L.shape, self.K.shape) != wanted:
            raise InputError(
                f"the policy was solved for another problem: its L and K have shapes "
                f"{self.L.shape} and {self.K.shape}, this problem needs {wanted[0]} and {wanted[1]}"
            )

    def __repr__(self) -> str:
        if not checks.is_concrete(self.converged) or self.converged.ndim:
            return f"Policy(L={self.L.shape}, K={self.K.shape})"
        verdict = "converged" if self.converged else "not converged"
        return (
            f"Policy: expected cost {float(self.expected_cost):.10g}, {verdict} "
            f"after {int(self.iterations)} iterations"
        )
