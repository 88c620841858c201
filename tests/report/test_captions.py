"""Pictures of a report are described by their own captions."""

from matplotlib.figure import Figure

from made import made_analysis, made_fit, made_profile, recorded
from motorcost.report.fitted import fit_sections
from motorcost.report.page import Picture, Section, write_report


def test_captions_are_those_of_the_figures(tmp_path):
    fit = made_fit(["effort", "force"], recorded())
    profiles = [made_profile(fit, name) for name in fit.names]
    sections = list(fit_sections(made_analysis(fit, profiles=profiles)))
    pictures = [item for part in sections for item in part.content if isinstance(item, Picture)]
    assert {"estimates", "data-and-model", "profiles"} <= {picture.name for picture in pictures}
    for picture in pictures:
        assert picture.caption == picture.figure.caption != ""
        assert picture.caption.startswith(picture.alt)
        assert picture.alt.endswith(".")


def test_a_caption_is_shown_below_its_picture(tmp_path, without_drawing):
    captioned = Picture(made_fit(["effort"], recorded()).plot(), "a < b")
    other = Picture(Figure(), "no caption")
    write_report(tmp_path / "r.html", "title", "lead", [Section("s", "t", [captioned, other])])
    page = (tmp_path / "r.html").read_text()
    assert page.count("<figcaption>") == 1
    assert f"<figcaption>{captioned.figure.caption}</figcaption>".replace("'", "&#39;") in page
    assert 'alt="a &lt; b"' in page
