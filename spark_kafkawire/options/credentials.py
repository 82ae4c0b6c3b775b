"""Logins of connections to modern Kafka, from options of SASL.

Secrets travel to the executors with the settings, and are in no error, repr or log.
"""

from __future__ import annotations

from ..errors import LOG, OptionError
from ..net.logins.delegation_token import DelegationToken
from ..net.logins.mechanism import Password
from ..net.logins.scram import HASHES
from ..net.logins.table import MECHANISMS
from ..net.sasl import Sasl
from ..net.tls import Tls
from .aws import aws_login_of
from .jaas import JaasLogin, parse_jaas
from .kerberos import default_mechanism, kerberos_login_of
from .login_options import AWS, CHOOSING_OPTIONS, CLIENT_HANDLER, HANDLER, PROVIDER, TOKEN_OPTIONS
from .option import bad_value
from .raw import RawOptions
from .security import DELEGATES, JAAS, MECHANISM, SERVICE_NAME
from .tls import check, trusted
from .tokens import bearer_of, needed


def sasl_of(options: RawOptions) -> Sasl:
    """Login of the client. Raises ``OptionError`` (fatal), which shows no secret."""
    mechanism = options[MECHANISM] or default_mechanism(options)
    if mechanism not in MECHANISMS:
        known = " or ".join(MECHANISMS)
        if not mechanism:
            raise OptionError(f"option kafka.sasl.mechanism is not set: set it to {known}")
        raise bad_value("kafka.sasl.mechanism", mechanism, known)
    login = _login(options, mechanism)
    if mechanism == "OAUTHBEARER":
        return Sasl(mechanism, bearer_of(options, login.options, lambda: _trust_alone(options)))
    if mechanism == "AWS_MSK_IAM" and _has_amazons_handlers(options):
        return Sasl(mechanism, aws_login_of(login.options))
    if foreign := options.given(*CHOOSING_OPTIONS):
        raise OptionError(
            f"option {foreign[0]}: kafka.sasl.mechanism={mechanism} takes its credentials from {JAAS.name} "
            "alone; leave the option out"
        )
    if unused := options.given(*TOKEN_OPTIONS):
        LOG.warning("kafka.sasl.mechanism=%s does not use %s", mechanism, ", ".join(unused))
    if mechanism == "GSSAPI":
        return Sasl(mechanism, kerberos_login_of(options, login.options))
    if options.given(SERVICE_NAME):
        LOG.warning("kafka.sasl.mechanism=%s does not use %s", mechanism, SERVICE_NAME.name)
    if mechanism in HASHES:
        return Sasl(mechanism, _scram(login, delegates=options[DELEGATES]))
    return Sasl(mechanism, _password(login))


def _has_amazons_handlers(options: RawOptions) -> bool:
    """True if no option chooses other credentials than those of AWS. Raises ``OptionError`` (fatal) for an
    unknown class of Java."""
    return not options.given(PROVIDER) and {options[HANDLER], options[CLIENT_HANDLER]} <= {None, AWS}


def _login(options: RawOptions, mechanism: str) -> JaasLogin:
    """The login module. One without options may be left out."""
    text, module = options[JAAS], MECHANISMS[mechanism].module
    if text is None and mechanism in ("OAUTHBEARER", "AWS_MSK_IAM"):
        return JaasLogin(module, {})
    if text is None:
        raise OptionError(
            f"option {JAAS.name} is not set, and kafka.sasl.mechanism={mechanism} needs it: set it to "
            f"'{module} required …;'"
        )
    login = parse_jaas(text)
    if login.module != module:
        raise OptionError(
            f"option {JAAS.name}: its login module is not that of kafka.sasl.mechanism={mechanism}; begin "
            f"it with {module} (its value is not shown)"
        )
    return login


def _password(login: JaasLogin) -> Password:
    username, password = (needed(login.options, name) for name in ("username", "password"))
    return Password(username, password)


def _scram(login: JaasLogin, *, delegates: bool) -> Password | DelegationToken:
    """A password, or a delegation token: its id is the user name then."""
    found = _password(login)
    if login.options.get("tokenauth", "").lower() != "true":
        return found
    if delegates:
        raise OptionError(
            f"option {DELEGATES.name}: brokers give no token to a client that logs in with one; leave out "
            f"the option, or tokenauth in {JAAS.name}"
        )
    return DelegationToken(found.username, found.password)


def _trust_alone(options: RawOptions) -> Tls:
    """The certificates that token endpoints are checked against. Connections without TLS have them, too."""
    tls = Tls(trust=trusted(options))
    check(tls, options)
    return tls
