"""The decoders' differential fuzz: compiled and interpreted kernels make the same of any bytes.

Each input (``decoder_inputs``) is decoded both ways, to the same rows, byte for byte, or to the same
error, which is one of ours and one line. A process of ``make chaos`` has a limit of memory, and one of
processor time for each operation, a block of inputs; whatever ends it, the block is named.
"""

from __future__ import annotations

import resource
import signal
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final, NamedTuple

import pyarrow as pa

from spark_kafkawire.errors import KafkaWireError
from spark_kafkawire.records import compiler
from spark_kafkawire.records.columns import Columns
from spark_kafkawire.records.limits import DecodeLimits
from spark_kafkawire.records.log_index import index_batches
from spark_kafkawire.records.message_set import decoding as message_set
from spark_kafkawire.records.record_log import COLUMNS, decode_batches
from tests.support.kernels import interpreted_kernels

from .decoder_inputs import Input, input_of
from .operation import Operation

#: Inputs that are decoded one way before they are the other way.
BLOCK: Final = 500
#: Address space of the process, bytes, most of which its libraries reserve and never touch.
MEMORY_BYTES_MAX: Final = 4 << 30
#: Processor time of a block, seconds: a hundred times what it takes.
CPU_S_MAX: Final = 60
#: What decoding may take: little, so that limits are reached.
LIMITS: Final = tuple(
    DecodeLimits(decompressed_bytes_max=most, depth_max=depth, batch_bytes_max=size)
    for most, depth, size in ((2**16, 3, 2**16), (2**16, 3, 300), (800, 2, 300))
)
#: Inputs of one seed; input ``i`` of seed ``s`` is drawn from their sum.
_SEED_INPUTS: Final = 1 << 40
#: Every so manyeth input's arrays are validated by Arrow, too.
_VALIDATED: Final = 8
#: Bytes of an input that a failure shows, and how many inputs it names.
_SHOWN_BYTES_MAX, _SHOWN_MAX = 4096, 5
_WANTED: Final = (COLUMNS, frozenset(("offset",)), frozenset(("value", "timestamp")))


@dataclass(frozen=True, slots=True)
class _Aborted:
    producer_id: int
    first_offset: int


_ABORTED: Final = ((), (_Aborted(1, 0),), (_Aborted(1, 3), _Aborted(1, 9)))


class Outcome(NamedTuple):
    """Result of an input: ``rows`` or an error's name, its line and offset, the columns' bytes."""

    kind: str
    line: str
    columns: tuple[bytes, ...]


@contextmanager
def opened(seed: int, _index: int) -> Iterator[Operation]:
    """Operations in a process that is theirs alone.

    A timer, not ``RLIMIT_CPU``, ends it where a block takes too long, also inside compiled code: that one
    counts by the tick since the process began, and ``getrusage`` does not, so that after half an hour beside
    other work they were a minute apart.
    """
    pa.set_memory_pool(pa.system_memory_pool())
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES_MAX, MEMORY_BYTES_MAX))

    def limited(number: int) -> Counter[str]:
        signal.setitimer(signal.ITIMER_PROF, CPU_S_MAX)
        return operation(seed, number)

    yield limited


def operation(seed: int, number: int) -> Counter[str]:
    """Decode a block of inputs both ways. Raises ``AssertionError`` that names those which differ."""
    assert compiler.load(), "numba is missing"
    inputs = [input_of(seed * _SEED_INPUTS + number * BLOCK + place) for place in range(BLOCK)]
    compiled = [_guarded(each, place) for place, each in enumerate(inputs)]
    with interpreted_kernels():
        interpreted = [_guarded(each, place) for place, each in enumerate(inputs)]
    wrong = [
        f"input {place}: {_reported(fast, plain)}: {inputs[place].data[:_SHOWN_BYTES_MAX].hex()}"
        for place, (fast, plain) in enumerate(zip(compiled, interpreted, strict=True))
        if fast != plain or "\n" in fast.line or fast.kind.startswith("crash")
    ]
    assert not wrong, "\n".join(wrong[:_SHOWN_MAX])
    return Counter(each.kind for each in compiled)


def _guarded(given: Input, place: int) -> Outcome:
    found: list[bytes] = []
    try:
        line = (_log if given.is_log else _message_set)(given, found, place % _VALIDATED == 0)
    except KafkaWireError as error:
        return Outcome(type(error).__name__, f"{error} ({getattr(error, 'offset', None)})", tuple(found))
    except Exception as error:
        # Any error is reported with this input; the other inputs follow.
        return Outcome(f"crash: {type(error).__name__}", repr(error), ())
    return Outcome("rows", line, tuple(found))


def _log(given: Input, found: list[bytes], validate: bool) -> str:
    for columns in decode_batches(
        index_batches(given.data),
        given.start_offset,
        given.stop_offset,
        wanted=_WANTED[given.choice],
        aborted=_ABORTED[given.choice],
        limits=LIMITS[given.limits],
    ):
        _add(columns, found, validate)
    return ""


def _message_set(given: Input, found: list[bytes], validate: bool) -> str:
    pos, cut, view = 0, False, memoryview(given.data)
    while not cut:
        decoded = message_set.decode(view[pos:], pos, LIMITS[given.limits], values=given.choice != 1)
        assert decoded.size or decoded.cut, "decode neither advances nor ends"
        _add(decoded.columns, found, validate)
        pos, cut = pos + decoded.size, decoded.cut
    return f"{pos} bytes"


def _add(columns: Columns, found: list[bytes], validate: bool) -> None:
    """The bytes of all columns: what two decodings must have in common."""
    numbers = (columns.index, columns.next_offset, columns.timestamps_ms, columns.timestamp_types)
    found.append(columns.offset.tobytes())
    found += (b"-" if column is None else column.tobytes() for column in numbers)
    for array in (columns.values, columns.keys, columns.headers):
        if array is None:
            found.append(b"-")
            continue
        if validate:
            array.validate(full=True)
            assert len(array) == columns.count
        found += (b"-" if buffer is None else buffer.to_pybytes() for buffer in array.buffers())


def _reported(fast: Outcome, plain: Outcome) -> str:
    if fast[:2] == plain[:2]:
        return f"{fast.kind}, {fast.line!r}, with other columns compiled than interpreted"
    return f"compiled {fast.kind} {fast.line!r}, interpreted {plain.kind} {plain.line!r}"
