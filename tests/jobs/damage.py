"""State files of a job, damaged in every way: none is ever taken for another one."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Final

from spark_kafkawire.errors import KafkaWireError

_BITS: Final = tuple(1 << bit for bit in range(8))


def damaged(data: bytes, *, all_bits: bool = False) -> Iterator[bytes]:
    """The data cut at each place, and with a bit of each byte changed: each of them, or each in turn."""
    # The last byte ends the line, which says nothing.
    for size in range(len(data) - 1):
        yield data[:size]
    for place in range(len(data)):
        for bit in _BITS if all_bits else (_BITS[place % 8],):
            yield data[:place] + bytes([data[place] ^ bit]) + data[place + 1 :]


def assert_damage_is_noticed(file: Path, read: Callable[[], object]) -> None:
    """Damage a file: ``read`` raises an error that names it, in one line, or gives what it gave before."""
    wanted, data = read(), file.read_bytes()
    said: list[str] = []
    count = 0
    for each in damaged(data):
        file.write_bytes(each)
        count += 1
        try:
            assert read() == wanted
        except KafkaWireError as error:
            said.append(str(error))
    file.write_bytes(data)
    assert_noticed(said, count)
    assert all(str(file) in line and line.isprintable() for line in said)


def assert_noticed(said: Sequence[str], count: int) -> None:
    """Assert that almost all damage is reported: only changes of blanks or of a letter's escape are none."""
    assert len(said) > 0.95 * count
