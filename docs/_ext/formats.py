"""The directive `formats`: the formats that are read, from the registry."""

from typing import Any

from docutils import nodes
from sphinx.util.docutils import SphinxDirective

from motorcost import io


def table() -> str:
    """The formats as a table in Markdown."""
    rows = ["| format | endings | what is read | needs |", "|---|---|---|---|"]
    for format in io.formats():
        endings = ", ".join(f"`{ending}`" for ending in format.endings)
        needs = f"`motorcost[{format.extra}]`" if format.extra else ""
        rows.append(f"| `{format.name}` | {endings} | {format.about} | {needs} |")
    return "\n".join(rows)


class Formats(SphinxDirective):
    """Write the table of formats."""

    def run(self) -> list[nodes.Node]:
        """Parse it."""
        return self.parse_text_to_nodes(table())


def setup(app: Any) -> dict[str, bool]:
    """Add the directive."""
    app.add_directive("formats", Formats)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
