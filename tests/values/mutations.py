"""Damaged messages in bulk: millions of them with a few calls of numpy.

    [ head of a message | other bytes, or none | tail of a message ]   and then some bytes changed

That is every way in which a message is damaged: cut, without a part, with a part twice, with a part of
another message or of none, with other bits and bytes. Two turns of it make messages that are damaged twice.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from spark_kafkawire.values.payloads import Payloads, payloads_of

Int64s = npt.NDArray[np.int64]

#: Bytes that matter to some format: ends and signs of varints, sizes, tags, brackets, escapes.
_SHARP: Final = np.frombuffer(
    b"\x00\x01\x02\x03\x04\x7f\x80\xff\xfe\x0b\x0c\x0a\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"
    b"\xf4\xff\xff\xff\x0f\x80\x80\x80\x80\x08\xc0\x80\xed\xa0\x80\xf0\x9f\xf4\x90"
    b'{}[]":,\\u00e9\\ud800\\"-.0123456789eE+ \t\nnulltruefalseNaNInfinity"a":1,"a":2',
    np.uint8,
)
#: The most other bytes that come between head and tail.
_INSERTED_MAX: Final = 24


def mutated(messages: list[bytes], count: int, random: np.random.Generator) -> Payloads:
    """Damage messages, ``count`` times a drawn one. A fifth is damaged twice."""
    once = _spliced(payloads_of(pa.array(messages, pa.binary())), count, random)
    return _flipped(_spliced(once, count, random, share=0.2), random)


def message(payloads: Payloads, row: int) -> bytes:
    """The bytes of a message."""
    return payloads.data[payloads.starts[row] : payloads.stops[row]].tobytes()


def _spliced(payloads: Payloads, count: int, random: np.random.Generator, share: float = 0.7) -> Payloads:
    """Drawn messages, a share of which has other bytes in the place of a part."""
    fresh = len(payloads) != count
    rows = random.integers(0, len(payloads), count) if fresh else np.arange(count)
    starts, sizes = payloads.starts[rows], (payloads.stops - payloads.starts)[rows]
    heads, tails = sizes.copy(), sizes.copy()
    how = np.where(random.random(count) < share, random.integers(0, 6, count), 6)
    place = _below(sizes + 1, random)
    changed = how < 6
    heads[changed] = place[changed]
    # 0: cut; 1, 2: a part is missing, or other bytes are in its place; 3, 4, 5: other bytes in between
    tails = np.where((how > 2) & changed, heads, tails)
    missing = (how == 1) | (how == 2)
    tails[missing] = np.minimum(heads + random.integers(1, 5, count), sizes)[missing]
    content = np.concatenate([payloads.data, _SHARP, random.integers(0, 256, 256).astype(np.uint8)])
    inserted = np.where((how > 1) & changed, _INSERTED_MAX * random.random(count) ** 3, 0).astype(np.int64)
    others = _below(len(content) - inserted + 1, random)
    sharp = len(payloads.data) + _below(np.maximum(len(_SHARP) - inserted, 0) + 1, random)
    others = np.where(random.random(count) < 0.5, sharp, others)
    own = np.minimum(starts + _below(sizes + 1, random), len(content) - inserted)
    others = np.where(how == 3, own, others)
    return _joined(
        content,
        np.stack([starts, others, starts + tails], axis=1),
        np.stack([heads, inserted, sizes - tails], axis=1),
    )


def _flipped(payloads: Payloads, random: np.random.Generator) -> Payloads:
    """Messages with up to four bytes changed; half of them with none."""
    data, sizes = payloads.data.copy(), payloads.stops - payloads.starts
    many = np.array([0, 0, 0, 1, 1, 4])[random.integers(0, 6, len(payloads))]
    rows = np.repeat(np.arange(len(payloads)), np.where(sizes > 0, many, 0))
    places = payloads.starts[rows] + _below(sizes[rows], random)
    bits = (1 << random.integers(0, 8, len(rows))).astype(np.uint8)
    flips = random.random(len(rows)) < 0.5
    data[places] = np.where(flips, data[places] ^ bits, _SHARP[random.integers(0, len(_SHARP), len(rows))])
    data.setflags(write=False)
    return Payloads(data, payloads.starts, payloads.stops)


def with_rows(payloads: Payloads, messages: list[bytes], rows: Int64s) -> Payloads:
    """The messages with others in the place of some rows."""
    more = payloads_of(pa.array(messages, pa.binary()))
    starts, stops = payloads.starts.copy(), payloads.stops.copy()
    starts[rows] = more.starts + len(payloads.data)
    stops[rows] = more.stops + len(payloads.data)
    data = np.concatenate([payloads.data, more.data])
    data.setflags(write=False)
    return Payloads(data, starts, stops)


def _joined(content: Any, starts: Int64s, sizes: Int64s) -> Payloads:
    """Messages of three parts each, one after the other in a buffer of their own."""
    flat = sizes.ravel()
    bounds = np.zeros(len(flat) + 1, np.int64)
    np.cumsum(flat, out=bounds[1:])
    places = np.arange(bounds[-1]) + np.repeat(starts.ravel() - bounds[:-1], flat)
    data = content[places]
    return Payloads(data, bounds[:-1:3].copy(), bounds[3::3].copy())


def _below(limits: Int64s, random: np.random.Generator) -> Int64s:
    """A number from 0 to below each limit."""
    numbers: Int64s = (random.random(len(limits)) * limits).astype(np.int64)
    return numbers
