"""Metadata that ``setup.cfg`` cannot derive: the project's addresses, and README with absolute links.

README keeps its relative links, which lead to the pages of the same checkout. A package index shows
README without those pages, so the links of the description lead to the pages of the release's tag.
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
_RELATIVE_LINK: Final = re.compile(r"(?<=\]\()(?![a-z]+://)")


def describe() -> str:
    """README with links to the files of this version's tag."""
    return _RELATIVE_LINK.sub(f"{REPOSITORY}/blob/v{VERSION}/", (ROOT / "README.md").read_text("utf-8"))


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
