"""The pages of the documentation, and the parts that tests check: blocks, links, headings, tables, code."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]
DOCS: Final = ROOT / "docs"
#: All pages, by their path in the repository.
PAGES: Final = (
    *("README.md", "CONTRIBUTING.md", "tests/README.md", "jobs/README.md"),
    *sorted(str(path.relative_to(ROOT)) for path in DOCS.glob("*.md")),
)
_FENCE: Final = re.compile(
    r"^(?:<!-- needs: (?P<needs>[\w-]+) -->\n)?```(?P<language>\w*)\n(?P<text>.*?)^```$"
    r"(?=\n\n```text\n(?P<output>.*?)^```$|)",
    re.MULTILINE | re.DOTALL,
)
_HEADING: Final = re.compile(r"^#{1,6} (.+)$", re.MULTILINE)
_LINK: Final = re.compile(r"\[[^]]*\]\(([^()\s]+)\)")
#: A picture with one file for light pages and one for dark ones.
_PICTURE: Final = re.compile(r'<(?:img|source) [^>]*\bsrc(?:set)?="([^"]+)"')
_CODE: Final = re.compile(r"`([^`\n]+)`")


@dataclass(frozen=True, slots=True)
class Block:
    """A fenced block: its language, its text, the line of the page that the text starts on, what it
    needs that `make test` has not, and the block of text that follows at once."""

    page: str
    language: str
    text: str
    line: int
    needs: str | None
    output: str | None

    def __str__(self) -> str:
        return f"{self.page}:{self.line}"

    @property
    def commands(self) -> list[str]:
        """Its lines, where it is of a shell; what goes on in the next line is one."""
        return [line.removeprefix("$ ") for line in self.text.replace("\\\n", " ").splitlines()]


def text_of(page: str) -> str:
    """A page as it is."""
    return (ROOT / page).read_text("utf-8")


def prose_of(page: str) -> str:
    """A page without its blocks."""
    return _FENCE.sub("", text_of(page))


def blocks(*languages: str) -> list[Block]:
    """The blocks of all pages in these languages."""
    return [block for page in PAGES for block in _blocks_of(page) if block.language in languages]


def _blocks_of(page: str) -> Iterator[Block]:
    text = text_of(page)
    for fence in _FENCE.finditer(text):
        line = text.count("\n", 0, fence.start("text")) + 1
        yield Block(page, fence["language"], fence["text"], line, fence["needs"], fence["output"])


def code_of(page: str) -> list[str]:
    """Texts between backticks in the prose of a page."""
    return _CODE.findall(prose_of(page))


def links_of(page: str) -> list[str]:
    """The targets of a page's links and pictures, as they are written."""
    return [*_LINK.findall(_CODE.sub("", prose_of(page))), *pictures_of(page)]


def pictures_of(page: str) -> list[str]:
    """The files of the pictures that a page has as HTML."""
    return _PICTURE.findall(prose_of(page))


def headings_of(page: str) -> list[str]:
    """The headings of a page, as they are written."""
    return _HEADING.findall(prose_of(page))


def section_of(page: str, heading: str) -> str:
    """Text below a heading, up to the next one of its level."""
    return text_of(page).partition(f"\n## {heading}\n")[2].partition("\n## ")[0]


def anchor(heading: str) -> str:
    """Anchor of a heading in a link, where the pages are read as files of a repository."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def site_anchor(heading: str) -> str:
    """The same on the site that ``make docs`` builds."""
    ascii_only = unicodedata.normalize("NFKD", heading).encode("ascii", "ignore").decode()
    return re.sub(r"[-\s]+", "-", re.sub(r"[^\w\s-]", "", ascii_only).strip().lower())


def table_after(page: str, mark: str) -> list[list[str]]:
    """The rows below the head of the first table after ``mark``; a cell that is all code is bare."""
    text = text_of(page)
    table = text[text.index(mark) + len(mark) :].lstrip().partition("\n\n")[0]
    rows = [[cell.strip() for cell in line.strip().strip("|").split("|")] for line in table.splitlines()]
    return [[re.sub(r"^`([^`]*)`$", r"\1", cell) for cell in row] for row in rows[2:]]
