"""Serving the page on this machine only."""

from __future__ import annotations

import socket
from collections.abc import Callable, MutableSet
from html import escape
from pathlib import Path
from urllib.parse import urlencode

import panel as pn
from bokeh.server.server import Server
from tornado.web import RequestHandler

from motorcost.errors import InputError
from motorcost.explore.opening import listed
from motorcost.explore.page import Page
from motorcost.explore.recordings import MOST_BYTES, Folder
from motorcost.explore.workers import FitSlot

ADDRESS = "127.0.0.1"
PORT = 5006
# Further ports that are tried, if that one is taken.
_TRIES = 20
# Seconds to wait at the end for a program that is being compiled.
_PATIENCE = 30.0
# Hosts by which this machine calls itself. A page of another site that points its own name at this
# machine would send that name, and is refused.
_OTHER_HOSTS = r"(?!(?:127\.0\.0\.1|localhost)$).*"
# On a small screen the pictures come first.
_STYLE = "@media (max-width: 800px) { .explore-controls { order: 2; } }"
# The headers of tabs take the focus, but answer to clicks only. A file that is too large would end
# the connection to the page.
_SCRIPT = """<script>
document.addEventListener("keydown", event => {
  const header = event.composedPath()[0];
  if (!header.classList?.contains("bk-tab") || !["Enter", " "].includes(event.key)) return;
  event.preventDefault();
  header.click();
});
document.addEventListener("input", event => {
  const field = event.composedPath()[0];
  const file = field.type == "file" ? field.files[0] : null;
  if (!file || file.size <= MOST_BYTES) return;
  field.value = "";
  alert(`${file.name} is larger than MOST_MB MB: put it into the folder of the page instead.`);
}, {capture: true});
</script>""".replace("MOST_BYTES", str(MOST_BYTES)).replace("MOST_MB", str(MOST_BYTES // 2**20))


class _Refused(RequestHandler):
    """Answers requests that were meant for another host."""

    def prepare(self) -> None:
        """Refuse whatever is asked for."""
        self.set_status(403)
        self.finish("motorcost explore answers to 127.0.0.1 and localhost only")


def make_server(
    folder: Folder, first: str | None, port: int | None, pages: MutableSet[Page]
) -> Server:
    """A server of the page, not started yet.

    - `folder`: whose files may be opened; `first`: the file to begin with.
    - `port`: where it listens; one that is free if left out.
    - `pages`: gets the pages that are open.
    """
    pn.extension()
    port, slot = _free_port() if port is None else port, FitSlot()
    server = pn.serve(
        {"/": lambda: _page(folder, slot, first, pages)},
        address=ADDRESS,
        port=port,
        websocket_origin=[f"{ADDRESS}:{port}", f"localhost:{port}"],
        title="motorcost explore",
        show=False,
        start=False,
        verbose=False,
        websocket_max_message_size=2 * MOST_BYTES,
        http_server_kwargs={"max_buffer_size": 2 * MOST_BYTES},
    )
    server._tornado.add_handlers(_OTHER_HOSTS, [(r".*", _Refused)])
    return server


def serve(
    folder: Folder, first: str | None, port: int | None, ready: Callable[[str], None]
) -> None:
    """Serve the page until interrupted. `ready` is called with its address."""
    pages: MutableSet[Page] = set()
    server = make_server(folder, first, port, pages)
    server.start()
    ready(f"http://{ADDRESS}:{server.port}/")
    try:
        server.io_loop.start()
    finally:
        # Python ends by aborting, with a message of the C library, while a thread is in XLA.
        for page in pages:
            page.close()
        for page in pages:
            page.join(_PATIENCE)


def _free_port() -> int:
    """The first port from the usual one that nobody listens at."""
    for port in range(PORT, PORT + _TRIES):
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((ADDRESS, port))
            except OSError:
                continue
            return port
    raise InputError(f"the ports {PORT} to {PORT + _TRIES - 1} are all taken: choose one, --port")


def _page(
    folder: Folder, slot: FitSlot, first: str | None, pages: MutableSet[Page]
) -> pn.template.BootstrapTemplate:
    """The page for one tab of a browser."""
    asked, dark = _argument("file"), _argument("theme") == "dark"
    template = pn.template.BootstrapTemplate(
        title="motorcost explore", theme="dark" if dark else "default", busy_indicator=None
    )
    other = "light" if dark else "dark"
    address = escape(urlencode({"theme": other} | ({"file": asked} if asked else {})))
    link = f'<a style="color:white" href="?{address}">{other}</a>'
    template.header.append(pn.pane.HTML(link + _SCRIPT))
    page = Page(folder, slot, dark=dark)
    pages.add(page)

    def closed(_: object) -> None:
        pages.discard(page)
        page.close()

    pn.state.on_session_destroyed(closed)
    template.main.append(
        pn.FlexBox(
            pn.Column(
                page.controls(),
                styles={"flex": "1 1 280px", "max-width": "420px"},
                css_classes=["explore-controls"],
                margin=0,
            ),
            pn.Column(
                *page.pictures(),
                styles={"flex": "4 1 500px", "min-width": "0"},
                margin=0,
            ),
            stylesheets=[_STYLE],
            gap="16px",
        )
    )
    pn.state.onload(lambda: page.begin(asked or first or ""))
    return template


def _argument(name: str) -> str:
    """An argument of the address that the browser asked for; "" if it has none."""
    values = pn.state.session_args.get(name, [])
    return values[0].decode(errors="replace") if values else ""


def folder_of(path: Path | None, folder: Path | None) -> tuple[Folder, str | None]:
    """The folder that a page may open, and the file that it begins with.

    - `path`: a file to begin with, or a folder; `folder`: the folder, if not the file's own.
    """
    if path is not None and path.is_dir() and folder is None:
        return Folder(path), None
    if path is not None and not path.is_file():
        raise InputError(f"there is no file {path}")
    root = folder or (Path() if path is None else path.parent)
    if not root.is_dir():
        raise InputError(f"there is no folder {root}")
    held = Folder(root)
    if path is None:
        return held, None
    if not path.resolve().is_relative_to(held.root):
        raise InputError(f"{path} is not in the folder {root}")
    name = listed(path, held)
    held.path(name)
    return held, name
