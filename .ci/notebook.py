"""Make the notebook of the quickstart from its page: ``make notebook``.

    python .ci/notebook.py docs/quickstart.md docs/quickstart.ipynb

The page is the source. Its Python blocks become cells of code. The rest becomes cells of text: one for each
heading, and one after each block. Commands of a shell stay text, because they belong in a terminal.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

#: The source of a cell: a block of Python, or text up to such a block or a heading.
_CELL: Final = re.compile(
    r"^```python\n(?P<code>.*?)^```$|(?P<text>.+?)(?=^## |^```python$|\Z)", re.MULTILINE | re.DOTALL
)
_METADATA: Final = {
    "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
    "language_info": {"name": "python"},
}


def notebook_of(page: str) -> str:
    """The text of the notebook, in format 4.4: the last one in which cells need no ids."""
    notebook = {"cells": list(_cells(page)), "metadata": _METADATA, "nbformat": 4, "nbformat_minor": 4}
    return json.dumps(notebook, indent=1, ensure_ascii=False) + "\n"


def _cells(page: str) -> Iterator[dict[str, Any]]:
    for match in _CELL.finditer(page):
        source = (match["code"] or match["text"]).strip("\n").splitlines(keepends=True)
        if match["code"]:
            yield {
                "cell_type": "code",
                "execution_count": None,
                "metadata": {},
                "outputs": [],
                "source": source,
            }
        elif source:
            yield {"cell_type": "markdown", "metadata": {}, "source": source}


def main(page: Path, target: Path) -> None:
    """Write the notebook."""
    target.write_text(notebook_of(page.read_text("utf-8")), "utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
    print(sys.argv[2])
