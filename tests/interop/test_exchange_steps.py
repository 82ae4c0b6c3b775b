"""The proxy that follows an exactly-once write: it reports the steps of the write, and strikes there."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from spark_kafkawire.errors import DeliveryError
from tests.chaos.proxy import Upstream
from tests.support.exactly_once import OnceWrite, committed
from tests.support.noida import NoidaBroker

from .exchange_steps import Cut, Fault, Phase, Place, Stage, StagedProxy, Step

ROWS = [[(b"a", 0)], [(b"b", 1)]]


@pytest.fixture
def proxy(noida: NoidaBroker) -> Iterator[StagedProxy]:
    with StagedProxy([Upstream("0", noida.port, "kafka")], Stage()) as proxy:
        yield proxy


def write(proxy: StagedProxy, topic: str) -> OnceWrite:
    options = {"kafka.transactional.id": f"name-{topic}", "batch": "1", "requestTimeout": "1s"}
    impatient = {"brokerDownTimeout": "1s", "kafka.delivery.timeout.ms": "2s"}
    return OnceWrite(proxy.bootstrap_servers, topic, ROWS, {**options, **impatient})


def steps_of(stage: Stage) -> list[str]:
    """The steps that were asked for, each once, in their order."""
    asked = [line.split()[1] for line in stage.heard if "->" in line]
    return list(dict.fromkeys(step for step in asked if step != "OTHER"))


def test_the_steps_of_a_write_are_told_in_their_order(noida: NoidaBroker, proxy: StagedProxy) -> None:
    topic = noida.create_topic(partitions=2)
    write(proxy, topic).run()
    # What this broker, of one old protocol, is asked.
    ordered = [Step.TAKE_OVER, Step.READ, Step.BEGIN, Step.AWAITED, Step.JOIN, Step.ROWS, Step.HOLD]
    ordered += [Step.DECIDE, Step.DECISION, Step.FINISH, Step.COMPLETE, Step.MARK, Step.DONE]
    reported = steps_of(proxy.stage)
    assert [step for step in reported if step not in ("SWEEP", "CHECK")] == [step.name for step in ordered]
    assert (proxy.stage.phase, len(proxy.stage.begun)) == (Phase.AFTER, 2)
    proxy.stage.begin(None, lambda _: None)
    write(proxy, topic).run()
    assert steps_of(proxy.stage) == ["TAKE_OVER", "READ", "SWEEP", "BEGIN", "AWAITED", "TASK_READ", "CHECK"]


@pytest.mark.parametrize(
    ("fault", "phase"),
    [
        (Fault(Step.ROWS, nth=2), Phase.BEFORE),
        (Fault(Step.DECISION), Phase.BEFORE),
        (Fault(Step.DECISION, after_it=True), Phase.BETWEEN),
        (Fault(Step.FINISH, nth=2), Phase.BETWEEN),
        (Fault(Step.COMPLETE, nth=1), Phase.AFTER),
    ],
    ids=["rows", "before the decision", "after the decision", "second commit", "complete"],
)
def test_a_fault_strikes_once_at_its_step(
    noida: NoidaBroker, proxy: StagedProxy, fault: Fault, phase: Phase
) -> None:
    topic, struck = noida.create_topic(partitions=2), list[Place]()
    proxy.stage.begin(fault, cutting(struck))
    write(proxy, topic).run()
    assert [place.phase for place in struck] == [phase]
    assert committed(noida.bootstrap_servers, topic, 2) == [b"a", b"b"]


def cutting(struck: list[Place]) -> Callable[[Place], None]:
    """Cuts the connection, and notes where."""

    def cut(place: Place) -> None:
        struck.append(place)
        raise Cut("here")

    return cut


def test_where_the_network_is_gone_nothing_passes(noida: NoidaBroker, proxy: StagedProxy) -> None:
    topic = noida.create_topic(partitions=2)
    once = write(proxy, topic)
    made = once.writer()
    messages = [once.message(made, number) for number in range(len(ROWS))]
    proxy.stage.begin(Fault(Step.DECISION), lambda _: proxy.stage.cut_off(1000.0))
    with pytest.raises(DeliveryError, match="the next run with "):
        made.commit(messages)
    assert committed(noida.bootstrap_servers, topic, 2) == []
    proxy.stage.begin(None, lambda _: None)
    write(proxy, topic).run()
    assert committed(noida.bootstrap_servers, topic, 2) == [b"a", b"b"]
