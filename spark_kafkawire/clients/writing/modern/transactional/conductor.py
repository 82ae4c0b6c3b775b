"""The driver's part of a write: what earlier ones left is ended, and all of this one committed or aborted.

conductor = Conductor.begin(options)        # on the driver, before the tasks
conductor.commit(write)                     # after them; or conductor.undo(write)
"""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Sequence

from .....cluster.modern.metadata import Metadata
from .....cluster.modern.transactions import Transaction, Transactions
from .....errors import (
    BrokerError,
    DeliveryError,
    KafkaWireError,
    OptionError,
    UnsupportedVersionError,
    quoted,
)
from .....options import WriteOptions
from .....protocol.modern.error_codes import ErrorCode
from .....protocol.modern.list_transactions import ONGOING
from .asking import Asker
from .driver import Driver
from .names import attempt_ids, driver_id
from .records import BatchId, Decision
from .requests import Begin, Refused
from .rights import check_rights, refused_id
from .steps import DriverStep, Write
from .timeouts import DRIVER_TIMEOUT_MS_MAX, NO_TIMEOUT_MS, timeout_ms_of

_log = logging.getLogger("spark_kafkawire")


class Conductor:
    """The driver of one write. ``timeout_ms`` is that of the tasks' transactions, ``began_s`` when the write
    began, in seconds since 1970. It travels to where Spark commits, with what it knew when it was made."""

    def __init__(self, options: WriteOptions, driver: Driver, timeout_ms: int) -> None:
        self._options = options
        self._driver = driver
        self.timeout_ms = timeout_ms
        self.began_s = time.time()
        #: The pattern of the ids of attempts that are over once this write is: all of the name in a stream,
        #: which takes its name over twice a batch, and the second time with tasks that wait to be committed.
        self._over = attempt_ids(driver.prefix)

    @classmethod
    def begin(cls, options: WriteOptions, batch: BatchId | None = None) -> Conductor:
        """Take the name over, finish what was decided before, and sweep away what was not. ``batch`` is None
        for streams, which sweep when a batch is done.

        Raises ``OptionError`` (fatal) for brokers without transactions, rights that the user lacks, a timeout
        that is too long, records of others, and a batch that may not be written now; ``DeliveryError`` where
        brokers fail.
        """
        assert options.transactions is not None
        prefix = options.transactions.prefix
        metadata = Metadata(options.discovery.bootstrap_servers, options.net)
        try:
            timeout_ms = timeout_ms_of(options, Transactions(metadata, options.net), driver_id(prefix))
        except BrokerError as error:
            if error.code != ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED:
                raise
            raise refused_id(prefix, error) from error
        conductor = cls(options, Driver.begin(prefix), timeout_ms)
        conductor._run(conductor._asker(metadata))
        # Who has written to the topic under this name had the rights.
        if conductor.last is None or conductor.last.topic != options.topic:
            check_rights(metadata, options.net, prefix, options.topic)
        if conductor._driver.step is DriverStep.FAILED:
            raise DeliveryError(conductor._driver.failure)
        if batch is not None and (fault := conductor._driver.fault_of(batch)):
            raise OptionError(f"option batch: {fault}")
        if batch is not None:
            conductor._sweep(metadata, conductor._over)
            conductor._over = attempt_ids(prefix, conductor.nonce)
        return conductor

    @property
    def last(self) -> Decision | None:
        """What was decided last of the writes of the name."""
        return self._driver.last

    @property
    def nonce(self) -> str:
        """What no other run of the name has."""
        transaction = self._driver.transaction
        assert transaction is not None
        return f"{transaction.producer_id}.{transaction.epoch}"

    def may_hold(self, batch: BatchId) -> bool:
        """Whether tasks may find that rows of a batch are there."""
        return self._driver.may_hold(batch)

    def commit(self, write: Write) -> None:
        """Commit what all tasks wrote. Raises ``DeliveryError`` (fatal) where it is not proven to be done."""
        began_s = time.monotonic()
        self._driver = self._driver.commit(write)
        metadata = self._run_anew()
        step, failure = self._driver.step, self._driver.failure
        if step is DriverStep.ABORTED:
            raise DeliveryError(f"{failure}; nothing that this run wrote is there")
        if step is not DriverStep.DONE:
            raise DeliveryError(
                f"{failure}; whether the write is there, wholly, in part or not at all, the next run with "
                f"kafka.transactional.id={self._driver.prefix} settles{self._until()}"
            )
        if failure:
            _log.warning("all is committed, and that could not be noted: %s", failure)
        if write.busy:
            # Also where all was there: an attempt that was late may have left a transaction open then.
            self._sweep(metadata, self._over)
        if write.open:
            _log.info(
                "committed %d transaction(s) of %s in %.3f s",
                *(len(write.open), quoted(self._driver.prefix), time.monotonic() - began_s),
            )

    def undo(self, write: Write) -> str:
        """Abort what the tasks wrote, or finish what was decided; what came of it."""
        self._driver = self._driver.undo(write)
        metadata = self._run_anew()
        if self._driver.step is DriverStep.ABORTED:
            self._sweep(metadata, self._over)
            return "nothing that this run wrote is there"
        if self._driver.step is DriverStep.DONE:
            return "it had been decided, and all of it is there"
        name = f"kafka.transactional.id={self._driver.prefix}"
        return f"{self._driver.failure}; the next run with {name} settles it"

    def _until(self) -> str:
        """Until when the next run must have come."""
        if self.timeout_ms == NO_TIMEOUT_MS:
            return ""
        return f", which should come within {self.timeout_ms / 1000:g} s"

    def _run_anew(self) -> Metadata:
        metadata = Metadata(self._options.discovery.bootstrap_servers, self._options.net)
        self._run(self._asker(metadata))
        return metadata

    def _asker(self, metadata: Metadata) -> Asker:
        return Asker(metadata, self._options.net, min(self.timeout_ms, DRIVER_TIMEOUT_MS_MAX))

    def _run(self, asker: Asker) -> None:
        while due := self._driver.requests():
            for request, answer in zip(due, asker.answers(due), strict=True):
                if request in self._driver.requests():  # what an answer made needless is not heard any more
                    self._driver = self._driver.answered(request, answer)

    def _sweep(self, metadata: Metadata, ids: str) -> None:
        """Abort what attempts have left open, whose ids are like that pattern: nobody decides about it any
        more, and it keeps readers waiting. Brokers before 3.0 list none: there it times out."""
        transactions = Transactions(metadata, self._options.net)
        try:
            listed = transactions.listed((ONGOING,))
        except UnsupportedVersionError:
            return
        except KafkaWireError as error:
            _log.warning("transactions that were left open could not be listed, and time out: %s", error)
            return
        left = [each.transactional_id for each in listed if re.fullmatch(ids, each.transactional_id)]
        if left:
            self.sweep(left, metadata)

    def sweep(self, ids: Sequence[str], metadata: Metadata | None = None) -> None:
        """Abort what is open under these ids, of attempts that nobody decides about any more."""
        asker = self._asker(
            metadata or Metadata(self._options.discovery.bootstrap_servers, self._options.net)
        )
        answers = asker.answers([Begin(id_) for id_ in ids])
        for id_, answer in zip(ids, answers, strict=True):
            if isinstance(answer, Refused):
                _log.warning(
                    "the transaction %s is left open, until the next run of the name or its timeout: %s",
                    *(quoted(id_), answer.line),
                )


def open_of(messages: Sequence[Transaction | None]) -> tuple[Transaction, ...]:
    """The transactions that were left open, sorted, so that two processes have the same first one."""
    return tuple(sorted(each for each in messages if each is not None))
