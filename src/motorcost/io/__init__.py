"""Reading and writing behaviour."""

from motorcost.io.files import check_writable, written_whole
from motorcost.io.tidy import to_frame, write_csv

__all__ = ["check_writable", "to_frame", "write_csv", "written_whole"]
