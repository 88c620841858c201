"""Maximum likelihood: objective, starts, optimisation, uncertainty."""
