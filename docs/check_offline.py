"""Check that the built site needs no network: `python docs/check_offline.py docs/_build/html`.

No page may load a script, a style, a font or a picture from elsewhere. Links that a reader follows
may lead anywhere.
"""

import re
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path

REMOTE = re.compile(r"\s*(https?:)?//", re.IGNORECASE)
IN_STYLES = re.compile(r"(?:url\(|@import)\s*[\"']?\s*((?:https?:)?//[^\"')\s]+)", re.IGNORECASE)
LOADING = {
    "audio", "embed", "iframe", "image", "img", "input", "link", "object", "script", "source",
    "track", "use", "video",
}  # fmt: skip
ADDRESSES = ("src", "href", "data", "poster", "srcset", "xlink:href")
# Links in the head that are only names of other pages.
HARMLESS = {"author", "canonical", "help", "index", "license", "next", "prev", "search"}


class Loaded(HTMLParser):
    """Collects the addresses in `remote` that a page loads from elsewhere."""

    def __init__(self) -> None:
        super().__init__()
        self.remote: list[str] = []
        self.in_style = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Look at what an element loads."""
        given = {name: value or "" for name, value in attrs}
        self.in_style = tag == "style"
        self.remote += IN_STYLES.findall(given.get("style", ""))
        if tag in LOADING and not set(given.get("rel", "").split()) & HARMLESS:
            self.remote += [given[name] for name in ADDRESSES if REMOTE.match(given.get(name, ""))]

    def handle_data(self, data: str) -> None:
        """Look at a style inside a page."""
        if self.in_style:
            self.remote += IN_STYLES.findall(data)


def remote_resources(file: Path) -> list[str]:
    """What a page or a style sheet loads from elsewhere."""
    text = file.read_text("utf-8")
    if file.suffix == ".css":
        return IN_STYLES.findall(text)
    page = Loaded()
    page.feed(text)
    return page.remote


def problems(site: Path) -> Iterator[str]:
    """A line for each address that a file of the site loads from elsewhere."""
    for file in sorted([*site.rglob("*.html"), *site.rglob("*.css")]):
        for address in remote_resources(file):
            yield f"{file.relative_to(site)}: loads {address}"


def main(folder: str) -> None:
    """Print what the site has, or exit with what it loads."""
    site = Path(folder)
    pages = list(site.rglob("*.html"))
    size = sum(file.stat().st_size for file in site.rglob("*") if file.is_file())
    if not pages:
        sys.exit(f"{site}: no pages")
    if found := list(problems(site)):
        sys.exit("\n".join(found))
    print(f"{site}: {len(pages)} pages, {size / 1e6:.1f} MB, nothing loaded from the network")


if __name__ == "__main__":
    main(sys.argv[1])
