"""No input of a mebibyte takes more than seconds of a processor, or more memory than the limits say."""

from __future__ import annotations

import contextlib
import json
import re
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from spark_kafkawire.cluster.v07.view import _address
from spark_kafkawire.cluster.v07.zookeeper_client import NODE_BYTES_MAX
from spark_kafkawire.errors import KafkaWireError
from spark_kafkawire.net.logins.passwords import ITERATIONS_MAX, scram
from spark_kafkawire.net.stores import Store, StoreError, normalize_pem, trust_of
from spark_kafkawire.options.jaas import parse_jaas
from spark_kafkawire.records.limits import DecodeLimits
from tests.records.worst_inputs import calibrated_s, kafka_07, memory_bytes_max, modern
from tests.support.cases import for_each
from tests.support.failing_case import failing_case

#: Processor seconds for an input, where ``calibrated_s`` takes so many: twice what the worst one takes alone
#: on a machine, since neighbours on the same core and in its caches slow it more than that piece of work.
CPU_S_MAX = 3.0
CALIBRATED_S = 0.02
#: ``maxDecompressedBytes`` in MiB, and how much more time there is. Interpreted kernels take ten to thirty
#: times as long for a message.
WAYS = {"compiled": (256, 1), "interpreted": (32, 2)}
#: Times that slow inputs are measured again: an input that is too slow is so each time, a busy core is not.
REPEATS_MAX = 2
#: A mebibyte; or more where as many messages as can be do not fit in one.
SIZE_MAX = 12 << 20
NAMES = [*modern(0), *kafka_07(0)]


def _measured(kernels: str, limit_mib: int, names: Sequence[str]) -> dict[str, Any]:
    """For each of these inputs what it took, in a process of its own."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.records.worst_inputs", kernels, str(limit_mib), *names],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return {name: figures for name, *figures in map(json.loads, done.stdout.splitlines())}


def _slow(measured: dict[str, Any], factor: int) -> list[str]:
    """Names of the inputs that took more time than a machine as slow as this one explains."""
    return [
        name
        for name, (_, cpu_s, slowness_s, *_) in measured.items()
        if cpu_s >= factor * CPU_S_MAX * max(1, slowness_s / CALIBRATED_S)
    ]


@pytest.mark.parametrize("kernels", WAYS)
@pytest.mark.nightly
@pytest.mark.timeout(1100)  # a minute or two, on a machine with nothing else to do
def test_the_worst_inputs_take_seconds_and_no_more_memory_than_the_limits_say(kernels: str) -> None:
    limit_mib, factor = WAYS[kernels]
    measured = _measured(kernels, limit_mib, NAMES)
    assert list(measured) == NAMES
    for name, (size, _, _, memory_bytes, became) in measured.items():
        with failing_case(name):
            assert size < SIZE_MAX
            assert re.match(r"\d+ rows$|CorruptDataError: |MarkersDisagree: |LimitError: ", became)
            # A part, and the one before it.
            parts = 2 if name.endswith("one after the other") else 1
            limits = DecodeLimits(decompressed_bytes_max=limit_mib << 20)
            assert memory_bytes < parts * memory_bytes_max(limits)
    slow = _slow(measured, factor)
    for _ in range(REPEATS_MAX):
        if slow:
            slow = _slow(_measured(kernels, limit_mib, slow), factor)
    assert not slow


def _challenge(text: str) -> None:
    tokens = scram("SCRAM-SHA-512", "user", "password")
    nonce = next(tokens).decode().rpartition("=")[2]
    tokens.send(text.replace("NONCE", nonce).encode())


MIB = 1 << 20
#: Texts of peers, options and files, and who looks at them.
TEXTS: dict[str, tuple[Callable[[str], object], str]] = {
    **{f"a registration of {piece!r}": (_address,
     piece * (NODE_BYTES_MAX // len(piece)) + end) for piece in ("x-1:", "-1", "-", "1", ":", "a:", "/",
     "-1:/", " ") for end in ("", "!", ":1")},
    **{f"PEM of {piece!r}": (normalize_pem, piece * (MIB // len(piece))) for piece in ("-----BEGIN A-----",
     "-----BEGIN A", "-----BEGIN A-----\n-----END B-----", "-", "A ")},
    **{f"a PKCS12 store of {piece!r}": (lambda text: trust_of(Store(text.encode("latin-1"), "x")),
     "0\x80\2\1\3" + piece * (MIB // len(piece))) for piece in ("0\x80", "0\0", "0\x800\0\0\0", "\4\1x")},
    **{f"a JKS store of {piece!r}": (lambda text: trust_of(Store(text.encode("latin-1"))),
     "\xfe\xed\xfe\xed\0\0\0\2\xff\xff\xff\xff" + piece * (MIB // len(piece))) for piece in ("\0",
     "\0\0\0\1" + "\0" * 18, "\0\0\0\2" + "\0" * 10 + "\0\5X.509\0\0\0\0")},
    **{f"a login of {piece!r}": (parse_jaas, start + piece * (MIB // len(piece))) for start in ("",
     'Module required name="') for piece in ("/*", "//", '"', "'", "\\", "=", "a ", "a/", "/ ", " ")},
    "as many rounds as can be": (_challenge, f"r=NONCEx,s=c2FsdA==,i={ITERATIONS_MAX}"),
    "more rounds than can be": (_challenge, f"r=NONCEx,s=c2FsdA==,i={ITERATIONS_MAX + 1}"),
    "a long nonce": (_challenge, f"r=NONCE{'x' * MIB},s=c2FsdA==,i=4096"),
    "a long salt": (_challenge, f"r=NONCEx,s={'A' * MIB},i=4096"),
    "a long refusal": (_challenge, "e=" + "-" * MIB),
}  # fmt: skip


@for_each("name", TEXTS)
@pytest.mark.slow
def test_the_worst_texts_take_seconds(name: str) -> None:
    read, text = TEXTS[name]
    began = time.process_time()
    with contextlib.suppress(KafkaWireError, StoreError):
        read(text)
    cpu_s = time.process_time() - began
    assert cpu_s < CPU_S_MAX or cpu_s < CPU_S_MAX * calibrated_s() / CALIBRATED_S
