"""Exactly-once writes that die at a drawn request, and the next run of their name on a cluster that takes
some time to replicate: it fences what was left at once, and readers of what is committed do not wait.

A single broker appends a record at once, whatever the time limit.
"""

from __future__ import annotations

import random
from collections import Counter
from typing import Final

from tests.support.exactly_once import WAITING_MAX_S, OnceWrite, await_readers, committed, dying
from tests.support.noida import NoidaBroker
from tests.support.slow_replication import SlowReplication

from .operation import EXACT

#: How long a record takes to be replicated, ms: up to some times what three brokers took.
_REPLICATION_MS: Final = (20.0, 100.0, 400.0, 1_000.0)
#: Requests about transactions of a small write.
_REQUESTS: Final = 25
#: A fence that is refused is not tried for long.
_IMPATIENT: Final = {"requestTimeout": "2s", "brokerDownTimeout": "1s"}


def operation(noida: NoidaBroker, seed: int, number: int) -> Counter[str]:
    """A write that dies, and the next one. Raises ``AssertionError``."""
    chance = random.Random(f"{seed} fencing {number}")
    partitions = chance.choice((1, 3))
    topic = noida.create_topic(partitions=partitions)
    tasks = [
        [(b"%d %d" % (task, row), chance.randrange(partitions)) for row in range(chance.choice((0, 1, 5)))]
        for task in range(chance.choice((1, 3, 6)))
    ]
    options = {"kafka.transactional.id": topic, "batch": "1", **_IMPATIENT}
    with dying(chance.randrange(_REQUESTS), after_it=chance.random() < 0.5) as died:
        OnceWrite(noida.bootstrap_servers, topic, tasks, options).run()
    replication_ms = chance.choice(_REPLICATION_MS)
    with SlowReplication(noida.port, replication_ms) as proxy:
        OnceWrite(proxy.bootstrap_servers, topic, tasks, options).run()
    refused = dict(proxy.refused)
    assert not refused, f"refused, as replication takes {replication_ms:g} ms: {refused}"
    await_readers(noida.bootstrap_servers, topic, partitions, WAITING_MAX_S)
    due = sorted(value for task in tasks for value, _ in task)
    found = committed(noida.bootstrap_servers, topic, partitions)
    assert found == due, f"{found} instead of {due}"
    return Counter({EXACT: 1, "died": len(died)})
