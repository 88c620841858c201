"""How long a slider's change takes until it is seen, in a real browser: `motorcost explore`.

    python benchmarks/slider.py [PRESSES] [--recording]

serves the page, opens it in headless Chromium (Debian's; software rendering), and presses an arrow
key on a slider of the reaching task again and again. Everything is timed inside the page, by its
own clock: from the key to the message that leaves, to the new data of the picture, and to the frame
after these data were drawn. The load of the machine is printed with it, since Chromium and the
server share its cores with whatever else runs. With `--recording` 20 simulated movements are open
as a recording, so that the log likelihood and its slices are computed for each change too.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from argparse import ArgumentParser
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
from playwright.sync_api import Page, sync_playwright

PRESSES = 60
# Milliseconds between the picture of one key and the next key.
PAUSE = 150
# Milliseconds after which a change is given up.
PATIENCE = 120_000

# A recording of positions.
_SIMULATED = ("simulate", "reaching", "--trials=20", "--observe=position", "--noise=1e-3")

# Run before the page's own scripts: notes when messages leave and arrive.
_MESSAGES = """
window.timed = {messages: []};
window.WebSocket = class extends WebSocket {
  constructor(...args) {
    super(...args);
    this.addEventListener("message", event => window.timed.messages.push(
      {at: performance.now(), bytes: event.data.size ?? event.data.byteLength ?? event.data.length}
    ));
  }
  send(data) {
    if (window.timed.sent == null) window.timed.sent = performance.now();
    super.send(data);
  }
};
"""
# Notes when a key is pressed, and when the mean course that is drawn above the others is new.
_MARKS = """() => {
  const timed = window.timed;
  timed.await = () => { timed.done = new Promise(seen => timed.seen = seen); };
  document.addEventListener("keydown", () => {
    timed.messages = [];
    timed.sent = timed.data = timed.painted = null;
    timed.key = performance.now();
  }, {capture: true});
  const plots = [...Bokeh.documents[0]._all_models.values()];
  const course = plots.find(model => model.type == "Figure" && model.name == "course");
  const source = course.renderers.map(r => r.data_source).find(s => s?.data.mean);
  source.properties.data.change.connect(() => {
    if (timed.data != null) return;
    timed.data = performance.now();
    // A task that is queued in a frame's callback runs after that frame was drawn.
    requestAnimationFrame(() => requestAnimationFrame(() => {
      const channel = new MessageChannel();
      channel.port1.onmessage = () => {
        timed.painted = performance.now();
        timed.seen();
      };
      channel.port2.postMessage(0);
    }));
  });
}"""


@contextmanager
def served(has_recording: bool) -> Iterator[str]:
    """The address of the page, served by a process of its own, perhaps with a recording."""
    with tempfile.TemporaryDirectory() as folder:
        motorcost = [sys.executable, "-m", "motorcost"]
        path = f"{folder}/reaches.csv" if has_recording else folder
        if has_recording:
            subprocess.run([*motorcost, *_SIMULATED, "-o", path], check=True, capture_output=True)
        command = [*motorcost, "explore", path, "--no-browser"]
        server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert server.stdout is not None
        try:
            found = re.search(r"http://127\.0\.0\.1:\d+/", server.stdout.readline())
            assert found, "the page was not served"
            yield found.group()
        finally:
            server.send_signal(signal.SIGINT)
            server.wait(60)


def pressed(page: Page, key: str) -> dict[str, float]:
    """Press a key on the slider that has the focus: milliseconds until ... and bytes."""
    page.evaluate("window.timed.await()")
    page.keyboard.press(key)
    page.evaluate("window.timed.done")  # a promise: nothing asks meanwhile
    timed = page.evaluate("window.timed")
    computed = re.search(r"computed in (\d+) ms", page.get_by_text("computed in").inner_text())
    page.wait_for_timeout(PAUSE)
    assert computed
    return {
        "sent": timed["sent"] - timed["key"],
        "first message": timed["messages"][0]["at"] - timed["key"],
        "data": timed["data"] - timed["key"],
        "painted": timed["painted"] - timed["key"],
        "computing": float(computed.group(1)),
        "messages": len(timed["messages"]),
        "kB": sum(message["bytes"] or 0 for message in timed["messages"]) / 1000,
    }


def measured(address: str, presses: int, has_recording: bool) -> list[dict[str, float]]:
    """Each press of a key, but for the first."""
    with sync_playwright() as playwright:
        chromium = shutil.which("chromium")
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 1280, "height": 900})
        page.add_init_script(_MESSAGES)
        page.goto(address, timeout=PATIENCE)
        page.get_by_text("computed in").wait_for(timeout=PATIENCE)
        if has_recording:
            page.locator(".bk-tab", has_text="Likelihood and fit").click()
            page.get_by_text("Log likelihood of").wait_for(timeout=PATIENCE)
            page.locator(".bk-tab", has_text="Movements").click()
        page.evaluate(_MARKS)
        group = page.locator(".bk-input-group", has_text=re.compile("^effort"))
        group.locator(".noUi-handle").focus()
        rows = [
            pressed(page, "ArrowRight" if i < presses / 2 else "ArrowLeft")
            for i in range(presses + 1)
        ]
        browser.close()
    return rows[1:]


def main() -> None:
    parser = ArgumentParser()
    parser.add_argument("presses", type=int, nargs="?", default=PRESSES)
    parser.add_argument("--recording", action="store_true")
    given = parser.parse_args()
    presses = given.presses
    before = os.getloadavg()[0]
    with served(given.recording) as address:
        rows = measured(address, presses, given.recording)
    print(
        f"{presses} changes; load {before:.1f} before, {os.getloadavg()[0]:.1f} after, "
        f"{os.cpu_count()} cores"
    )
    print(f"{'ms from the key until':<30}{'median':>8}{'90 %':>8}")
    for name in rows[0]:
        values = [row[name] for row in rows]
        print(f"{name:<30}{np.median(values):8.1f}{np.quantile(values, 0.9):8.1f}")


if __name__ == "__main__":
    main()
