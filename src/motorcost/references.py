"""What to cite: the paper that describes the method, and this software."""

from importlib.metadata import version

TITLE = (
    "Inverse Optimal Control Adapted to the Noise Characteristics of the Human Sensorimotor System"
)
AUTHORS = ("Matthias Schultheis", "Dominik Straub", "Constantin A. Rothkopf")
VENUE = "Advances in Neural Information Processing Systems"
VOLUME = 34
YEAR = 2021
ADDRESS = "https://arxiv.org/abs/2110.11130"

_TEMPLATE = """\
If you use motorcost in published work, please cite the paper that describes the method

    {people} ({year}). {title}. {venue} {volume}.
    {address}

and the software, with the version that you used

    The motorcost authors. motorcost, version {version} (Python package).

As BibTeX:

@inproceedings{{schultheis2021inverse,
  title     = {{{title}}},
  author    = {{{authors}}},
  booktitle = {{{venue}}},
  volume    = {{{volume}}},
  year      = {{{year}}},
  url       = {{{address}}}
}}

@software{{motorcost,
  title   = {{motorcost: inverse optimal control with signal-dependent noise}},
  author  = {{{{The motorcost authors}}}},
  version = {{{version}}}
}}
"""


def citation() -> str:
    """Return what to cite when motorcost was used: the paper and the software.

    Returns
    -------
    str
        The references as text, followed by both as BibTeX entries. Show them with
        `print(mc.citation())`. The same references are in `CITATION.cff`.

    Examples
    --------
    >>> print(mc.citation().splitlines()[0])
    If you use motorcost in published work, please cite the paper that describes the method
    """
    *first, last = AUTHORS
    return _TEMPLATE.format(
        people=f"{', '.join(first)} & {last}",
        authors=" and ".join(AUTHORS),
        title=TITLE,
        venue=VENUE,
        volume=VOLUME,
        year=YEAR,
        address=ADDRESS,
        version=version("motorcost"),
    )
