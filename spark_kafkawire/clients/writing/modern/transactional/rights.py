"""The rights that a write needs which is there wholly or not at all, told before it has rows."""

from __future__ import annotations

from .....cluster.modern.metadata import Metadata
from .....cluster.modern.rights import Right, may_do_to_group, may_do_to_topic
from .....errors import BrokerError, OptionError, quoted
from .....options import NetOptions
from .....protocol.modern.error_codes import ErrorCode
from .names import driver_id


def check_rights(metadata: Metadata, net: NetOptions, prefix: str, topic: str | None) -> None:
    """Raise ``OptionError`` (fatal) that names a right which the user lacks, as far as brokers tell.

    Read on the topic is for the records of batches, which groups keep beside a log of it. ``topic`` is None
    where rows name theirs.
    """
    if not _may_read_group(metadata, net, driver_id(prefix)):
        raise _lacks(f"Read on groups that begin with {quoted(prefix)}")
    for right in (Right.WRITE, Right.READ) if topic is not None else ():
        assert topic is not None
        if may_do_to_topic(metadata, topic, right) is False:
            raise _lacks(f"{right.name.title()} on topic {quoted(topic)}")


def refused_id(prefix: str, error: BrokerError) -> OptionError:
    """The same of transactional ids, by what a broker said."""
    return _lacks(f"Write on transactional ids that begin with {quoted(prefix)}", f": {error}")


def _may_read_group(metadata: Metadata, net: NetOptions, group: str) -> bool:
    try:
        return may_do_to_group(metadata, group, Right.READ, net) is not False
    except BrokerError as error:  # FindCoordinator refuses, too
        if error.code != ErrorCode.GROUP_AUTHORIZATION_FAILED:
            raise
        return False


def _lacks(what: str, said: str = "") -> OptionError:
    return OptionError(
        f"option delivery: exactly-once needs the right {what}, which this user lacks; have an administrator "
        f"grant it, or log in as another user (kafka.sasl.jaas.config){said}"
    )
