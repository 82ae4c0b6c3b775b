"""The elements of ASN.1 in BER, which DER is a part of, one level at a time."""

from __future__ import annotations

from typing import Final, NamedTuple

#: Octets in several parts, which BER allows.
_OCTETS_IN_PARTS: Final = 0x24
_END: Final = b"\0\0"
#: Elements of unknown length in each other: what writes BER has four.
_DEPTH_MAX: Final = 16
#: Elements beside each other, more than any store has.
_COUNT_MAX: Final = 10_000


class Element(NamedTuple):
    """An element: its tag, and its content without the header."""

    tag: int
    content: bytes

    @property
    def parts(self) -> list[Element]:
        """The elements in it. Raises ``ValueError``."""
        return elements(self.content)

    @property
    def octets(self) -> bytes:
        """The octets that it is, or that its parts are. Raises ``ValueError``."""
        if self.tag == _OCTETS_IN_PARTS:
            return b"".join(part.content for part in self.parts)
        return self.content


def elements(data: bytes) -> list[Element]:
    """The elements that follow one another. Raises ``ValueError`` for anything else."""
    found, pos = [], 0
    while pos < len(data):
        element, pos = _element(data, pos, 0)
        found.append(element)
        if len(found) > _COUNT_MAX:
            raise ValueError("too many elements")
    return found


def _element(data: bytes, pos: int, depth: int) -> tuple[Element, int]:
    """The element at a position, and the position after it."""
    if pos + 2 > len(data) or depth > _DEPTH_MAX or data[pos] & 0x1F == 0x1F:
        raise ValueError("no element")
    tag, length, start = data[pos], data[pos + 1], pos + 2
    if length == 0x80:
        end = start
        for _ in range(_COUNT_MAX):
            if data[end : end + 2] == _END:
                return Element(tag, data[start:end]), end + 2
            _, end = _element(data, end, depth + 1)
        raise ValueError("too many elements")
    if length > 0x80:
        size = length & 0x7F
        length, start = int.from_bytes(data[start : start + size], "big"), start + size
    if start + length > len(data):
        raise ValueError("an element is cut off")
    return Element(tag, data[start : start + length]), start + length
