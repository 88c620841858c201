from html.parser import HTMLParser

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from motorcost.demo import run
from motorcost.report import Picture, Section, Table, write_report


class Page(HTMLParser):
    def __init__(self, html):
        super().__init__()
        self.tags, self.images, self.text = [], [], ""
        self.feed(html)

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        if tag == "img":
            self.images.append(dict(attrs))

    def handle_data(self, data):
        self.text += data


def test_page_is_self_contained_and_escaped(tmp_path):
    figure = Figure()
    figure.subplots().plot([1, 2])
    evil = "<script>alert('x')</script>"
    write_report(
        tmp_path / "r.html",
        evil,
        evil,
        [Section(evil, evil, [Table((evil,), [(evil,)]), Picture(figure, evil)])],
    )
    page = Page((tmp_path / "r.html").read_text())
    assert "script" not in page.tags
    assert page.text.count(evil) == 7
    (image,) = page.images
    assert image["alt"] == evil
    assert image["src"].startswith("data:image/png;base64,iVBOR")
    assert "link" not in page.tags


def test_demo_writes_a_report_and_its_trials(tmp_path, capsys):
    run(tmp_path / "demo", n_trials=200)
    out = capsys.readouterr().out
    assert "report.html" in out
    page = Page((tmp_path / "demo" / "report.html").read_text())
    assert len(page.images) == 7
    assert all(image["alt"] for image in page.images)
    for name in ("reaching", "saccade", "tracking", "random problem", "unaware of own noise"):
        assert name in page.text
    frame = pd.read_csv(tmp_path / "demo" / "trials.csv")
    assert len(frame) == 100 * 30
    assert np.isfinite(frame.to_numpy()).all()
