"""Reading and writing behaviour."""

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
