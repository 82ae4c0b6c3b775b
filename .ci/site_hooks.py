"""Hooks of mkdocs: the version, tabs, and tables that fit the page.

Names in cells of tables may break where their words end. A browser breaks a line at ``<wbr>`` where it must,
and what is copied from the page does not contain it:

    kafka.<wbr>ssl.<wbr>truststore.<wbr>location    include<wbr>Headers

Variants of an example are tabs on the site, and follow each other where the page is read as a file:

    <!-- tabs -->
    **Python**        blocks and text up to the next tab
    **SQL**
    <!-- end of tabs -->
"""

from __future__ import annotations

import re
import runpy
import textwrap
from pathlib import Path
from typing import Any, Final

_CELL: Final = re.compile(r"<(td|th)\b[^>]*>.*?</\1>", re.DOTALL)
#: Code and nothing else: code in colours has tags of its own.
_CODE: Final = re.compile(r"<code>([^<]*)</code>")
_TABS: Final = re.compile(r"^<!-- tabs -->\n\n(.*?)^<!-- end of tabs -->$", re.MULTILINE | re.DOTALL)
_TAB: Final = re.compile(r"^\*\*(\w+)\*\*\n(.*?)(?=^\*\*\w+\*\*\n|\Z)", re.MULTILINE | re.DOTALL)
#: Where a word of a name ends: after a separator, and before a capital.
_WORD_ENDS: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[._:/=,])(?=\w)|(?<=\w)(?=[(\[{])")


def on_config(config: Any, **_: Any) -> Any:
    """The settings with the version beside the name of the repository."""
    version = runpy.run_path(str(Path(__file__).parents[1] / "spark_kafkawire" / "version.py"))["VERSION"]
    config.repo_name = f"{config.repo_name} {version}"
    return config


def on_page_markdown(markdown: str, **_: Any) -> str:
    """The page with its variants as tabs."""
    return _TABS.sub(lambda tabs: _TAB.sub(_with_tab, tabs[1]), markdown)


def _with_tab(tab: re.Match[str]) -> str:
    return f'=== "{tab[1]}"\n\n{textwrap.indent(tab[2].strip(), "    ")}\n\n'


def on_page_content(html: str, **_: Any) -> str:
    """The page with places to break in all code of its tables."""
    return _CELL.sub(lambda cell: _CODE.sub(_with_breaks, cell[0]), html)


def _with_breaks(code: re.Match[str]) -> str:
    return f"<code>{_WORD_ENDS.sub('<wbr>', code[1])}</code>"
