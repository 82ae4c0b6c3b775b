"""A migration that is killed at any moment and run again, and one that wakes up when its time is over."""

from __future__ import annotations

import random
import shutil
import signal
import time
from pathlib import Path

from spark_kafkawire.broker import EmbeddedCluster
from tests.support.corpus import GZIP_TOPIC, recorded
from tests.support.freezing import freeze
from tests.support.noida import NoidaBroker
from tests.support.polling import poll
from tests.support.short_and_long import short_and_long

from ..drivers import Drivers
from .migrating import copied, driver_arguments


@short_and_long("kills_max", short=5, long=20)
def test_a_migration_that_is_killed_at_random_moments_copies_each_message_once(
    kills_max: int, drivers: Drivers, corpus: EmbeddedCluster, noida: NoidaBroker, tmp_path: Path
) -> None:
    draw = random.Random("20 moments")
    kills = migrations = 0
    whole_run_s = 0.0
    while kills < kills_max:
        name = f"killed-{kills_max}-{migrations}"
        code = -signal.SIGKILL
        while code != 0:
            began_s = time.monotonic()
            child = drivers.start(
                "migrate", driver_arguments(corpus, noida, tmp_path / name, {GZIP_TOPIC: name})
            )
            if migrations and kills < kills_max:
                time.sleep(draw.uniform(0, whole_run_s / 2))
                child.signal(signal.SIGKILL)
            code = drivers.ended(child)
            assert code in (0, -signal.SIGKILL), child.output.read_text()
            kills += code != 0
            # The first one is not killed: it tells how long the moments are.
            whole_run_s = whole_run_s or time.monotonic() - began_s
        assert copied(noida, name) == recorded()
        migrations += 1
    # How many there are depends on how slow the machine became meanwhile.
    assert migrations > 1


def test_a_run_that_wakes_up_after_another_took_its_place_adds_nothing(
    drivers: Drivers, corpus: EmbeddedCluster, noida: NoidaBroker, tmp_path: Path
) -> None:
    """As a driver or a task may that its machine had stopped: the lock of the directory is not seen there."""
    here, there = tmp_path / "here", tmp_path / "there"
    names = {GZIP_TOPIC: "woken"}
    frozen = drivers.start("migrate", driver_arguments(corpus, noida, here, names))
    poll(lambda: any(here.glob("migration-*.json")), "the first run to begin")
    time.sleep(0.1)
    freeze(frozen.pid)
    shutil.copytree(here, there)

    drivers.summary(drivers.start("migrate", driver_arguments(corpus, noida, there, names)))
    assert copied(noida, "woken") == recorded()
    frozen.signal(signal.SIGCONT)
    assert drivers.ended(frozen) in (0, 1)
    assert copied(noida, "woken") == recorded()
