"""Reading and writing behaviour, and fits.

In the order of reading:

- `reading`: `read`, for every format of the `registry`. `text` (with `columns`: errors that name
  the line) -> `tables`: from a table with a row for each sample to movements.
- `arrays`: NumPy and MATLAB files as a table, with `matlab` (`mat5`: whether a file is sound) and
  `hdf5` (the same of HDF5). `parquet` (with `thrift`), `nwb`, `c3d`, `eyelink`: other formats.
  `limits`: how much a file may unpack to.
- `datasets`: public recordings.
- `tidy`, `write`: tables of trials, in text and in other files.
- `fits`: saved fits, with `functions`: tasks and observers by name.
- `files`: files that are written whole or not at all. `locks`: one process at a time in a folder.
"""

from motorcost.io.files import check_folder, check_writable, written_whole
from motorcost.io.reading import read
from motorcost.io.registry import Format, formats
from motorcost.io.tables import from_frame
from motorcost.io.tidy import to_frame, write_csv
from motorcost.io.write import write_mat, write_npz, write_parquet

__all__ = [
    "Format",
    "check_folder",
    "check_writable",
    "formats",
    "from_frame",
    "read",
    "to_frame",
    "write_csv",
    "write_mat",
    "write_npz",
    "write_parquet",
    "written_whole",
]
