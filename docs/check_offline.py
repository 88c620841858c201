"""Check that the built site needs no network: `python docs/check_offline.py docs/_build/html`.

No page may load a script, a style, a font or a picture from elsewhere. Links that a reader follows
may lead anywhere. Where Chromium and Playwright are installed, the search of the site is tried too,
with its pages opened as files.
"""

import re
import shutil
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
# What the search is tried with, and milliseconds to wait for its first result.
SEARCHED = "effort"
PATIENCE = 60_000
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


def search_finds(site: Path, word: str) -> bool | None:
    """Whether the site's own search finds something, in a browser without a server or a network;
    None if there is no browser."""
    chromium = shutil.which("chromium")
    try:
        from playwright.sync_api import TimeoutError, sync_playwright
    except ImportError:
        return None
    if chromium is None:
        return None
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        page = browser.new_page(offline=True)
        page.goto(f"{(site.resolve() / 'search.html').as_uri()}?q={word}")
        try:
            page.locator("#search-results li a").first.wait_for(timeout=PATIENCE)
        except TimeoutError:
            return False
        return True


def main(folder: str) -> None:
    """Print what the site has, or exit with what it loads."""
    site = Path(folder)
    pages = list(site.rglob("*.html"))
    size = sum(file.stat().st_size for file in site.rglob("*") if file.is_file())
    if not pages:
        sys.exit(f"{site}: no pages")
    if found := list(problems(site)):
        sys.exit("\n".join(found))
    is_found = search_finds(site, SEARCHED)
    if is_found is False:
        sys.exit(f"{site}: the search for {SEARCHED} finds nothing")
    searched = "was not tried, there is no browser" if is_found is None else "works"
    print(f"{site}: the search {searched}")
    print(f"{site}: {len(pages)} pages, {size / 1e6:.1f} MB, nothing loaded from the network")


if __name__ == "__main__":
    main(sys.argv[1])
