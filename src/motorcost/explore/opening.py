"""The part of the page that opens recordings and studies."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import panel as pn

from motorcost.explore.recordings import (
    DATA,
    STUDY,
    Folder,
    Recording,
    open_data,
    open_study,
    uploaded,
)
from motorcost.study.named_texts import pairs

_NONE = "none: simulated movements only"


class Opener:
    """Widgets that choose a file, and say how it is read.

    `chosen` is called with a function that opens what was chosen (it may take long), or with None
    for no recording.
    """

    def __init__(
        self, folder: Folder, chosen: Callable[[Callable[[str], Recording] | None], None]
    ) -> None:
        self._folder, self._listed, self._chosen = folder, folder.files(), chosen
        self._last: Callable[[str], Recording] | None = None
        self._is_study = False
        self._named = _NONE
        wide = {"sizing_mode": "stretch_width"}
        self.files = pn.widgets.Select(
            name=f"Recording or study in {folder.root.name or folder.root}",
            options=self._options(),
            **wide,
        )
        self.upload = pn.widgets.FileInput(accept=",".join(DATA), multiple=False, **wide)
        self.trial = pn.widgets.TextInput(name="Column that numbers trials", value="trial", **wide)
        self.time = pn.widgets.TextInput(name="Column of times", value="time", **wide)
        self.time_unit = pn.widgets.Select(name="Unit of times", options=["s", "ms", "us"], **wide)
        self.channels = pn.widgets.TextInput(
            name="Columns that are states", placeholder="position=x, velocity=v", **wide
        )
        self.units = pn.widgets.TextInput(name="Their units", placeholder="position=mm", **wide)
        self.again = pn.widgets.Button(name="Read it so", **wide)
        self.files.param.watch(self._from_folder, "value")
        self.upload.param.watch(self._from_browser, "value")
        self.again.on_click(lambda _: self._last and self._chosen(self._last))
        self.card = pn.Card(
            self.files,
            pn.pane.HTML("<label>or a file of yours</label>", margin=(0, 10)),
            self.upload,
            pn.Card(
                self.trial,
                self.time,
                self.time_unit,
                self.channels,
                self.units,
                self.again,
                title="How it is read",
                collapsed=True,
                **wide,
            ),
            title="Data",
            margin=(4, 0),
            **wide,
        )

    def open(self, name: str) -> None:
        """Open a file of the folder, by its relative path."""
        self._ask(lambda task: self._open(name, task), is_study=name.lower().endswith(STUDY))

    def name_data(self, name: str | None) -> None:
        """Show the name of the data that the page works with, wherever they came from; None for
        none."""
        self._named = _NONE if name is None else name
        self.files.param.update(options=self._options(), value=self._named)

    def _options(self) -> list[str]:
        """What can be chosen: no data, those that are here, the files of the folder."""
        return list(dict.fromkeys([_NONE, self._named, *self._listed]))

    @property
    def for_another_task(self) -> Callable[[str], Recording] | None:
        """What reads the last recording for another task; None for a study, which has its own."""
        return None if self._is_study else self._last

    def _from_folder(self, event: Any) -> None:
        if event.new == self._named:
            return
        if event.new == _NONE:
            self._last = None
            self._chosen(None)
        else:
            self.open(event.new)

    def _from_browser(self, event: Any) -> None:
        if event.new is not None and self.upload.filename:  # none where the browser took it back
            name, content = self.upload.filename, event.new
            self._ask(lambda task: uploaded(name, content, task, self._reading()))

    def _ask(self, opening: Callable[[str], Recording], *, is_study: bool = False) -> None:
        self._last, self._is_study = opening, is_study
        self._chosen(opening)

    def _open(self, name: str, task_name: str) -> Recording:
        path = self._folder.path(name)
        if path.suffix.lower() == STUDY:
            return open_study(path, self._folder, name)
        return open_data(path, task_name, self._reading(), name=name)

    def _reading(self) -> dict[str, Any]:
        """Options of `mc.io.read`."""
        options: dict[str, Any] = {
            "trial": self.trial.value,
            "time": self.time.value,
            "time_unit": self.time_unit.value,
        }
        for name, widget in (("channels", self.channels), ("units", self.units)):
            if widget.value.strip():
                example = "names and what they stand for, as in position=x, velocity=v"
                options[name] = pairs(widget.name, [widget.value], example)
        return options


def listed(path: Path, folder: Folder) -> str:
    """The name by which a folder lists a file."""
    return path.resolve().relative_to(folder.root).as_posix()
