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
        "The paths as they were recorded and as the fitted model moves in the same trials; below, "
        "the peak speed and the curvature of movements to each target: the largest distance from "
        "the straight line, positive to its left.",
        [
            Picture(
                plot_paths(analysis.fit, analysis.adequacy),
                "paths to each target in the plane, recorded and simulated",
                "paths",
            ),
            Picture(
                plot_targets(analysis.fit, analysis.adequacy),
                "peak speed and curvature at each target, recorded and simulated",
                "targets",
            ),
        ],
    )
