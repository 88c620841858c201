"""Numerical tools that know nothing of control, in the order of reading.

- `linalg`: products, factors and solutions of many small matrices at once.
- `linear_equations`: solve a linear equation of which only the product with a vector is known.
- `anderson`: find a fixed point x = g(x) in fewer evaluations of g.
- `compiling`: compile large programs in less time.

Arrays have their batch (parameter sets or trials that are computed together) on the last axes.
"""
