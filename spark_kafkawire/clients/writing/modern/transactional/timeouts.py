"""How long transactions may be open: what the user sets, or the longest time that brokers allow."""

from __future__ import annotations

from typing import Final

from .....cluster.modern.transactions import Transactions
from .....errors import BrokerError, OptionError, UnsupportedVersionError
from .....options import WriteOptions
from .....protocol.modern.error_codes import ErrorCode

#: Timeouts that are tried where the user sets none, ms: 15 min is what brokers allow by default, and a longer
#: one would let a write that died keep readers waiting.
_TIMEOUTS_MS: Final = (900_000, 600_000, 300_000, 120_000, 60_000, 30_000, 10_000, 5_000)
#: What brokers make of the timeout where there is none.
NO_TIMEOUT_MS: Final = (1 << 31) - 1
#: Longest timeout of the driver's own transaction, ms: it is open for some requests only.
DRIVER_TIMEOUT_MS_MAX: Final = 60_000


def timeout_ms_of(options: WriteOptions, transactions: Transactions, id_: str) -> int:
    """A timeout that the brokers take. Raises ``OptionError`` (fatal) where they do not take the user's."""
    assert options.transactions is not None
    if options.transactions.two_phase_commit:
        _try_two_phase_commit(transactions, id_)
        return NO_TIMEOUT_MS
    wanted = options.transactions.timeout_ms
    for timeout_ms in _TIMEOUTS_MS if wanted is None else (wanted,):
        try:
            transactions.begin(id_, timeout_ms)
        except BrokerError as error:
            if error.code != ErrorCode.INVALID_TRANSACTION_TIMEOUT:
                raise
            refused = error
        except UnsupportedVersionError as error:
            raise OptionError(
                f"option delivery: exactly-once needs transactions, which Kafka has from 0.11 on: {error}"
            ) from error
        else:
            return timeout_ms
    raise OptionError(f"option kafka.transaction.timeout.ms: {refused}") from refused


def _try_two_phase_commit(transactions: Transactions, id_: str) -> None:
    """Raise ``OptionError`` (fatal) where brokers have no transactions that no timeout ends."""
    # Who may not use the id at all is told so: the code is the same.
    transactions.begin(id_, DRIVER_TIMEOUT_MS_MAX)
    try:
        transactions.begin(id_, DRIVER_TIMEOUT_MS_MAX, two_phase_commit=True)
    except UnsupportedVersionError as error:
        raise OptionError(
            "option twoPhaseCommit: brokers need InitProducerId 6, which Kafka from 4.1 on serves with "
            f"unstable.api.versions.enable=true: {error}"
        ) from error
    except BrokerError as error:
        if error.code != ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED:
            raise
        raise OptionError(
            "option twoPhaseCommit: brokers need transaction.two.phase.commit.enable=true, and the user the "
            f"right TwoPhaseCommit on transactional ids that begin with this one: {error}"
        ) from error
