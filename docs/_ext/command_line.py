"""The directive `commands`: every command of `motorcost`, from the program itself."""

import re
from collections.abc import Iterator
from typing import Any

import typer
from docutils import nodes
from sphinx.util.docutils import SphinxDirective

from motorcost.cli import app as program


def commands() -> dict[str, Any]:
    """By name, in alphabetical order."""
    group: Any = typer.main.get_command(program)
    return dict(sorted(group.commands.items()))


def described(name: str, command: Any) -> Iterator[str]:
    """A command as Markdown."""
    context = typer.Context(command, info_name=f"motorcost {name}")
    usage = " ".join([context.command_path, *command.collect_usage_pieces(context)])
    yield from (f"## {name}", "", _escaped(command.help or ""), "", "```text", usage, "```", "")
    epilog = re.sub(r"^Examples?: ", "", command.epilog or "")
    yield from ("Example:", "", "```sh", *epilog.split(" · "), "```", "")
    records = [parameter.get_help_record(context) for parameter in command.params]
    yield from _table("argument", [r for p, r in _pairs(command, records) if not _option(p)])
    yield from _table("option", [r for p, r in _pairs(command, records) if _option(p)])


def _pairs(command: Any, records: list[Any]) -> list[tuple[Any, Any]]:
    pairs = zip(command.params, records, strict=True)
    return [(parameter, record) for parameter, record in pairs if record is not None]


def _option(parameter: Any) -> bool:
    return parameter.param_type_name == "option"


def _table(title: str, records: list[tuple[str, str]]) -> Iterator[str]:
    if not records:
        return
    yield from (f"| {title} | |", "|---|---|")
    for name, text in records:
        yield f"| {_code(name)} | {_escaped(text)} |"
    yield ""


def _code(text: str) -> str:
    return "`" + text.replace("|", "\\|") + "`"


def _escaped(text: str) -> str:
    return re.sub(r"([|<*_\[])", r"\\\1", text)


class Commands(SphinxDirective):
    """Write the page of commands."""

    def run(self) -> list[nodes.Node]:
        """Parse what the program says of itself."""
        text = [line for name, command in commands().items() for line in described(name, command)]
        return self.parse_text_to_nodes("\n".join(text), allow_section_headings=True)


def setup(app: Any) -> dict[str, bool]:
    """Add the directive."""
    app.add_directive("commands", Commands)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
