"""Versions and cipher suites of TLS, by the names that Java has for them."""

from __future__ import annotations

import functools
from ssl import TLSVersion
from typing import Final

from ..errors import LOG, OptionError, quoted
from ..net.tls import TlsLimits
from .option import bad_value, capitals
from .raw import RawOptions, hint
from .security import TlsOptions

#: OpenSSL's names of all suites of TLS 1.2 that Java 17 has. Source: openssl ciphers -stdname.
TLS_1_2_SUITES: Final = {
    "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384": "ECDHE-ECDSA-AES256-GCM-SHA384",
    "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256": "ECDHE-ECDSA-AES128-GCM-SHA256",
    "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256": "ECDHE-ECDSA-CHACHA20-POLY1305",
    "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384": "ECDHE-RSA-AES256-GCM-SHA384",
    "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256": "ECDHE-RSA-CHACHA20-POLY1305",
    "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256": "ECDHE-RSA-AES128-GCM-SHA256",
    "TLS_DHE_RSA_WITH_AES_256_GCM_SHA384": "DHE-RSA-AES256-GCM-SHA384",
    "TLS_DHE_RSA_WITH_CHACHA20_POLY1305_SHA256": "DHE-RSA-CHACHA20-POLY1305",
    "TLS_DHE_DSS_WITH_AES_256_GCM_SHA384": "DHE-DSS-AES256-GCM-SHA384",
    "TLS_DHE_RSA_WITH_AES_128_GCM_SHA256": "DHE-RSA-AES128-GCM-SHA256",
    "TLS_DHE_DSS_WITH_AES_128_GCM_SHA256": "DHE-DSS-AES128-GCM-SHA256",
    "TLS_ECDHE_ECDSA_WITH_AES_256_CBC_SHA384": "ECDHE-ECDSA-AES256-SHA384",
    "TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA384": "ECDHE-RSA-AES256-SHA384",
    "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA256": "ECDHE-ECDSA-AES128-SHA256",
    "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA256": "ECDHE-RSA-AES128-SHA256",
    "TLS_DHE_RSA_WITH_AES_256_CBC_SHA256": "DHE-RSA-AES256-SHA256",
    "TLS_DHE_DSS_WITH_AES_256_CBC_SHA256": "DHE-DSS-AES256-SHA256",
    "TLS_DHE_RSA_WITH_AES_128_CBC_SHA256": "DHE-RSA-AES128-SHA256",
    "TLS_DHE_DSS_WITH_AES_128_CBC_SHA256": "DHE-DSS-AES128-SHA256",
    "TLS_ECDHE_ECDSA_WITH_AES_256_CBC_SHA": "ECDHE-ECDSA-AES256-SHA",
    "TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA": "ECDHE-RSA-AES256-SHA",
    "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA": "ECDHE-ECDSA-AES128-SHA",
    "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA": "ECDHE-RSA-AES128-SHA",
    "TLS_DHE_RSA_WITH_AES_256_CBC_SHA": "DHE-RSA-AES256-SHA",
    "TLS_DHE_DSS_WITH_AES_256_CBC_SHA": "DHE-DSS-AES256-SHA",
    "TLS_DHE_RSA_WITH_AES_128_CBC_SHA": "DHE-RSA-AES128-SHA",
    "TLS_DHE_DSS_WITH_AES_128_CBC_SHA": "DHE-DSS-AES128-SHA",
    "TLS_RSA_WITH_AES_256_GCM_SHA384": "AES256-GCM-SHA384",
    "TLS_RSA_WITH_AES_128_GCM_SHA256": "AES128-GCM-SHA256",
    "TLS_RSA_WITH_AES_256_CBC_SHA256": "AES256-SHA256",
    "TLS_RSA_WITH_AES_128_CBC_SHA256": "AES128-SHA256",
    "TLS_RSA_WITH_AES_256_CBC_SHA": "AES256-SHA",
    "TLS_RSA_WITH_AES_128_CBC_SHA": "AES128-SHA",
}
#: The suites of TLS 1.3 in Java, which are those of OpenSSL. Python cannot choose among them.
TLS_1_3_SUITES: Final = ("TLS_AES_256_GCM_SHA384", "TLS_AES_128_GCM_SHA256", "TLS_CHACHA20_POLY1305_SHA256")
#: Java's mark of a safe renegotiation, which OpenSSL sends without being asked.
_NO_SUITE: Final = "TLS_EMPTY_RENEGOTIATION_INFO_SCSV"
_VERSIONS: Final = {"TLSV1.2": TLSVersion.TLSv1_2, "TLSV1.3": TLSVersion.TLSv1_3}
_OLDER: Final = ("TLSV1.1", "TLSV1", "SSLV3", "SSLV2", "SSLV2HELLO")
#: Java's contexts of any version.
_ANY_VERSION: Final = ("TLS", "SSL")


def limits_of(options: RawOptions, names: TlsOptions) -> TlsLimits:
    """The versions and the suites that the options leave. Raises ``OptionError`` (fatal)."""
    versions = _enabled(options, names)
    highest = _highest(options, names)
    versions = {version for version in versions if version <= highest}
    suites, versions = _suites(options, names, versions)
    if not versions:
        used = options.given(names.enabled_protocols, names.protocol, names.cipher_suites)
        raise OptionError(
            f"options {' and '.join(used)} leave no version of TLS; set versions and suites that go together"
        )
    return TlsLimits(min(versions), max(versions), suites)


def _listed(text: str | None) -> list[str]:
    """The words of a list with commas, in capitals."""
    return [capitals(each) for each in (text or "").split(",") if each.strip()]


def _enabled(options: RawOptions, names: TlsOptions) -> set[TLSVersion]:
    name, given = names.enabled_protocols.name, _listed(options[names.enabled_protocols])
    for version in given:
        if version not in (*_VERSIONS, *_OLDER):
            raise bad_value(name, version, "TLSv1.2 or TLSv1.3, or both with a comma between them")
    older = [version for version in given if version in _OLDER]
    enabled = {_VERSIONS[version] for version in given if version in _VERSIONS}
    if older and not enabled:
        raise OptionError(f"option {name}: versions before TLS 1.2 are not supported; set TLSv1.2,TLSv1.3")
    if older:
        _warn_of_older(name)
    return enabled or set(_VERSIONS.values())


@functools.cache
def _warn_of_older(name: str) -> None:
    LOG.warning("option %s: versions before TLS 1.2 are not supported and are left out", name)


def _highest(options: RawOptions, names: TlsOptions) -> TLSVersion:
    """The bound of versions that Java's name of an SSLContext is."""
    given = capitals(options[names.protocol] or "TLS")
    if given in _ANY_VERSION:
        return TLSVersion.TLSv1_3
    if given in _VERSIONS:
        return _VERSIONS[given]
    raise bad_value(names.protocol.name, given, "TLSv1.2 or TLSv1.3: older ones are not supported")


def _suites(
    options: RawOptions, names: TlsOptions, versions: set[TLSVersion]
) -> tuple[tuple[str, ...], set[TLSVersion]]:
    """OpenSSL's names of the suites of TLS 1.2, and the versions that have a suite."""
    given = [suite for suite in _listed(options[names.cipher_suites]) if suite != _NO_SUITE]
    if not given:
        return (), versions
    name = names.cipher_suites.name
    for suite in given:
        if suite not in TLS_1_2_SUITES and suite not in TLS_1_3_SUITES:
            known = (*TLS_1_2_SUITES, *TLS_1_3_SUITES)
            raise OptionError(
                f"option {name}: {quoted(suite)} is no cipher suite of TLS 1.2 by its name in Java"
                f"{hint(suite, known) or '; leave it out'}"
            )
    of_1_2 = tuple(TLS_1_2_SUITES[suite] for suite in given if suite in TLS_1_2_SUITES)
    of_1_3 = [suite for suite in given if suite in TLS_1_3_SUITES]
    if TLSVersion.TLSv1_3 in versions and 0 < len(set(of_1_3)) < len(TLS_1_3_SUITES):
        raise OptionError(
            f"option {name}: Python cannot choose suites of TLS 1.3, all of them are offered: leave "
            f"{', '.join(of_1_3)} out, which leaves TLS 1.2 only, or name {', '.join(TLS_1_3_SUITES)}"
        )
    has_suite = {TLSVersion.TLSv1_2: bool(of_1_2), TLSVersion.TLSv1_3: bool(of_1_3)}
    return of_1_2, {version for version in versions if has_suite[version]}
