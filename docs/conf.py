"""The site of the documentation: `make docs` builds it without a network, and every warning fails the build."""

import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE / "ext"), str(HERE.parent / "src")]

project = "psilogic and fairbench"
author = "The PsiLogic maintainers"
extensions = ["myst_parser", "repository_links"]
exclude_patterns = ["ext"]
nitpicky = True

myst_heading_anchors = 4

html_theme = "furo"
html_title = project
html_copy_source = False
html_theme_options = {"navigation_with_keys": True}
pygments_style, pygments_dark_style = "default", "github-dark"
