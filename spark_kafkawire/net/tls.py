"""TLS over a TCP connection, from version 1.2 on, with PEM text for trust and for the client's key."""

from __future__ import annotations

import functools
import re
import ssl
import tempfile
from dataclasses import dataclass, field
from typing import Final

from ..errors import (
    AuthenticationError,
    ConnectFailed,
    ConnectionLost,
    KafkaWireError,
    OptionError,
    quoted,
    shown,
)
from .transport import Deadline, Transport, reason

#: Most bytes that one TLS record carries. Small buffers are joined up to this size.
RECORD_BYTES_MAX: Final = 1 << 14
#: OpenSSL's codes of a certificate for another name or address (X509_V_ERR_HOSTNAME_MISMATCH, …).
_WRONG_NAME_CODES: Final = (62, 63, 64)
#: How OpenSSL reports bytes that are no TLS, by its version and by what the bytes look like.
_NOT_TLS: Final = ("WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE", "PACKET_LENGTH_TOO_LONG", "HTTP_REQUEST")
#: Where in Python's own source an error was made.
_OF_SOURCE: Final = re.compile(r" ?\(_ssl\.c:[0-9]+\)")
_TOO_OLD: Final = ("UNSUPPORTED_PROTOCOL", "PROTOCOL_VERSION", "NO_PROTOCOLS_AVAILABLE")


@dataclass(frozen=True, slots=True)
class Tls:
    """Whom to trust, and who the client is. Plain data; secrets are in no repr.

    ``trust`` are PEM certificates, None for the authorities that the system trusts;
    ``adds_system_trust`` means those as well.
    ``identity`` is the client's private key and its chain of certificates, one PEM text; None
    where brokers do not ask for it.
    """

    trust: str | None = field(default=None, repr=False)
    identity: str | None = field(default=None, repr=False)
    key_password: str | None = field(default=None, repr=False)
    checks_host_name: bool = True
    adds_system_trust: bool = False


@functools.lru_cache(maxsize=8)
def context(tls: Tls) -> ssl.SSLContext:
    """What OpenSSL needs, made once: reading the system's authorities takes 10 ms.

    Raises ``OptionError`` (fatal) for texts that cannot be used.
    """
    made = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    made.minimum_version = ssl.TLSVersion.TLSv1_2
    made.check_hostname = tls.checks_host_name
    # Java trusts every certificate of a trust store, also one that is no root.
    made.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    if tls.trust is None or tls.adds_system_trust:
        made.load_default_certs()
    try:
        if tls.trust is not None:
            made.load_verify_locations(cadata=tls.trust)
    except (ssl.SSLError, ValueError) as error:
        raise OptionError(
            f"options kafka.ssl.truststore.*: no certificate can be read: {_words(error)}"
        ) from error
    if tls.identity is not None:
        _load_identity(made, tls.identity, tls.key_password)
    return made


def _load_identity(made: ssl.SSLContext, identity: str, key_password: str | None) -> None:
    try:
        # OpenSSL reads keys from files only. This one is readable by nobody else, and gone at once.
        with tempfile.NamedTemporaryFile("w", encoding="ascii") as file:
            file.write(identity)
            file.flush()
            # Without a function for the password, OpenSSL would ask for it at the terminal.
            made.load_cert_chain(file.name, password=lambda: key_password or "")
    except (ssl.SSLError, ValueError) as error:
        raise OptionError(
            "options kafka.ssl.keystore.*: no private key with its certificate can be read"
            f"{' with this kafka.ssl.key.password' if key_password else ''}: {_words(error)}"
        ) from error


class TlsTransport(Transport):
    """One TLS connection."""

    _sock: ssl.SSLSocket
    # OpenSSL keeps a part of what has come, so the system cannot tell how much of it is there.
    _has_marks = False

    @classmethod
    def over(cls, plain: Transport, tls: Tls, host: str, deadline: Deadline) -> TlsTransport:
        """Make a TLS connection of a TCP connection, which is closed where that fails.

        Raises ``OptionError`` (fatal) for texts that the OpenSSL of this machine cannot use,
        ``AuthenticationError`` (fatal) where one side refuses the other, ``ConnectFailed`` (retriable).
        """
        try:
            host.encode("idna")  # what Python does only after it has taken the socket away
            sock = context(tls).wrap_socket(
                plain.detached(), server_hostname=host, do_handshake_on_connect=False
            )
        except OptionError:  # a ValueError, too, but one that no other attempt mends
            plain.close()
            raise
        except (OSError, ValueError) as error:  # ValueError: a host that cannot be in a certificate
            plain.close()
            raise ConnectFailed(f"no TLS connection to {quoted(host)}: {_words(error)}") from error
        secured = cls(sock)
        try:
            sock.settimeout(deadline.remaining_s())
            sock.do_handshake()
        except OSError as error:
            secured.close()
            raise _handshake_error(error, host, deadline) from error
        except BaseException:
            secured.close()
            raise
        return secured

    def is_quiet(self) -> bool:
        """Whether the connection is open and the peer has sent nothing."""
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
        # With TLS 1.3 the broker's refusal of a certificate comes after the handshake.
        alert = error if _is_alert(error) else self._last_alert()
        return _refused(alert) if alert else ConnectionLost(f"the connection broke: {_words(error)}")

    def _last_alert(self) -> OSError | None:
        """What the broker said before it closed: a send that fails has not read it yet."""
        try:
            self._sock.settimeout(0)
            self._sock.recv(1)
        except OSError as error:
            return error if _is_alert(error) else None
        return None


def _is_alert(error: OSError) -> bool:
    return "ALERT" in (getattr(error, "reason", None) or "")


def _handshake_error(error: OSError, host: str, deadline: Deadline) -> KafkaWireError:
    """What went wrong, in one line that says what to do about it."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return _untrusted(error, host)
    if isinstance(error, TimeoutError):
        return ConnectFailed(f"no TLS handshake within {deadline}")
    found = getattr(error, "reason", None) or ""
    if any(word in found for word in _TOO_OLD):
        return AuthenticationError("the broker speaks no TLS 1.2 or later; set its ssl.enabled.protocols")
    if any(word in found for word in _NOT_TLS):
        return AuthenticationError(
            "the peer does not speak TLS; does this port want kafka.security.protocol=PLAINTEXT "
            "or SASL_PLAINTEXT?"
        )
    if _is_alert(error):
        return _refused(error)
    return ConnectFailed(
        f"the TLS handshake failed: {_words(error)}; does this port want kafka.security.protocol=PLAINTEXT "
        "or SASL_PLAINTEXT?"
    )


def _untrusted(error: ssl.SSLCertVerificationError, host: str) -> AuthenticationError:
    if error.verify_code in _WRONG_NAME_CODES:
        advice = (
            f"connect by a name that it is for instead of {quoted(host)}, or set "
            "kafka.ssl.endpoint.identification.algorithm to nothing, which gives up the check"
        )
    else:
        advice = "kafka.ssl.truststore.location names the PEM file of authorities to trust"
    return AuthenticationError(
        f"the broker's certificate is refused: {shown(error.verify_message)}; {advice}"
    )


def _refused(error: OSError) -> AuthenticationError:
    return AuthenticationError(
        f"the broker refuses the TLS connection: {_words(error)}; where it asks for the client's "
        "certificate, set kafka.ssl.keystore.location to a PEM file of key and certificates"
    )


def _words(error: Exception) -> str:
    """OpenSSL's reason in words: ``TLSV13_ALERT_CERTIFICATE_REQUIRED`` as ``certificate required``."""
    found = getattr(error, "reason", None)
    if isinstance(error, ssl.SSLEOFError) or found == "UNEXPECTED_EOF_WHILE_READING":
        return "the peer closed the connection"
    if isinstance(found, str):
        return shown(found.rpartition("ALERT_")[2].replace("_", " ").lower())
    return _OF_SOURCE.sub("", reason(error))
