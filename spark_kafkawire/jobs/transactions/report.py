"""The report of a run of ``transactions``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from spark_kafkawire.clients.writing.modern.transactional.write_state import Decision

from ..shell.aligned import aligned
from ..shell.progress import format_duration
from .survey import OpenTransaction, TransactionsSurvey, Waiting

_HEAD: Final = ("id", "state", "producer", "epoch", "age", "partitions", "decided")
_WAITING_HEAD: Final = ("topic", "partition", "readers wait at", "for", "transaction", "others")
_FOREIGN: Final = "not a write of kafkawire"


def table_of(found: TransactionsSurvey) -> Iterator[str]:
    """The lines of a report."""
    if found.transactions:
        yield from aligned([_HEAD, *map(_row, found.transactions)])
    else:
        yield "no transaction is open"
    held = [each for each in found.waiting if each.count]
    if held:
        yield ""
        yield from aligned([_WAITING_HEAD, *map(_waiting_row, held)])
    if found.decisions:
        yield ""
    for name, decision in found.decisions.items():
        yield f"{name}: {decided(decision)}"


def json_of(found: TransactionsSurvey) -> dict[str, Any]:
    """The report as one object."""
    return {
        "transactional_id": found.name,
        "transactions": [_transaction(each) for each in found.transactions],
        "waiting": [_waiting(each) for each in found.waiting],
        "decisions": [
            {
                "name": name,
                "serial": decision.serial,
                "batch": decision.batch.name,
                "number": decision.batch.number,
                "tasks": decision.tasks,
                "to_commit": [each.id for each in decision.open],
                "lost": decision.lost,
            }
            for name, decision in found.decisions.items()
        ],
    }


def decided(decision: Decision) -> str:
    """A decision in a sentence."""
    what = f"batch {decision.batch}, {decision.tasks} task(s),"
    if decision.open:
        return f"{what} is decided, and {len(decision.open)} transaction(s) are to be committed"
    if decision.lost:
        return f"{what} {decision.loss}"
    return f"{what} is committed"


def _row(each: OpenTransaction) -> tuple[str, ...]:
    decision = _FOREIGN if each.write is None else "to be committed" if each.is_decided else "no"
    partitions = f"{len(each.partitions)}"
    return (
        each.id,
        each.state,
        f"{each.producer_id}",
        f"{each.epoch}",
        format_duration(each.age_s),
        partitions,
        decision,
    )


def _waiting_row(each: Waiting) -> tuple[str, ...]:
    first, *others = each.ids
    place = each.topic_partition.topic, f"{each.topic_partition.partition}", f"{each.stable_offset}"
    return *place, f"{each.count:,} offset(s)", first, f"{len(others)}"


def _transaction(each: OpenTransaction) -> dict[str, Any]:
    return {
        "id": each.id,
        "write": each.write,
        "state": each.state,
        "producer_id": each.producer_id,
        "epoch": each.epoch,
        "began_ms": each.began_ms,
        "age_s": round(each.age_s, 1),
        "timeout_ms": each.timeout_ms,
        "partitions": [{"topic": tp.topic, "partition": tp.partition} for tp in each.partitions],
        "is_decided": each.is_decided,
    }


def _waiting(each: Waiting) -> dict[str, Any]:
    return {
        "topic": each.topic_partition.topic,
        "partition": each.topic_partition.partition,
        "last_stable_offset": each.stable_offset,
        "end_offset": each.end_offset,
        "offsets_waiting": each.count,
        "transactions": [*each.ids],
    }
