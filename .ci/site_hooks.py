"""A hook of mkdocs: names in cells of tables may break where their words end, so that tables fit the page.

    kafka.<wbr>ssl.<wbr>truststore.<wbr>location    include<wbr>Headers

A browser breaks a line at ``<wbr>`` where it must, and what is copied from the page does not contain it.
"""

from __future__ import annotations

import re
from typing import Any, Final

_CELL: Final = re.compile(r"<(td|th)\b[^>]*>.*?</\1>", re.DOTALL)
#: Code and nothing else: code in colours has tags of its own.
_CODE: Final = re.compile(r"<code>([^<]*)</code>")
#: Where a word of a name ends: after a separator, and before a capital.
_WORD_ENDS: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[._:/=,])(?=\w)|(?<=\w)(?=[(\[{])")


def on_page_content(html: str, **_: Any) -> str:
    """The page with places to break in all code of its tables."""
    return _CELL.sub(lambda cell: _CODE.sub(_with_breaks, cell[0]), html)


def _with_breaks(code: re.Match[str]) -> str:
    return f"<code>{_WORD_ENDS.sub('<wbr>', code[1])}</code>"
