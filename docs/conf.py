"""The site of the documentation: `make docs` builds it without a network, and every warning fails the build."""

import gc
import sys
from pathlib import Path

gc.set_threshold(100_000, 50, 50)  # a tenth less time: all pages stay in memory to the end
HERE = Path(__file__).parent
sys.path[:0] = [str(HERE / "ext"), str(HERE.parent / "src")]

project = "psilogic and fairbench"
author = "psilogic-fairbench contributors"
extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "api",
    "contents",
    "generated",
    "mathml",
    "repository_links",
]
exclude_patterns = ["ext"]
nitpicky = True
smartquotes = False  # they would turn the two dashes of an option into another character

myst_heading_anchors = 4

default_role = "py:obj"
add_module_names = False
maximum_signature_line_length = 88
autodoc_default_options = {"members": True, "member-order": "bysource"}
autodoc_typehints_format = "short"
napoleon_numpy_docstring = False
napoleon_use_ivar = True
napoleon_use_rtype = False

html_theme = "furo"
html_title = project
html_copy_source = False
html_static_path = ["static"]
html_css_files = ["site.css"]
html_theme_options = {"navigation_with_keys": True}
pygments_style = "default"
pygments_dark_style = "github-dark"
