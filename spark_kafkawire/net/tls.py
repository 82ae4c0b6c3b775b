"""TLS 1.2 and later over a TCP connection, with PEM text for trusted certificates and the client's key."""

from __future__ import annotations

import contextlib
import functools
import re
import ssl
import tempfile
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from ..errors import (
    AuthenticationError,
    ConnectFailed,
    ConnectionLost,
    KafkaWireError,
    OptionError,
    printable,
    quote,
)
from .transport import Deadline, Transport, reason

#: Most bytes that one TLS record carries. Small buffers are joined up to this size.
RECORD_BYTES_MAX: Final = 1 << 14
#: OpenSSL's codes of a certificate for another name or address (X509_V_ERR_HOSTNAME_MISMATCH, …).
_WRONG_NAME_CODES: Final = (62, 63, 64)
#: The same of one that is not valid yet, and one that has expired.
_WRONG_TIME_CODES: Final = (9, 10)
#: OpenSSL's reasons for bytes that are not TLS. They depend on its version and on the bytes.
_NOT_TLS: Final = ("WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE", "PACKET_LENGTH_TOO_LONG", "HTTP_REQUEST")
#: The location in Python's source that an error message contains.
_OF_SOURCE: Final = re.compile(r" ?\(_ssl\.c:[0-9]+\)")
#: OpenSSL's reasons for peers that have no suite in common with the client, and often for other ones.
_NO_SUITE: Final = ("SSLV3_ALERT_HANDSHAKE_FAILURE", "TLSV1_ALERT_INSUFFICIENT_SECURITY")
_TOO_OLD: Final = ("UNSUPPORTED_PROTOCOL", "PROTOCOL_VERSION", "NO_PROTOCOLS_AVAILABLE")


class TlsNames(NamedTuple):
    """Words of errors: the beginning of the names of the options, and the advice for a peer without TLS."""

    options: str
    plaintext: str


OF_BROKERS: Final = TlsNames(
    "kafka.ssl.", "does this port need kafka.security.protocol=PLAINTEXT or SASL_PLAINTEXT?"
)

OF_REGISTRY: Final = TlsNames("schema.registry.ssl.", "does this port need http:// in schema.registry.url?")


_VERSION_NAMES: Final = {ssl.TLSVersion.TLSv1_2: "TLS 1.2", ssl.TLSVersion.TLSv1_3: "TLS 1.3"}


class TlsLimits(NamedTuple):
    """Versions of TLS, and OpenSSL's names of cipher suites of TLS 1.2; without names OpenSSL chooses."""

    lowest: ssl.TLSVersion = ssl.TLSVersion.TLSv1_2
    highest: ssl.TLSVersion = ssl.TLSVersion.TLSv1_3
    suites: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Tls:
    """Trusted certificates and the client's own. Plain data; secrets are in no repr.

    ``trust`` are PEM certificates, or None for the authorities that the system trusts;
    ``adds_system_trust`` adds those to ``trust``.
    ``identity`` is one PEM text with the client's private key and its chain of certificates, or None if
    brokers do not require it.
    """

    trust: str | None = field(default=None, repr=False)
    identity: str | None = field(default=None, repr=False)
    key_password: str | None = field(default=None, repr=False)
    checks_host_name: bool = True
    adds_system_trust: bool = False
    names: TlsNames = OF_BROKERS
    limits: TlsLimits = TlsLimits()


@functools.lru_cache(maxsize=8)
def context(tls: Tls) -> ssl.SSLContext:
    """OpenSSL's context, cached because reading the system's authorities takes 10 ms.

    Raises ``OptionError`` (fatal) for invalid texts.
    """
    made = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    made.minimum_version = tls.limits.lowest
    if tls.limits.highest != TlsLimits().highest:  # else a limit of the system would be lifted
        made.maximum_version = tls.limits.highest
    made.check_hostname = tls.checks_host_name
    # Java trusts every certificate of a trust store, not only roots.
    made.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    if tls.trust is None or tls.adds_system_trust:
        made.load_default_certs()
    try:
        if tls.trust is not None:
            made.load_verify_locations(cadata=tls.trust)
    except (ssl.SSLError, ValueError) as error:
        raise OptionError(
            f"options {tls.names.options}truststore.*: cannot read a certificate: {_words(error)}; give a "
            "store that keytool or openssl reads"
        ) from error
    if tls.identity is not None:
        _load_identity(made, tls.identity, tls.key_password, tls.names.options)
    if tls.limits.suites:
        _set_suites(made, tls.limits.suites, tls.names.options)
    return made


def _set_suites(made: ssl.SSLContext, suites: tuple[str, ...], options: str) -> None:
    """OpenSSL ignores unknown suites. It raises an error only if it knows none."""
    with contextlib.suppress(ssl.SSLError):
        made.set_ciphers(":".join(suites))
    lacking = set(suites) - {item["name"] for item in made.get_ciphers()}
    if lacking:
        raise OptionError(
            f"option {options}cipher.suites: {ssl.OPENSSL_VERSION} of this machine does not offer "
            f"{', '.join(sorted(lacking))} (OpenSSL's names); leave them out"
        )


def _load_identity(made: ssl.SSLContext, identity: str, key_password: str | None, options: str) -> None:
    try:
        # OpenSSL reads keys only from files. Only this user can read this one, and it is deleted at once.
        with tempfile.NamedTemporaryFile("w", encoding="ascii") as file:
            file.write(identity)
            file.flush()
            # Without a function for the password, OpenSSL would ask for it at the terminal.
            made.load_cert_chain(file.name, password=lambda: key_password or "")
    except (ssl.SSLError, ValueError) as error:
        raise OptionError(
            f"options {options}keystore.*: cannot read a private key with its certificate"
            f"{f' with this {options}key.password' if key_password else ''}: {_words(error)}; check that "
            "they belong together"
        ) from error


class TlsTransport(Transport):
    """TLS connection."""

    _sock: ssl.SSLSocket
    # OpenSSL buffers a part of the received bytes, so the system does not know how many are available.
    _has_marks = False

    def __init__(self, sock: ssl.SSLSocket, tls: Tls) -> None:
        super().__init__(sock)
        self._tls = tls

    @classmethod
    def over(cls, plain: Transport, tls: Tls, host: str, deadline: Deadline) -> TlsTransport:
        """Start TLS on a TCP connection, which is closed on failure.

        Raises ``OptionError`` (fatal) for texts that the OpenSSL of this machine cannot use,
        ``AuthenticationError`` (fatal) if one side rejects the other, ``ConnectFailed`` (retriable).
        """
        try:
            host.encode("idna")  # Python does this only after it has detached the socket
            sock = context(tls).wrap_socket(
                plain.detach(), server_hostname=host, do_handshake_on_connect=False
            )
        except OptionError:  # also a ValueError, but a retry does not help
            plain.close()
            raise
        except (OSError, ValueError) as error:  # ValueError: a host that cannot be in a certificate
            plain.close()
            raise ConnectFailed(
                f"no TLS connection to {quote(host)}: {_words(error)}; check that this port takes TLS, and "
                "kafka.security.protocol"
            ) from error
        secured = cls(sock, tls)
        try:
            sock.settimeout(deadline.remaining_s())
            sock.do_handshake()
        except OSError as error:
            secured.close()
            raise _handshake_error(error, host, deadline, tls) from error
        except BaseException:
            secured.close()
            raise
        return secured

    @property
    def peer(self) -> tuple[str, float]:
        """The version of TLS, and when the peer's certificate ends, seconds since 1970."""
        ends: Any = (self._sock.getpeercert() or {})["notAfter"]
        return self._sock.version() or "TLS", ssl.cert_time_to_seconds(ends)

    def is_quiet(self) -> bool:
        """True if the connection is open and the peer has sent nothing."""
        return super().is_quiet() and not self._sock.pending()

    def _write(self, views: list[memoryview]) -> int:
        count, size = 1, len(views[0])
        while count < len(views) and size + len(views[count]) <= RECORD_BYTES_MAX:
            size += len(views[count])
            count += 1
        return self._sock.send(b"".join(views[:count]) if count > 1 else views[0])

    def _lost(self, error: OSError, deadline: Deadline) -> KafkaWireError:
        if isinstance(error, TimeoutError):
            return super()._lost(error, deadline)
        # With TLS 1.3 the broker rejects a certificate after the handshake.
        alert = error if _is_alert(error) else self._last_alert()
        return (
            _describe_refusal(alert, self._tls)
            if alert
            else ConnectionLost(
                f"the connection broke: {_words(error)}; see the log of the peer, and the network"
            )
        )

    def _last_alert(self) -> OSError | None:
        """The alert that the broker sent before it closed: a failed send has not read it yet."""
        try:
            self._sock.settimeout(0)
            self._sock.recv(1)
        except OSError as error:
            return error if _is_alert(error) else None
        return None


def _is_alert(error: OSError) -> bool:
    return "ALERT" in (getattr(error, "reason", None) or "")


def _handshake_error(error: OSError, host: str, deadline: Deadline, tls: Tls) -> KafkaWireError:
    """The error for a failed handshake, with its cause and what to do."""
    names = tls.names
    if isinstance(error, ssl.SSLCertVerificationError):
        return _describe_untrusted(error, host, names)
    if isinstance(error, TimeoutError):
        return ConnectFailed(f"no TLS handshake within {deadline}; {names.plaintext}")
    result = getattr(error, "reason", None) or ""
    if any(word in result for word in _TOO_OLD):
        return _no_version(tls)
    if any(word in result for word in _NOT_TLS):
        return AuthenticationError(f"the peer does not speak TLS; {names.plaintext}")
    if _is_alert(error):
        return _describe_refusal(error, tls)
    return ConnectFailed(f"the TLS handshake failed: {_words(error)}; {names.plaintext}")


def _describe_untrusted(
    error: ssl.SSLCertVerificationError, host: str, names: TlsNames
) -> AuthenticationError:
    if error.verify_code in _WRONG_NAME_CODES:
        advice = (
            f"connect with a host name of the certificate instead of {quote(host)}, or set "
            f"{names.options}endpoint.identification.algorithm to an empty value, which disables the check"
        )
    elif error.verify_code in _WRONG_TIME_CODES:
        advice = "renew it at the server, or set the clock of this machine"
    else:
        advice = f"set {names.options}truststore.location to a store of the authorities to trust"
    return AuthenticationError(
        f"the server's certificate is not trusted: {printable(error.verify_message)}; {advice}"
    )


def _no_version(tls: Tls) -> AuthenticationError:
    options = tls.names.options
    if (tls.limits.lowest, tls.limits.highest) == (TlsLimits().lowest, TlsLimits().highest):
        return AuthenticationError(
            "the server does not support TLS 1.2 or later; set its ssl.enabled.protocols"
        )
    version = _VERSION_NAMES[tls.limits.lowest]
    return AuthenticationError(
        f"the server does not support {version}, the only version that {options}enabled.protocols, "
        f"{options}protocol and {options}cipher.suites leave; change them, or its ssl.enabled.protocols"
    )


def _describe_refusal(error: OSError, tls: Tls) -> AuthenticationError:
    names = tls.names
    if tls.limits.suites and getattr(error, "reason", None) in _NO_SUITE:
        return AuthenticationError(
            f"the server refuses the TLS connection: {_words(error)}; does it support a suite of "
            f"{names.options}cipher.suites, and does it require a client certificate "
            f"({names.options}keystore.location)?"
        )
    return AuthenticationError(
        f"the server refuses the TLS connection: {_words(error)}; if it requires a client "
        f"certificate, set {names.options}keystore.location to a store of key and certificates"
    )


def _words(error: Exception) -> str:
    """OpenSSL's reason as words: ``TLSV13_ALERT_CERTIFICATE_REQUIRED`` as ``certificate required``."""
    result = getattr(error, "reason", None)
    if isinstance(error, ssl.SSLEOFError) or result == "UNEXPECTED_EOF_WHILE_READING":
        return "the peer closed the connection"
    if isinstance(result, str):
        return printable(result.rpartition("ALERT_")[2].replace("_", " ").lower())
    return _OF_SOURCE.sub("", reason(error))
