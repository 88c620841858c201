"""What can be known of problems before a program is compiled for them."""

from typing import NamedTuple


class Structure(NamedTuple):
    """What is known of all problems that a program will see; None where nothing is.

    - `rank`: the number of directions in which a complete sample can differ from its prediction,
      at most (`fully_observed.innovation_rank`).
    - `varying`: the entries of z = (x, xh) that can vary (`joint.can_vary`). The others, a target
      for instance, are rows and columns of zeros in every covariance.

    A program that is given too little says so: its log likelihoods are -inf.
    """

    rank: int | None = None
    varying: tuple[int, ...] | None = None


UNKNOWN = Structure()
