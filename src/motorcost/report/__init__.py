"""One self-contained HTML page: text, tables and pictures, readable offline and in print."""

from motorcost.report.page import Picture, Section, Table, write_report

__all__ = ["Picture", "Section", "Table", "write_report"]
