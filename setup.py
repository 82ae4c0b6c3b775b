"""Metadata that ``setup.cfg`` cannot derive: the project's addresses, README with absolute links, the SBOM.

README keeps its relative links, which lead to the pages of the same checkout. A package index shows
README without those pages, so the links of the description lead to the pages of the release's tag, and its
pictures come from the files of that tag.
"""

from __future__ import annotations

import json
import re
import runpy
from pathlib import Path
from typing import Final

from setuptools import setup
from setuptools.command.bdist_wheel import bdist_wheel

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


def sbom() -> str:
    """The bill of materials of the wheel, CycloneDX 1.6: no code of other projects is in it.

    Requirements are not in the wheel: its metadata names them.
    """
    name = "spark-kafkawire"
    component = {
        "type": "library",
        "bom-ref": name,
        "name": name,
        "version": VERSION,
        "purl": f"pkg:pypi/{name}@{VERSION}",
        "licenses": [{"license": {"id": "Apache-2.0"}}],
        "externalReferences": [{"type": "vcs", "url": REPOSITORY}],
    }
    return json.dumps(
        {
            "bomFormat": "CycloneDX",
            "specVersion": "1.6",
            "version": 1,
            "metadata": {"component": component},
            "components": [],
            "compositions": [{"aggregate": "complete", "assemblies": [name]}],
        },
        indent=2,
    )


class WheelWithSbom(bdist_wheel):  # type: ignore[misc]
    """A wheel with its bill of materials in ``.dist-info/sboms``.

    Source: PEP 770.
    """

    def egg2dist(self, egginfo_path: str, distinfo_path: str) -> None:
        super().egg2dist(egginfo_path, distinfo_path)
        folder = Path(distinfo_path, "sboms")
        folder.mkdir()
        (folder / "spark-kafkawire.cdx.json").write_text(sbom(), "utf-8")


setup(
    cmdclass={"bdist_wheel": WheelWithSbom},
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
