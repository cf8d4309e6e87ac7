"""Sphinx: the documentation, from these pages and from the docstrings."""

from __future__ import annotations

import shiftune

project = "shiftune"
author = "The shiftune developers"
copyright = "The shiftune developers"
version = release = shiftune.__version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.mathjax",
    "sphinx-mathjax-offline",  # formulas are drawn without a network, too
    "sphinx_copybutton",
    "numpydoc",
]
exclude_patterns = ["_build"]

myst_enable_extensions = ["dollarmath", "colon_fence"]
myst_heading_anchors = 3

autodoc_default_options = {
    "member-order": "bysource",
    # scikit-learn adds these to every estimator; they are documented there.
    "exclude-members": (
        "get_metadata_routing, set_fit_request, set_score_request, set_transform_request"
    ),
}
autodoc_typehints = "none"  # the docstrings describe them in words
autosummary_generate = True
numpydoc_show_class_members = False
numpydoc_class_members_toctree = False
numpydoc_xref_param_type = False
default_role = "code"
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True

highlight_language = "none"  # of blocks that name no language: what a command prints

html_theme = "furo"
html_title = f"shiftune {release}"
html_static_path = ["_static"]
html_css_files = ["pages.css"]
html_show_sphinx = False
