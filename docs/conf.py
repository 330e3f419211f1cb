"""How the site looks: Sphinx, myst-nb, the pydata theme; nothing is executed, nothing is loaded from elsewhere."""

from functools import lru_cache

from sphinx.search.en import SearchEnglish

import mhbench

project = "mhbench"
copyright = "the mhbench maintainers"
release = mhbench.__version__
extensions = ["myst_nb", "sphinx-mathjax-offline"]
html_theme = "pydata_sphinx_theme"
html_title = f"mhbench {release}"
html_static_path = ["static"]
html_js_files = ["search.js"]
html_css_files = ["site.css"]
html_show_sourcelink = False
html_copy_source = False
html_theme_options = {
    "navigation_depth": 2,
    "collapse_navigation": True,  # a page lists its own section: else half of the site is lists
    "show_toc_level": 2,
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": ["copyright"],
    "footer_end": [],
}
nb_execution_mode = "off"
nb_mime_priority_overrides = [("html", "text/html", 10)]
myst_enable_extensions = ["dollarmath", "amsmath"]
myst_dmath_double_inline = True  # an equation within a paragraph, as GitHub and Jupyter read it
myst_heading_anchors = 3
html_sidebars = {"api/**": []}  # two hundred names on each of two hundred pages
root_doc = "guide"  # index.html is the first page, which is no page of Sphinx
exclude_patterns = ["**/.ipynb_checkpoints", "extra/**"]
# Notebooks are read on GitHub too: a link to a folder or to a file that is no page is fine there.
suppress_warnings = [
    "myst.xref_missing",
    "myst.header",
    "mystnb.unknown_mime_type",
    "toc.not_included",
    "misc.highlighting_failure",
]

SearchEnglish.stem = lru_cache(maxsize=None)(SearchEnglish.stem)  # 200,000 words, most of them many times


def setup(app):
    "MathJax's package copies files at the end, and says nothing of pages being read side by side: it does not mind."
    app.extensions["sphinx-mathjax-offline"].parallel_read_safe = True
    app.extensions["sphinx-mathjax-offline"].parallel_write_safe = True
