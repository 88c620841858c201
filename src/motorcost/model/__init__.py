"""The agent's problem and its solution (section 2 of the paper): problem, policy, simulation."""
