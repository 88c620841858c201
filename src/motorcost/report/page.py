"""Render a report from sections of text, tables and pictures."""

import base64
import re
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from io import BytesIO
from pathlib import Path

from jinja2 import Environment, PackageLoader
from matplotlib.figure import Figure

from motorcost.io import written_whole
from motorcost.io.files import printable
from motorcost.plots.style import CaptionedFigure


@dataclass(frozen=True)
class Picture:
    """A figure, with a description for readers who cannot see it (`alt`).

    If `alt` is left out, it is the first sentence of the figure's caption. The caption, if there is
    one, is shown below the figure.
    """

    figure: Figure
    alt: str = ""
    name: str = ""  # of the file that the figure is written to, without its suffix

    def __post_init__(self) -> None:
        if not self.alt:
            first, *_ = re.split(r"(?<=\.) (?=[A-Z])", self.caption)
            object.__setattr__(self, "alt", first)

    @property
    def caption(self) -> str:
        """What the figure says about itself; empty if it says nothing."""
        return self.figure.caption if isinstance(self.figure, CaptionedFigure) else ""

    @cached_property
    def png(self) -> bytes:
        """The figure as a PNG file."""
        buffer = BytesIO()
        with warnings.catch_warnings():
            # A subject's name may have letters that the font lacks: boxes are drawn instead.
            warnings.filterwarnings("ignore", "Glyph .* missing from font")
            self.figure.savefig(buffer, format="png", dpi=130)
        return buffer.getvalue()

    @property
    def data(self) -> str:
        """The PNG file in base 64, as it is embedded in the page."""
        return base64.b64encode(self.png).decode("ascii")


@dataclass(frozen=True)
class ImageFile:
    """A PNG file, with a description for readers who cannot see it (`alt`)."""

    path: Path
    alt: str
    caption: str = ""

    @property
    def data(self) -> str:
        """The file in base 64, as it is embedded in the page."""
        return base64.b64encode(self.path.read_bytes()).decode("ascii")


@dataclass(frozen=True)
class Table:
    """Rows of text. The header names the columns, the first cell of a row names the row."""

    header: Sequence[str]
    rows: Sequence[Sequence[str]]


@dataclass(frozen=True)
class Points:
    """A list of sentences."""

    lines: Sequence[str]


# What a section can show.
Content = Table | Picture | ImageFile | Points


@dataclass(frozen=True)
class Section:
    """A part of a report: a heading, a few sentences, and tables, pictures and lists."""

    title: str
    text: str
    content: Sequence[Content] = ()


def write_report(path: Path, title: str, lead: str, sections: Sequence[Section]) -> None:
    """Write a self-contained HTML page to `path`, whole or not at all. All text is escaped.

    `lead` is the paragraph below the title.
    """
    environment = Environment(loader=PackageLoader("motorcost.report", "."), autoescape=True)
    environment.tests["table"] = lambda item: isinstance(item, Table)
    environment.tests["points"] = lambda item: isinstance(item, Points)
    html = environment.get_template("page.html").render(title=title, lead=lead, sections=sections)
    with written_whole(path) as draft:
        draft.write_text(printable(html), encoding="utf-8")
