"""The decoders' differential fuzz: compiled and interpreted kernels make the same of any bytes.

    python -m tests.chaos.decoders --count 10000000 --seed 1    many inputs, in a process of their own
    python -m tests.chaos.decoders --input 1:4711               one input, and what both ways make of it

Each input (``decoder_inputs``) is decoded both ways, to the same rows, byte for byte, or to the same
error, which is one of ours and one line. The process has a limit of memory and one of processor time;
whatever ends it, the inputs that it was at are named.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, NamedTuple

import pyarrow as pa

from spark_kafkawire.errors import KafkaWireError
from spark_kafkawire.records import compiler
from spark_kafkawire.records.columns import Columns
from spark_kafkawire.records.limits import DecodeLimits
from spark_kafkawire.records.log_index import index_batches
from spark_kafkawire.records.message_set import decoding as message_set
from spark_kafkawire.records.record_log import COLUMNS, decode_batches
from tests.chaos.decoder_inputs import Input, input_of
from tests.support.kernels import interpreted_kernels

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
#: Bytes of an input that a failure shows.
_SHOWN_BYTES_MAX: Final = 4096
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


def outcome(given: Input, validate: bool) -> Outcome:
    """Result of the decoders for an input, with kernels as they are. Only errors of ours end it."""
    found: list[bytes] = []
    try:
        if given.is_log:
            for columns in _log_columns(given):
                _add(columns, found, validate)
        else:
            line = _message_set(given, found, validate)
            return Outcome("rows", line, tuple(found))
    except KafkaWireError as error:
        return Outcome(type(error).__name__, f"{error} ({getattr(error, 'offset', None)})", tuple(found))
    return Outcome("rows", "", tuple(found))


def _log_columns(given: Input) -> Iterator[Columns]:
    return decode_batches(
        index_batches(given.data),
        given.start_offset,
        given.stop_offset,
        wanted=_WANTED[given.choice],
        aborted=_ABORTED[given.choice],
        limits=LIMITS[given.limits],
    )


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


def key_of(seed: int, number: int) -> int:
    """Key that the input of that number is drawn from."""
    return seed * _SEED_INPUTS + number


def differences(seed: int, first: int, count: int) -> tuple[Counter[str], list[str]]:
    """Counts of outcomes of these inputs, and a line for each input that went wrong."""
    inputs = [input_of(key_of(seed, number)) for number in range(first, first + count)]
    compiled = [_guarded(each, i) for i, each in enumerate(inputs)]
    with interpreted_kernels():
        interpreted = [_guarded(each, i) for i, each in enumerate(inputs)]
    wrong = [
        f"input {seed}:{first + i}: {_reported(fast, plain)}: {inputs[i].data[:_SHOWN_BYTES_MAX].hex()}"
        for i, (fast, plain) in enumerate(zip(compiled, interpreted, strict=True))
        if fast != plain or "\n" in fast.line or fast.kind.startswith("crash")
    ]
    return Counter(each.kind for each in compiled), wrong


def _guarded(given: Input, number: int) -> Outcome:
    try:
        return outcome(given, number % _VALIDATED == 0)
    except Exception as error:
        # Whatever it is, it belongs to this input, and the others are still to be told.
        return Outcome(f"crash: {type(error).__name__}", repr(error), ())


def _reported(fast: Outcome, plain: Outcome) -> str:
    if fast[:2] == plain[:2]:
        return f"{fast.kind}, {fast.line!r}, with other columns compiled than interpreted"
    return f"compiled {fast.kind} {fast.line!r}, interpreted {plain.kind} {plain.line!r}"


def run(seed: int, seconds: float) -> Counter[str]:
    """Decode inputs of that seed for so long; how many had which outcome.

    Raises ``AssertionError`` that names the inputs which were decoded differently, or the ones that a process
    was at when it ended.
    """
    return _supervised(seed, ["--seconds", str(seconds)])


def run_inputs(seed: int, count: int, environment: Mapping[str, str] = MappingProxyType({})) -> Counter[str]:
    """As ``run``, the first ``count`` inputs of that seed."""
    return _supervised(seed, ["--count", str(count)], environment=environment)


def _supervised(
    seed: int,
    bounds: list[str],
    report: Callable[[Counter[str]], None] = lambda _: None,
    environment: Mapping[str, str] = MappingProxyType({}),
) -> Counter[str]:
    command = [sys.executable, "-m", "tests.chaos.decoders", "--worker", "--seed", str(seed), *bounds]
    total: Counter[str] = Counter()
    at: dict[str, Any] = {}
    with subprocess.Popen(
        command,
        cwd=Path(__file__).parents[2],
        env=os.environ | environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        for line in process.stdout:
            at = json.loads(line)
            if wrong := at.get("wrong"):
                process.kill()
                raise AssertionError("\n".join(wrong[:5]))
            total.update(at.get("outcomes", {}))
            report(total)
        said = process.stderr.read()
    assert process.returncode == 0, (
        f"the decoders' process ended with {process.returncode} at the inputs from {seed}:{at.get('first')}"
        f" on: {said[-2000:]}"
    )
    return total


def work(seed: int, first: int, count: int, seconds: float) -> None:
    """Decode block after block and print a line before and after each."""
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES_MAX, MEMORY_BYTES_MAX))
    assert compiler.load(), "numba is missing"
    ends = time.monotonic() + seconds
    for place in range(first, first + count, BLOCK):
        _limit_cpu()
        print(json.dumps({"first": place}), flush=True)
        outcomes, wrong = differences(seed, place, min(BLOCK, first + count - place))
        print(json.dumps({"first": place, "outcomes": outcomes, "wrong": wrong}), flush=True)
        if time.monotonic() >= ends:
            break


def _limit_cpu() -> None:
    """The kernel ends the process where the next block takes too long, also inside compiled code.

    A timer, not ``RLIMIT_CPU``: that one counts by the tick since the process began, and ``getrusage`` does
    not, so that after half an hour beside other work they were a minute apart.
    """
    signal.setitimer(signal.ITIMER_PROF, CPU_S_MAX)


def _progress() -> Callable[[Counter[str]], None]:
    """Prints a line each minute."""
    began = reported = time.monotonic()

    def report(total: Counter[str]) -> None:
        nonlocal reported
        now = time.monotonic()
        if now - reported >= 60:
            reported = now
            print(f"{now - began:8.0f} s {total.total():11,} inputs {dict(total)}", flush=True)

    return report


def _show(seed: int, number: int) -> None:
    given = input_of(key_of(seed, number))
    print(given)
    assert compiler.load()
    print("compiled:   ", _guarded(given, 0))
    with interpreted_kernels():
        print("interpreted:", _guarded(given, 0))


def main(arguments: list[str]) -> None:
    """The command line."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.chaos.decoders", description=__doc__.splitlines()[0]
    )
    parser.add_argument("--seed", type=int, default=1, help="which inputs")
    parser.add_argument("--first", type=int, default=0, help="the number of the first one")
    parser.add_argument("--count", type=int, default=_SEED_INPUTS, help="how many at most")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="for how long")
    parser.add_argument("--input", metavar="SEED:NUMBER", help="show one input and what becomes of it")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.input:
        _show(*map(int, options.input.split(":")))
    elif options.worker:
        work(options.seed, options.first, options.count, options.seconds)
    else:
        bounds = [
            "--first",
            str(options.first),
            "--count",
            str(options.count),
            "--seconds",
            str(options.seconds),
        ]
        began = time.monotonic()
        total = _supervised(options.seed, bounds, _progress())
        seconds = time.monotonic() - began
        print(f"{total.total():,} inputs agree both ways in {seconds:.0f} s: {dict(total)}")


if __name__ == "__main__":
    pa.set_memory_pool(pa.system_memory_pool())
    main(sys.argv[1:])
