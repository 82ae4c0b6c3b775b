"""Failures of Kerberos as errors that say what to do.

Source: the error codes of RFC 4120, and of MIT's krb5_err.et and k5e1_err.et.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from spark_kafkawire.errors import AuthenticationError, ConnectFailed, KafkaWireError, printable

from .library import GssapiError

#: The number of the first error of krb5_err.et: those of RFC 4120 follow it by their codes.
_BASE: Final = -1765328384
_CLIENT_UNKNOWN: Final = _BASE + 6
_SERVER_UNKNOWN: Final = _BASE + 7
_NOT_YET_VALID: Final = _BASE + 33
_EXPIRED: Final = _BASE + 32
_CLOCK_SKEW: Final = _BASE + 37
_WRONG_KEY: Final = (_BASE + 24, _BASE + 31)  # pre-authentication, integrity
_NO_SUCH_KDC: Final = (_BASE + 154, _BASE + 220)  # no such realm, its host cannot be resolved
_KDC_UNREACHABLE: Final = _BASE + 156
_SKEW_IN_REPLY: Final = _BASE + 148
#: No file, no ticket in it, none of this principal.
_NO_TICKET: Final = (_BASE + 195, _BASE + 141, 39756032)
_NO_DEFAULT_REALM: Final = _BASE + 224

_CLOCKS: Final = (
    "the clocks of this machine and of the KDC differ by more than Kerberos allows, 5 minutes by default: "
    "set them by NTP"
)
_KINIT: Final = (
    "run kinit as the user of the driver and of the executors, and again before the ticket expires, or set "
    "useKeyTab=true with keyTab and principal in kafka.sasl.jaas.config"
)
_OTHER_KEY: Final = (
    "the KDC has another key of the principal than the key tab, as after a change of its password: export "
    "the key tab again"
)
#: What to do where no KDC answers.
NETWORK: Final = "check kdc of the realm in krb5.conf (KRB5_CONFIG), and that this machine can reach it"
_PRINCIPAL: Final = "the KDC has no such principal: check principal of kafka.sasl.jaas.config"
_SERVICE: Final = (
    "the KDC has no such service: check kafka.sasl.kerberos.service.name, and that brokers have the host "
    "names of their principals, not addresses"
)
_REALM: Final = "set default_realm in krb5.conf (KRB5_CONFIG), or name the realm in the principal"
#: What to do, by the number of the error.
_FATAL: Final[Mapping[int, str]] = {
    _CLIENT_UNKNOWN: _PRINCIPAL,
    _SERVER_UNKNOWN: _SERVICE,
    _EXPIRED: f"the ticket has expired: {_KINIT}",
    _NOT_YET_VALID: _CLOCKS,
    _CLOCK_SKEW: _CLOCKS,
    _SKEW_IN_REPLY: _CLOCKS,
    _NO_DEFAULT_REALM: _REALM,
    **dict.fromkeys(_WRONG_KEY, _OTHER_KEY),
    **dict.fromkeys(_NO_TICKET, f"the cache has no ticket of this user: {_KINIT}"),
}
_RETRIABLE: Final[Mapping[int, str]] = {
    _KDC_UNREACHABLE: f"no KDC answers: {NETWORK}",
    **dict.fromkeys(_NO_SUCH_KDC, f"no KDC is found: {NETWORK}"),
}


def error_of(failure: GssapiError, what: str) -> KafkaWireError:
    """The error for a failure: fatal, but for a KDC that does not answer. ``what`` says what failed."""
    code = _EXPIRED if failure.has_expired else failure.code
    advice = _RETRIABLE.get(code) or _FATAL.get(code)
    reason = printable(failure) if advice is None else f"{advice} ({printable(failure)})"
    kind = ConnectFailed if code in _RETRIABLE else AuthenticationError
    return kind(f"SASL GSSAPI: {what}: {reason}")
