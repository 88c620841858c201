"""Numerical tools: small matrices in batches, compilation, fixed points."""
