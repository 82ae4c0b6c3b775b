"""Kills of a driver with two streams into tables: ``append_once`` into one, and ``fan_out`` into two."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from . import librdkafka
from .foreign import Record
from .noida import NoidaBroker
from .stream_kills import Killer, Stream

KILLS: Final = int(os.environ.get("KAFKAWIRE_TABLE_KILLS", "50"))
SEED: Final = int(os.environ.get("KAFKAWIRE_STREAM_SEED", "1"))


def kill_and_check(
    noida: NoidaBroker,
    folder: Path,
    form: str,
    tables: Mapping[str, str],
    kills: int,
    read: Callable[[str], DataFrame],
    settings: Mapping[str, str] | None = None,
) -> None:
    """Kill the driver so often; count, sum and number of different values of each table are those sent."""
    one, odd, even = (noida.create_topic(partitions=2) for _ in range(3))

    def stream(topics: list[str], routes: dict[str, str]) -> Stream:
        def send(values: list[bytes]) -> None:
            for value, topic in enumerate(topics):
                mine = [Record(item) for item in values if int(item) % len(topics) == value]
                librdkafka.produce(noida.bootstrap_servers, topic, mine)

        options = {"kafka.bootstrap.servers": noida.bootstrap_servers, "subscribe": ",".join(topics)}
        written = {"tables": json.dumps(routes), "format": form}
        return Stream({**options, "startingOffsets": "earliest"}, written, send)

    streams = {
        "append": stream([one], {"*": tables["one"]}),
        "fan out": stream([even, odd], {even: tables["even"], odd: tables["odd"]}),
    }
    killer = Killer(streams, folder, SEED, settings)
    killer.run(kills, 0)
    expected = {
        "one": range(killer.sent["append"]),
        "even": range(0, killer.sent["fan out"], 2),
        "odd": range(1, killer.sent["fan out"], 2),
    }
    for name, numbers in expected.items():
        result = read(tables[name]).agg(F.count("n"), F.sum("n"), F.count_distinct("n")).first()
        assert tuple(result or ()) == (len(numbers), sum(numbers), len(numbers)), name
    print({(kill.query, kill.step) for kill in killer.kills})
