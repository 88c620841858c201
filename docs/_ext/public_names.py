"""The public names in the reference: their docstrings, signatures and links between them."""

import inspect
from functools import cache
from typing import Any

from docstrings import as_rst

import motorcost

MODULES = ("tasks", "parts", "io", "plots", "datasets", "baselines")
# Classes that users make themselves; the others are results, whose arguments say nothing to them.
MADE_BY_USERS = (
    "Problem", "Observer", "ObserverSpec", "Movements", "Study", "Parameter", "Support", "Point",
    "Body", "Field", "Goal", "SignalDependentNoise", "Likelihood", "InputError",
)  # fmt: skip


@cache
def links() -> dict[str, str]:
    """By how docstrings write a name, its full name: `Fit`, `Fit.save`, `mc.solve`, `mc.io.read`.

    A function without `mc.` is not among them: `delay` is an argument in most places.
    """
    found: dict[str, str] = {}
    for name in motorcost.__all__:
        full = f"motorcost.{name}"
        value = getattr(motorcost, name)
        found |= {f"mc.{name}": full, full: full}
        if inspect.isclass(value):
            found[name] = full
            members = [key for key in vars(value) if not key.startswith("_")]
            documented = [key for key in members if _is_documented(vars(value)[key])]
            found |= {f"{prefix}{name}.{key}": f"{full}.{key}"
                      for key in documented for prefix in ("", "mc.")}  # fmt: skip
    for module in MODULES:
        for name in public(module):
            full = f"motorcost.{module}.{name}"
            found |= {f"mc.{module}.{name}": full, f"{module}.{name}": full}
    return found


def public(module: str) -> list[str]:
    """The public names of one of the modules that `motorcost` offers."""
    value = getattr(motorcost, module)
    if hasattr(value, "__all__"):
        return [name for name in value.__all__ if name != "Task"]
    own = {name: thing for name, thing in vars(value).items() if not name.startswith("_")}
    return [
        name
        for name, thing in own.items()
        if getattr(thing, "__module__", "") == value.__name__
        and (inspect.isclass(thing) or inspect.isfunction(thing))
    ]


def _is_documented(member: Any) -> bool:
    function = inspect.isroutine(member) or isinstance(member, property | staticmethod)
    return function and bool(inspect.getdoc(member))


def _docstring(app: Any, what: str, name: str, value: Any, options: Any, lines: list[str]) -> None:
    def link_of(text: str) -> str | None:
        text = text.removesuffix("()")
        full = links().get(text)
        return None if full == name else full

    lines[:] = as_rst(lines, link_of)


def _signature(
    app: Any, what: str, name: str, value: Any, options: Any, arguments: str, result: str
) -> tuple[str, str] | None:
    if what == "class" and name.rpartition(".")[2] not in MADE_BY_USERS:
        return "", ""
    return None


def setup(app: Any) -> dict[str, bool]:
    """Listen to autodoc."""
    app.connect("autodoc-process-docstring", _docstring, priority=400)  # before napoleon
    app.connect("autodoc-process-signature", _signature)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
