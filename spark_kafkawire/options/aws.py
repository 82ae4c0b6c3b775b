"""The identity of AWS, from the options of Amazon's login module."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from ..errors import LOG, OptionError, printable
from ..net.logins.tokens.aws.login import AwsLogin
from ..net.logins.tokens.aws.signing import Keys
from .security import JAAS

_PROFILE: Final = "awsProfileName"
_ROLE: Final = "awsRoleArn"
_SESSION_NAME: Final = "awsRoleSessionName"
_EXTERNAL_ID: Final = "awsRoleExternalId"
_ACCESS: Final = "awsRoleAccessKeyId"
_SECRET: Final = "awsRoleSecretAccessKey"
_SESSION: Final = "awsRoleSessionToken"
_STS_REGION: Final = "awsStsRegion"
#: Options that only mean something with a role.
_OF_ROLE: Final = (_SESSION_NAME, _EXTERNAL_ID, _ACCESS, _SECRET, _SESSION)
#: Options without an effect: retries are those of all connections.
_UNUSED: Final = ("awsDebugCreds", "awsMaxRetries", "awsMaxBackOffTimeMs")
_KNOWN: Final = (_PROFILE, _ROLE, *_OF_ROLE, _STS_REGION, *_UNUSED)


def aws_login_of(login: Mapping[str, str]) -> AwsLogin:
    """The identity that the login module names. Raises ``OptionError`` (fatal), which shows no value."""
    if unknown := [name for name in login if name.startswith("aws") and name not in _KNOWN]:
        raise _bad(f"it has the unknown option {printable(unknown[0])}; known are {', '.join(_KNOWN)}")
    if empty := [name for name in _KNOWN if name in login and not _is_text(login[name])]:
        raise _bad(f"its option {empty[0]} is empty, or not of printable ASCII; correct or remove it")
    if _ROLE not in login and (of_role := [name for name in _OF_ROLE if name in login]):
        raise _bad(f"its option {of_role[0]} needs {_ROLE}; add that, or remove the option")
    if (_ACCESS in login) != (_SECRET in login) or (_SESSION in login and _ACCESS not in login):
        raise _bad(f"{_ACCESS} and {_SECRET} need each other, and {_SESSION} needs both; add what is missing")
    if _ROLE in login and _PROFILE in login:
        raise _bad(f"it has {_PROFILE} and {_ROLE}; give one of them")
    if unused := [name for name in _UNUSED if name in login]:
        LOG.warning("option %s: kafkawire does not use %s", JAAS.name, ", ".join(unused))
    keys = Keys(login[_ACCESS], login[_SECRET], login.get(_SESSION)) if _ACCESS in login else None
    return AwsLogin(
        login.get(_PROFILE),
        login.get(_ROLE),
        login.get(_SESSION_NAME, AwsLogin().role_session_name),
        login.get(_EXTERNAL_ID),
        keys,
        login.get(_STS_REGION),
    )


def _is_text(value: str) -> bool:
    return bool(value) and value.isascii() and value.isprintable()


def _bad(problem: str) -> OptionError:
    return OptionError(f"option {JAAS.name}: {problem} (its value is not shown)")
