"""Formulas as MathML, which browsers draw themselves: no script and no network.

latex2mathml converts them; a formula that it cannot convert is a warning. The font, STIX Two Math,
is the one that ziamath brings: many systems have no font with the measures that formulas need.
"""

import re
from importlib.resources import as_file, files
from pathlib import Path
from typing import Any

from docutils import nodes
from fontTools.ttLib import TTFont
from latex2mathml.converter import convert
from sphinx.util import logging
from sphinx.util.math import get_node_equation_number

FONT = Path("_static", "STIXTwoMath-Regular.woff")

logger = logging.getLogger(__name__)


def converted(code: str, *, block: bool) -> str:
    """The MathML of a formula in LaTeX."""
    # Equations are numbered by Sphinx, so environments are those without numbers.
    code = re.sub(
        r"\\(begin|end)\{(?:align|aligned|gather|gathered|split)\}", r"\\\1{align*}", code
    )
    code = re.sub(r"\\(?:begin|end)\{equation\*?\}", "", code)
    return convert(code.strip(), display="block" if block else "inline")


def _converted(node: nodes.TextElement, *, block: bool) -> str:
    try:
        return converted(node.astext(), block=block)
    except Exception as error:  # latex2mathml has no common class of errors
        logger.warning(f"formula: {type(error).__name__} {error}", location=node, type="mathml")
        return ""


def _inline(writer: Any, node: nodes.math) -> None:
    writer.body.append(_converted(node, block=False))
    raise nodes.SkipNode


def _display(writer: Any, node: nodes.math_block) -> None:
    writer.body.append(writer.starttag(node, "div", CLASS="math"))
    writer.body.append(_converted(node, block=True))
    if node.get("number"):
        number = get_node_equation_number(writer, node)
        writer.body.append(f'<span class="eqno">({number})</span>')
    writer.body.append("</div>\n")
    raise nodes.SkipNode


def _add_font(app: Any, error: Exception | None) -> None:
    target = Path(app.outdir) / FONT
    if error is None and app.builder.format == "html" and not target.exists():
        with as_file(files("ziamath") / "fonts" / "STIXTwoMath-Regular.ttf") as source:
            font = TTFont(source)
            font.flavor = "woff"
            font.save(target)


def setup(app: Any) -> dict[str, bool]:
    """Add the renderer `mathml`."""
    app.add_html_math_renderer("mathml", (_inline, None), (_display, None))
    app.connect("build-finished", _add_font)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
