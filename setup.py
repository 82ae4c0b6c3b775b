"""Metadata that ``setup.cfg`` cannot derive: the project's addresses, and README with absolute links.

README keeps its relative links, which lead to the pages of the same checkout. A package index shows
README without those pages, so the links of the description lead to the pages of the release's tag, and its
pictures come from the files of that tag.
"""

from __future__ import annotations

import re
import runpy
from pathlib import Path
from typing import Final

from setuptools import setup

ROOT: Final = Path(__file__).parent
#: The project's address. Pages repeat it, and `tests/lint/test_docs.py` compares them.
REPOSITORY: Final = "https://github.com/spark-kafkawire/spark-kafkawire"
VERSION: Final = runpy.run_path(str(ROOT / "spark_kafkawire" / "version.py"))["VERSION"]
#: The tag of this version: its pages, and its files themselves for pictures.
PAGES: Final = f"{REPOSITORY}/blob/v{VERSION}/"
FILES: Final = PAGES.replace("://github.com/", "://raw.githubusercontent.com/").replace("/blob/", "/")
#: The text before the target of a link, or of a picture.
_RELATIVE: Final = re.compile(r'!?\[[^]]*\]\((?![a-z]+://)|\bsrc(?:set)?="(?![a-z]+://)')


def describe() -> str:
    """README with links to the files of this version's tag."""
    text = (ROOT / "README.md").read_text("utf-8")
    return _RELATIVE.sub(lambda link: link[0] + (PAGES if link[0].startswith("[") else FILES), text)


setup(
    long_description=describe(),
    project_urls={
        "Homepage": REPOSITORY,
        "Documentation": f"{REPOSITORY}/blob/main/docs/index.md",
        "Source": REPOSITORY,
        "Issues": f"{REPOSITORY}/issues",
        "Changelog": f"{REPOSITORY}/blob/main/CHANGELOG.md",
        "Security": f"{REPOSITORY}/blob/main/SECURITY.md",
    },
)
