"""Run a function over many cells and repetitions: here or on workers, resumable, as one table.

- `run`: `sweep`, which decides what is still to be run and gathers the table.
- `request`: what a call of `sweep` asks for, checked.
- `cells`: the values that are swept, how rows are divided into batches, and their random keys.
- `calls`: calling the function on a batch, and distinguishing failures of a cell from bugs.
- `cluster`: running batches on Dask workers, on this machine or on a cluster; `local_workers`:
  the processes of this machine.
- `interrupts`: what a Ctrl-C does during a sweep.
- `table`: from the results of batches to one table.
- `folder`: what is kept on disk; `identity`: which function a folder belongs to.
- `progress`: how far a sweep is.
"""

from motorcost.sweeps.progress import SweepProgress
from motorcost.sweeps.run import sweep

__all__ = ["SweepProgress", "sweep"]
