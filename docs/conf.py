"""The site: `make docs` builds it into build/site, offline and with warnings as errors."""

import re
import sys
from importlib.metadata import version as installed_version
from importlib.util import find_spec
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "_ext"))

project = "accous"
author = "the accous developers"
copyright = author
release = version = installed_version("accous")

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "numpydoc",
    "sphinx_copybutton",
    "sphinx_design",
    "command_reference",
    "dark_images",
    "mathml",
    "outside_links",
    "python_reference",
    "scroll_boxes",
]
exclude_patterns = ["_ext"]
templates_path = ["_templates"]
# Commands over several lines are highlighted a little less; they are not wrong.
suppress_warnings = ["misc.highlighting_failure"]

# --- Markdown: what the files use where they are read as plain Markdown, too
myst_enable_extensions = ["colon_fence", "dollarmath"]
myst_heading_anchors = 4

# --- Python reference
default_role = "py:obj"
toc_object_entries_show_parents = "hide"
autosummary_generate = True
autodoc_mock_imports = [name for name in ("torch", "efficientnet_lite_pytorch") if find_spec(name) is None]
autodoc_typehints = "none"  # the docstrings say them in words
autodoc_use_type_comments = False  # there are none, and looking for them takes time
autodoc_member_order = "groupwise"
numpydoc_show_class_members = False
# Pages of names that have moved or gone would stay, and fail the build.
_reference = Path(__file__).parent / "reference"
_blocks = [
    block.partition("\n")
    for page in _reference.glob("*.md")
    for block in page.read_text(encoding="utf-8").split(".. currentmodule:: ")[1:]
]
_listed = {f"{home}.{name}" for home, _, rest in _blocks for name in re.findall(r"^   (\w+)$", rest, re.MULTILINE)}
for _page in _reference.glob("generated/*.rst"):
    if _page.stem not in _listed:
        _page.unlink(missing_ok=True)
numpydoc_class_members_toctree = False

# --- HTML
html_theme = "pydata_sphinx_theme"
html_title = "accous"
html_math_renderer = "mathml"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_copy_source = False
html_show_sourcelink = False
html_baseurl = ""
html_sidebars = {"index": [], "start": [], "gallery/index": []}
html_context = {"default_mode": "auto"}  # without it, the theme reports an error in every reader's console
html_theme_options = {
    "logo": {"text": "accous"},
    "header_links_before_dropdown": 8,
    "navbar_align": "left",
    "navbar_persistent": ["search-button"],
    "navbar_end": ["theme-switcher"],
    "navigation_with_keys": False,
    "show_prev_next": True,
    "show_toc_level": 2,
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": ["copyright"],
    "footer_end": [],
    "pygments_light_style": "a11y-high-contrast-light",
    "pygments_dark_style": "a11y-high-contrast-dark",
}
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True
copybutton_only_copy_prompt_lines = True
