"""`python -m motorcost` is the console script."""

from motorcost.cli import main

main()
