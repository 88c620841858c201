"""Take the picture of `motorcost explore` that the documentation shows.

Needs Debian's Chromium and Playwright: python docs/explore_picture.py
"""

import re
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

from playwright.sync_api import sync_playwright

HERE = Path(__file__).parent
SIZE = {"width": 1280, "height": 940}


def take(path: Path) -> None:
    """Serve the page, wait for its first movements, and save what the browser shows."""
    with tempfile.TemporaryDirectory() as folder:
        recordings = Path(folder) / "recordings"  # whose name the page shows
        recordings.mkdir()
        command = [sys.executable, "-m", "motorcost", "explore", str(recordings), "--no-browser"]
        served = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert served.stdout is not None
        found = re.search(r"http://\S+", served.stdout.readline())
        assert found is not None, "the page was not served"
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(
                executable_path=shutil.which("chromium"), args=["--no-sandbox"]
            )
            page = browser.new_page(viewport=SIZE)  # type: ignore[arg-type]
            page.goto(found.group())
            page.get_by_text("computed in").wait_for(timeout=300_000)
            page.wait_for_timeout(2000)  # until everything is drawn
            page.screenshot(path=path)
            browser.close()
        served.send_signal(signal.SIGINT)
        served.wait(60)


if __name__ == "__main__":
    take(HERE / "figures" / "explore.png")
