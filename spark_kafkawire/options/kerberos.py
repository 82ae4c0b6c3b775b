"""Logins with Kerberos, from the options of Java's login module.

    com.sun.security.auth.module.Krb5LoginModule required
        useKeyTab=true keyTab="/etc/security/alice.keytab" principal="alice@EXAMPLE.COM";

Key tabs and ticket caches are read where connections are made.

Source: Java's Krb5LoginModule; KerberosLogin.java and LoginManager.java of Apache Kafka.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from ..errors import LOG, OptionError, printable
from ..net.logins.kerberos.tickets import KerberosLogin
from .jaas import parse_jaas
from .option import word
from .raw import RawOptions
from .security import JAAS, SERVICE_NAME
from .tokens import needed

_MODULE: Final = "Krb5LoginModule"
_USES_KEY_TAB: Final = "useKeyTab"
_KEY_TAB: Final = "keyTab"
_PRINCIPAL: Final = "principal"
_USES_CACHE: Final = "useTicketCache"
_CACHE: Final = "ticketCache"
_SERVICE: Final = "serviceName"
_INITIATES: Final = "isInitiator"
_NAMED: Final = (_KEY_TAB, _PRINCIPAL, _CACHE, _SERVICE)
#: Options that change nothing here: nobody is asked for a password, and the files are read again in any case.
_QUIET: Final = ("doNotPrompt", "storeKey", "refreshKrb5Config", "debug")
#: Options with another effect in Java.
_UNUSED: Final = ("renewTGT", "useFirstPass", "tryFirstPass", "storePass", "clearPass")
_FLAGS: Final = (_USES_KEY_TAB, _USES_CACHE, _INITIATES, *_QUIET, *_UNUSED)
_FORM: Final = (
    f'set {_USES_KEY_TAB}=true with {_KEY_TAB}="…" and {_PRINCIPAL}="…", or {_USES_CACHE}=true for tickets '
    "of kinit"
)


def default_mechanism(options: RawOptions) -> str:
    """The mechanism without ``kafka.sasl.mechanism``: as in Java GSSAPI, if other options are those of
    Kerberos."""
    text = options[JAAS]
    is_kerberos = options.given(SERVICE_NAME) or (text is not None and parse_jaas(text).module == _MODULE)
    return "GSSAPI" if is_kerberos else ""


def kerberos_login_of(options: RawOptions, login: Mapping[str, str]) -> KerberosLogin:
    """The login that the options of the login module describe. Raises ``OptionError`` (fatal)."""
    known = (*_NAMED, *_FLAGS)
    if unknown := [name for name in login if name not in known]:
        raise _bad(f"it has the unknown option {printable(unknown[0])}; known are {', '.join(known)}")
    if empty := [name for name in _NAMED if name in login and not _is_text(login[name])]:
        raise _bad(f"its option {empty[0]} is empty, or has a character that cannot be printed; correct it")
    flags = {name: _flag(name, login[name]) for name in _FLAGS if name in login}
    if not flags.get(_INITIATES, True):
        raise _bad(f"{_INITIATES}=false is for servers; leave it out")
    if unused := [name for name in _UNUSED if flags.get(name)]:
        LOG.warning("option %s: kafkawire does not use %s", JAAS.name, ", ".join(unused))
    service, principal = _service_name(options, login), login.get(_PRINCIPAL)
    if flags.get(_USES_KEY_TAB):
        if flags.get(_USES_CACHE):
            LOG.warning(
                "option %s: kafkawire does not use %s beside %s", JAAS.name, _USES_CACHE, _USES_KEY_TAB
            )
        return KerberosLogin(service, needed(login, _PRINCIPAL), needed(login, _KEY_TAB))
    if _KEY_TAB in login:
        raise _bad(f"its option {_KEY_TAB} needs {_USES_KEY_TAB}=true; add that, or remove the option")
    if not flags.get(_USES_CACHE):
        raise _bad(f"it names neither a key tab nor tickets; {_FORM}")
    return KerberosLogin(service, principal, None, login.get(_CACHE))


def _service_name(options: RawOptions, login: Mapping[str, str]) -> str:
    by_option, by_module = options[SERVICE_NAME], login.get(_SERVICE)
    service = by_module if by_option is None else by_option
    if not service:
        raise OptionError(
            f"option {SERVICE_NAME.name} is not set: set it to the first part of the brokers' principals, "
            "such as kafka in kafka/host@REALM"
        )
    if by_module not in (None, service):
        raise OptionError(
            f"option {SERVICE_NAME.name} is {printable(service)}, but {_SERVICE} in {JAAS.name} is "
            f"{printable(by_module)}: set only one of them"
        )
    if not _is_text(service) or set(service) & set("/@ "):
        raise OptionError(
            f"option {SERVICE_NAME.name}: {printable(service)} is not a name of a service, such as kafka: "
            "leave host and realm out"
        )
    return service


def _flag(name: str, value: str) -> bool:
    flag = word(value)
    if flag not in ("true", "false"):
        raise _bad(f"its option {name} is not true or false; set one of them")
    return flag == "true"


def _is_text(value: str) -> bool:
    return bool(value) and value.isprintable()


def _bad(problem: str) -> OptionError:
    return OptionError(f"option {JAAS.name}: {problem} (its value is not shown)")
