"""Memory of Spark's JVM for a stream over 1,000 partitions: the same after any number of batches.

``KAFKAWIRE_STREAM_BATCHES=2000`` runs so many, and prints what the heap has after a collection
(``pytest -s``; with ``-o faulthandler_timeout=0``, or pytest ends after 20 minutes). All partitions are
planned in each batch, and two of them have a record for it: what the JVM could keep of a batch are its
offsets and two tasks. ``test_stream_thousand`` has the Python process that plans.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from tests.support import librdkafka
from tests.support.foreign import Record
from tests.support.noida import NoidaBroker
from tests.support.stream_heap import BATCH_MAX_S

ROOT: Final = Path(__file__).parents[2]
BATCHES: Final = int(os.environ.get("KAFKAWIRE_STREAM_BATCHES", "600"))
TOPICS, PARTITIONS = 10, 100
#: What the heap may grow after the first tenth of the batches; the text of a batch's offsets alone is 10 KB.
GROWTH_MAX_BYTES: Final = 4 << 20


@pytest.mark.jvm
@pytest.mark.nightly
@pytest.mark.timeout(900 + BATCH_MAX_S * BATCHES)
def test_the_heap_of_a_stream_over_a_thousand_partitions_stays_flat(tmp_path: Path) -> None:
    with NoidaBroker() as broker:
        topics = [broker.create_topic(PARTITIONS) for _ in range(TOPICS)]
        for topic in topics[:2]:
            librdkafka.produce(broker.bootstrap_servers, topic, [Record(b"x", partition=0)] * (BATCHES + 50))
        read = {"kafka.bootstrap.servers": broker.bootstrap_servers, "subscribe": ",".join(topics)}
        read |= {"startingOffsets": "earliest", "maxOffsetsPerTrigger": "2"}
        heaps = looks(read, tmp_path / "checkpoint")
    assert heaps[-1] - heaps[0] < GROWTH_MAX_BYTES


def looks(read: dict[str, str], checkpoint: Path) -> list[int]:
    """Bytes in the heap after each tenth of the batches."""
    argv = [
        sys.executable,
        "-m",
        "tests.support.stream_heap",
        json.dumps(read),
        str(BATCHES),
        str(checkpoint),
    ]
    with subprocess.Popen(argv, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        found = []
        for line in process.stdout:
            print(line.rstrip(), flush=True)
            found.append(json.loads(line)["heap_bytes"])
    assert process.returncode == 0
    return found
