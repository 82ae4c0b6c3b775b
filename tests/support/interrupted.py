"""Tests of jobs/transactions.py on interrupted writes, the same for every broker with transactions."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, ClassVar, Final

import pytest

from spark_kafkawire.errors import DeliveryError
from spark_kafkawire.jobs import transactions
from spark_kafkawire.jobs.transactions import FinishPlan, finish
from spark_kafkawire.options import WriteOptions
from tests.jobs.submitting import command
from tests.support import librdkafka
from tests.support.exactly_once import OnceWrite, committed, dying

SCRIPT: Final = command("transactions")
PARTITIONS: Final = 2
TASKS: Final = [[(b"a", 0), (b"b", 1)], [(b"c", 1)], []]
VALUES: Final = [b"a", b"b", b"c"]
#: More requests about transactions than the write makes.
REQUESTS_MAX: Final = 40


@dataclass(frozen=True)
class TransactionsJob:
    """The job, run in this process against one cluster."""

    bootstrap_servers: str
    capsys: pytest.CaptureFixture[str]

    def run(self, *argv: str) -> tuple[int, str, str]:
        """Exit code, stdout, stderr."""
        connection = f"--option=kafka.bootstrap.servers={self.bootstrap_servers}"
        code = SCRIPT.JOB.main(["--quiet", connection, *argv])
        reported = self.capsys.readouterr()
        return code, reported.out, reported.err

    def reported(self, *argv: str) -> Any:
        """The summary of a run that is done."""
        code, out, err = self.run("--json", *argv)
        assert code == 0, err  # a broker that has just begun is waited for, which is told there
        return json.loads(out)

    def ended(self, name: str) -> Any:
        """Report of a run that was forced to end a write."""
        return self.reported("--transactional-id", name, "--finish", "--force")


def once(servers: str, topic: str, name: str, tasks: Any = TASKS) -> OnceWrite:
    return OnceWrite(servers, topic, tasks, {"kafka.transactional.id": name})


def new_topic(servers: str) -> str:
    return librdkafka.create_topic(servers, PARTITIONS, None, {})


class OfAnyBroker:
    """Tests that hold for each broker. A write dies at each of its requests, or at every ``step``-th."""

    step: ClassVar = 1

    def test_a_write_that_died_anywhere_is_finished_by_its_decision(self, job: TransactionsJob) -> None:
        """It is there wholly after the job where it was decided, else not at all."""
        was_decided, kinds = False, set()
        for at in range(0, REQUESTS_MAX, self.step):
            topic = new_topic(job.bootstrap_servers)
            with dying(at, after_it=True) as died:
                once(job.bootstrap_servers, topic, topic).run()
            if not died:
                break
            before = job.reported("--transactional-id", topic)
            # One that is ending may have ended before the job looks again.
            left = [item["id"] for item in before["transactions"] if item["state"] == "Ongoing"]
            was_decided = bool(before["decisions"])
            ended = job.ended(topic)
            assert set(left) <= {*ended["committed"], *ended["aborted"]}
            decided = {id_ for item in before["decisions"] for id_ in item["to_commit"]}
            assert decided & set(left) <= set(ended["committed"]) <= decided
            assert committed(job.bootstrap_servers, topic, PARTITIONS) == (VALUES if was_decided else [])
            kinds |= {kind for kind in ("committed", "aborted") if ended[kind]}
            after = job.reported("--transactional-id", topic)
            assert (after["transactions"], after["waiting"]) == ([], [])
            nothing = job.reported("--transactional-id", topic, "--finish")
            assert nothing == {"committed": [], "aborted": []}
        assert at > 15
        assert was_decided
        assert kinds == {"committed", "aborted"}

    def test_a_decision_after_the_plan_is_reported_as_committed(
        self, job: TransactionsJob, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A driver decides, and dies, after the job has asked the brokers and before it takes over."""
        topic = new_topic(job.bootstrap_servers)
        write = once(job.bootstrap_servers, topic, topic)
        made = write.writer()
        messages = [write.message(made, number) for number in range(3)]

        def decided_first(options: WriteOptions, plan: FinishPlan) -> dict[str, list[str]]:
            assert (plan.commit, len(plan.abort)) == ((), 2)
            # Asks about both transactions, commits the decision and its transaction.
            with dying(3, after_it=True) as died:
                made.commit(messages)
            assert died
            return finish(options, plan)

        monkeypatch.setattr(transactions, "finish", decided_first)
        ids = sorted(message.transaction.id for message in messages[:2])
        ended = job.ended(topic)
        assert (sorted(ended["committed"]), ended["aborted"]) == (ids, [])
        assert committed(job.bootstrap_servers, topic, PARTITIONS) == VALUES

    def test_a_write_that_may_run_is_left_alone_unless_forced(self, job: TransactionsJob) -> None:
        """It is shown, refused without --force, and the write goes on."""
        topic = new_topic(job.bootstrap_servers)
        write = once(job.bootstrap_servers, topic, topic)
        made = write.writer()
        messages = [write.message(made, number) for number in range(3)]

        result = job.reported("--transactional-id", topic)
        ids = sorted(message.transaction.id for message in messages[:2])
        assert sorted(item["id"] for item in result["transactions"]) == ids
        for item in result["transactions"]:
            assert (item["write"], item["state"], item["is_decided"]) == (topic, "Ongoing", False)
            assert 0 <= item["age_s"] < 600
        # a and b, c: one record in partition 0, two in the other, and no marker yet.
        waits = [
            (item["partition"], item["last_stable_offset"], item["end_offset"]) for item in result["waiting"]
        ]
        assert waits == [(0, 0, 1), (1, 0, 2)]
        assert sorted(result["waiting"][1]["transactions"]) == ids

        code, out, err = job.run("--transactional-id", topic, "--finish")
        assert (code, out) == (2, "")
        assert err.startswith("transactions: argument --finish: 2 transaction(s) of ")
        assert "check that none does, and add --force" in err
        planned = job.reported("--transactional-id", topic, "--finish", "--dry-run")
        assert (planned["dry_run"], planned["committed"], sorted(planned["aborted"])) == (True, [], ids)
        made.commit(messages)
        assert committed(job.bootstrap_servers, topic, PARTITIONS) == VALUES

    def test_a_write_that_runs_is_ended_by_force_and_says_so(self, job: TransactionsJob) -> None:
        topic = new_topic(job.bootstrap_servers)
        write = once(job.bootstrap_servers, topic, topic)
        made = write.writer()
        messages = [write.message(made, number) for number in range(3)]
        assert len(job.ended(topic)["aborted"]) == 2
        with pytest.raises(DeliveryError, match=r"is not open any more: .*nothing of this run is committed"):
            made.commit(messages)
        assert committed(job.bootstrap_servers, topic, PARTITIONS) == []
        write.run()
        assert committed(job.bootstrap_servers, topic, PARTITIONS) == VALUES
