"""HTML of the page of ``kafkawire offsets``: elements whose texts and attribute values are always escaped.

tag("td", "<b>", tag("i", style="--w:50"), class_="bar")
# <td class="bar">&lt;b&gt;<i style="--w:50"></i></td>
"""

from __future__ import annotations

from functools import cache
from html import escape
from typing import Final

#: Elements that have no content and no end.
_VOID: Final = frozenset(("input", "meta"))


class Markup(str):
    """Text that is HTML already. Only ``tag``, ``joined`` and this package's own files make it."""

    __slots__ = ()


def tag(name: str, /, *content: str, **attributes: str | int | float | bool) -> Markup:
    """An element. ``content`` is escaped unless it is ``Markup``.

    ``class_`` stands for ``class``, as ``data_v`` does for ``data-v``; an attribute that is True has
    no value, one that is False or an empty text is left out.
    """
    inside = "".join(map(_attribute, attributes, attributes.values()))
    if name in _VOID:
        return Markup(f"<{name}{inside}>")
    return Markup(f"<{name}{inside}>{joined(*content)}</{name}>")


def joined(*content: str) -> Markup:
    """Elements and texts one after the other."""
    return Markup("".join(part if isinstance(part, Markup) else escape(part) for part in content))


def _attribute(name: str, value: str | int | float | bool) -> str:
    if value is True:
        return f" {_attribute_name(name)}"
    return "" if value is False or value == "" else f' {_attribute_name(name)}="{escape(str(value))}"'


@cache
def _attribute_name(name: str) -> str:
    """An attribute's name as HTML has it; names come from code, and are few."""
    return name.rstrip("_").replace("_", "-")
