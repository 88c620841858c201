"""The agent's problem and its solution (section 2 of the paper), in the order of reading.

- `problem`: the world, the senses, the cost and the start.
- `delay`: a problem with delayed senses.
- `policy`: the gains that an agent uses.
- `half_steps`: parts of a step of the passes. `passes`: the backward and the forward pass, which
  give either gain from the other.
- `alternation`: iterate both passes until the gains converge.
- `descent`: policies that take the noise in the agent's estimate into account.
- `minima`: the lowest of the minima to which several starts lead.
- `solver`: find the policy; derivatives of the gains.
- `joint`, `moments`: world and agent as one system; its exact moments and expected cost.
  `sources`: what each noise, the start and the aim contribute to its covariance.
- `observer`: what the experimenter records.
- `trials`: recorded or simulated behaviour, with `grid` (samples placed on the time grid of a
  model), `units` (conversion) and `joining` (sets of trials joined).
- `simulate`: trials of a policy in a world.
"""
