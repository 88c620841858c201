import pytest

from motorcost.cli import progress as module
from motorcost.cli.progress import Pace, showing_progress


def test_the_pace_is_measured_from_the_first_search_that_ended():
    pace = Pace()
    assert pace.left("searching", 0, 10, 0.0) is None
    assert pace.left("searching", 2, 10, 100.0) is None
    assert pace.left("searching", 4, 10, 110.0) == "about 30 s left"  # 5 s each, 6 to go
    assert pace.left("searching", 4, 10, 500.0) == "about 20 min left"
    assert pace.left("profiles", 3, None, 501.0) is None
    assert pace.left("searching", 5, 10, 502.0) is None  # another search


@pytest.mark.parametrize("standing", [None, "3 of 9 done"])
def test_lines_where_there_is_no_terminal(monkeypatch, capsys, standing):
    clock = iter([0.0, 5.0, 29.0, 31.0, 80.0])
    monkeypatch.setattr(module.time, "monotonic", lambda: next(clock))
    with showing_progress(quiet=False) as progress:
        for done in (0, 1, 2, 3, 8):
            progress("searching", done, 9, *([standing] if standing else []))
    lines = capsys.readouterr().err.splitlines()
    if standing:
        assert lines == ["searching: 3 of 9 done"] * 3
    else:
        assert lines == [
            "searching ...",
            "searching: 3 of 9 done, about 78 s left",
            "searching: 8 of 9 done, about 11 s left",
        ]
