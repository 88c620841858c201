"""README.md of a folder of results: what each file is, how it was made, and what to cite."""

from collections.abc import Mapping
from datetime import datetime
from importlib.metadata import version

from motorcost.io.files import printable
from motorcost.references import citation
from motorcost.study.folder import README, REPORT
from motorcost.study.result import FORMAT, RESULT

_TEMPLATE = """\
# {title}

motorcost {version} wrote this folder on {date}, {how}

## Files

{files}

A fit that was interrupted beside a finished one leaves `interrupted.json`, from which the same
command goes on. All files above are replaced together by the next fit into this folder. Other
files are left as they are.

## How to cite

{citation}"""

_FILES = {
    RESULT: f"estimates, errors, checks, settings and versions for programs: JSON, format {FORMAT}",
    REPORT: "the report for people: one page that needs no other file",
    README: "this text",
}


def readme_text(title: str, figures: Mapping[str, str], command: str | None) -> str:
    """Return the text of README.md.

    - `figures`: by path in the folder, what each figure shows.
    - `command`: the command that wrote the folder; None if it was written from Python.
    """
    date = datetime.now().astimezone().isoformat(" ", "seconds")
    how = "from Python." if command is None else f"by the command\n\n    {command}"
    files = [f"- `{name}`: {about}" for name, about in {**_FILES, **figures}.items()]
    return printable(
        _TEMPLATE.format(
            title=" ".join(title.split()),
            version=version("motorcost"),
            date=date,
            how=how,
            files="\n".join(files),
            citation=citation(),
        )
    )
