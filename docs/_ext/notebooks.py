"""Notebooks that need recordings, and notebooks to download.

Recordings of others are not part of the repository. A notebook that reads them takes their folder
from the variable `MOTORCOST_DATA`, or from beside the checkout. Where it is absent the notebook is
shown without being executed, and the build says so.
"""

import os
import re
import shutil
from pathlib import Path
from typing import Any

from sphinx.util import logging

VARIABLE = "MOTORCOST_DATA"
DATA = Path("..", "shared", "data")  # from the top of the checkout
NOT_EXECUTED = """
:::{warning}
This page was built without the recordings that it reads, so its code was not executed and its
results are not shown.
:::
"""
# What a kernel would say of itself, for the colours of the code.
LANGUAGE = "language_info:\n  name: python\n  pygments_lexer: ipython3\n"
KERNEL = "kernelspec:\n"

logger = logging.getLogger(__name__)


def _without_data(app: Any, config: Any) -> None:
    docs = Path(app.srcdir)
    data = Path(os.environ.get(VARIABLE, docs.parent / DATA))
    if data.is_dir():
        return
    needing = reading_recordings(docs)
    logger.info(f"NOT EXECUTED, because {data} is absent: {', '.join(needing)}", color="red")
    app.needing_data = {name.removesuffix(".md") for name in needing}
    config.nb_execution_excludepatterns = [*config.nb_execution_excludepatterns, *needing]


def reading_recordings(docs: Path) -> list[str]:
    """The notebooks in a folder that read recordings."""
    pages = [page for page in docs.rglob("*.md") if "_build" not in page.parts]
    return sorted(str(page.relative_to(docs)) for page in pages if _reads_recordings(page))


def _reads_recordings(page: Path) -> bool:
    text = page.read_text("utf-8")
    return KERNEL in text and f'environ.get("{VARIABLE}"' in text


def _say_so(app: Any, page: str, source: list[str]) -> None:
    if page in getattr(app, "needing_data", ()):
        head, title, rest = re.split(r"(?m)^(# .*\n)", source[0], maxsplit=1)
        head = head.replace(KERNEL, LANGUAGE + KERNEL, 1)
        source[0] = head + title + NOT_EXECUTED + rest


def _offer(app: Any, page: str, template: str, context: dict[str, Any], doctree: Any) -> None:
    """Put a copy of the notebook beside its page, for the link in the side bar."""
    made = Path(app.outdir).parent / "jupyter_execute" / f"{page}.ipynb"
    if app.builder.name == "html" and made.is_file():
        copy = Path(app.outdir, f"{page}.ipynb")
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(made, copy)
        context["notebook"] = copy.name


def setup(app: Any) -> dict[str, bool]:
    """Before, while and after pages are read."""
    app.connect("config-inited", _without_data, priority=100)  # before myst-nb reads it
    app.connect("source-read", _say_so)
    app.connect("html-page-context", _offer)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
