"""What movements in the plane look like, recorded and in the model."""

from collections.abc import Iterator

from motorcost.plots import is_planar, plot_paths, plot_targets
from motorcost.report.page import Picture, Section
from motorcost.study.analysis import Analysis


def plane_section(analysis: Analysis) -> Iterator[Section]:
    """Paths, and maps of speed and curvature, for trials that were recorded in the plane."""
    if analysis.adequacy is None or not is_planar(analysis.fit.trials):
        return
    yield Section(
        "In the plane",
        "The paths as they were recorded and as the fitted model moves in the same trials, and how "
        "fast and how curved movements to each target are.",
        [
            Picture(plot_paths(analysis.fit, analysis.adequacy), name="paths"),
            Picture(plot_targets(analysis.fit, analysis.adequacy), name="targets"),
        ],
    )
