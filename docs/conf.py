"""How Sphinx builds the documentation: `make docs`, into docs/_build/html."""

import hashlib
import logging
import os
import sys
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parent
# Compiling is most of what the tutorials do, and most of that is making fast code that runs once.
# Programs are kept: tutorials share some, and after a change most are those of the build before.
os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", str(HERE / "_build" / "programs"))
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0")
os.environ.setdefault(
    "XLA_FLAGS",
    "--xla_backend_optimization_level=0 --xla_llvm_disable_expensive_passes=true "
    "--xla_cpu_use_fusion_emitters=false --xla_cpu_parallel_codegen_split_count=1",
)
sys.path.insert(0, str(HERE / "_ext"))
sys.path.insert(0, str(ROOT / "src"))

import motorcost  # noqa: E402


def checksum_of_sources() -> str:
    """Of every file of the package: notebooks are executed again when one of them changes."""
    files = sorted((ROOT / "src").rglob("*.py"))
    return hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()[:16]


project = "motorcost"
author = "The motorcost authors"
release = version = motorcost.__version__
html_title = f"motorcost {release}"

extensions = [
    "myst_nb",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.napoleon",
    "sphinx_copybutton",
    "sphinx_design",
    "command_line",
    "formats",
    "mathml",
    "notebooks",
    "public_names",
    "study_file",
]
exclude_patterns = ["_build"]
templates_path = ["_templates"]
smartquotes = False  # `--free` is an option, not a dash
nitpicky = True
# Types in signatures are shown, not linked: most belong to libraries, or are internal.
nitpick_ignore_regex = [("py:class", ".*"), ("py:data", ".*")]

# Markdown, as GitHub reads it too, with math between dollars and directives between colons.
myst_enable_extensions = ["amsmath", "attrs_inline", "colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 4

# Notebooks: executed while building, and kept until the page or the package changes.
nb_execution_mode = "cache"
nb_execution_cache_path = str(HERE / "_build" / "executed" / checksum_of_sources())
nb_execution_timeout = 600
nb_execution_raise_on_error = True
nb_execution_show_tb = True
nb_merge_streams = True
nb_output_stderr = "remove"  # warnings of libraries about the kernel that builds the pages
nb_ipywidgets_js: dict[str, object] = {}  # they would come from the network

napoleon_google_docstring = False
napoleon_custom_sections = [("Attributes", "params_style")]
napoleon_use_rtype = False
autodoc_member_order = "bysource"
autodoc_typehints_format = "short"
autodoc_preserve_defaults = True
autosummary_generate = False
python_use_unqualified_type_names = True
maximum_signature_line_length = 88
toc_object_entries_show_parents = "hide"

html_math_renderer = "mathml"
html_theme = "pydata_sphinx_theme"
html_static_path = ["_static"]
html_css_files = ["motorcost.css"]
html_copy_source = False
html_show_sourcelink = False
html_sidebars: dict[str, list[str]] = {"index": []}
html_context = {"default_mode": "auto"}
html_theme_options = {
    "logo": {"text": "motorcost"},
    "navbar_align": "left",
    "header_links_before_dropdown": 7,
    "navigation_with_keys": False,
    "show_toc_level": 2,
    "secondary_sidebar_items": ["page-toc", "notebook"],
    "footer_start": ["copyright"],
    "footer_end": [],
    "pygments_light_style": "a11y-high-contrast-light",
    "pygments_dark_style": "a11y-high-contrast-dark",
}
project_copyright = "The motorcost authors, MIT licence"
html_show_sphinx = False
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True


def setup(app: object) -> None:
    """Allow patterns in lists of pages that match none: Sphinx gives that warning no type by which
    `suppress_warnings` could name it."""
    of_toctree = logging.getLogger("sphinx.sphinx.directives.other")
    of_toctree.addFilter(lambda record: getattr(record, "subtype", "") != "empty_glob")
