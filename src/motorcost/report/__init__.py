"""Reports: self-contained HTML pages of text, tables and pictures.

In the order of reading:

- `page`: render a report from sections. `readme`: README.md of a folder of results.
- `fitted`: the report of a fit, with sections from `preparation`, `checks`, `differences` and
  `plane`.
- `design`, `posterior`: the folders of a design and of a posterior.
"""

from motorcost.report.fitted import fit_sections, write_fit, write_result
from motorcost.report.page import Picture, Points, Section, Table, write_report
from motorcost.study.result import compare_results, read_result, result_of

__all__ = [
    "Picture",
    "Points",
    "Section",
    "Table",
    "compare_results",
    "fit_sections",
    "read_result",
    "result_of",
    "write_fit",
    "write_report",
    "write_result",
]
