"""Credentials of AWS without AWS's own library: environment, web identity, profiles, containers, EC2.

The environment variables and files are those of AWS's own programs, on the machine that connects.

Source: AWS SDKs and tools reference guide, standardized credential providers.
"""

from __future__ import annotations

import configparser
import ipaddress
import os
from collections.abc import Callable, Iterator, Mapping
from typing import Final

from spark_kafkawire.errors import (
    AuthenticationError,
    ConnectFailed,
    TransportError,
    printable,
)
from spark_kafkawire.net.http import Answer, Url
from spark_kafkawire.net.logins.tokens.endpoint import object_in
from spark_kafkawire.net.logins.tokens.metadata import ask_metadata
from spark_kafkawire.net.logins.tokens.token_file import read_text, word_in
from spark_kafkawire.net.tls import Tls
from spark_kafkawire.net.transport import Deadline

from .signing import Keys
from .sts import assume_role_with_web_identity, seconds_until

_OK: Final = 200
#: The address of a container's credentials in ECS, and the hosts that plain http may go to besides loopback:
#: those of ECS and EKS.
_CONTAINER: Final = "http://169.254.170.2"
_CONTAINER_HOSTS: Final = ("169.254.170.2", "169.254.170.23", "fd00:ec2::23")
_EC2: Final = "http://169.254.169.254"
_EC2_CREDENTIALS: Final = "/latest/meta-data/iam/security-credentials/"
_EC2_TOKEN_S: Final = "300"
_SESSION_NAME: Final = "spark-kafkawire"
#: Settings of a profile that only AWS's own library follows.
_INDIRECT: Final = ("role_arn", "credential_process", "sso_session", "sso_start_url", "login_session")
NEEDS_BOTOCORE: Final = "run pip install botocore, for the driver and the executors"


def found_keys(profile: str | None, region: str | None, tls: Tls, deadline: Deadline) -> Keys:
    """Credentials from the first place that has some; those of a profile from there alone.

    Raises ``AuthenticationError`` (fatal), ``TransportError`` (retriable).
    """
    if profile is not None:
        keys = _of_profile(profile)
        if keys is None:
            raise AuthenticationError(
                f"AWS: no profile {printable(profile)} in {_file('credentials')} or {_file('config')} on the "
                "machine that connects; add it there, or correct awsProfileName"
            )
        return keys
    places: tuple[Callable[[], Keys | None], ...] = (
        _of_environment,
        lambda: _of_web_identity(region, tls, deadline),
        lambda: _of_profile(os.environ.get("AWS_PROFILE") or "default"),
        lambda: _of_container(tls, deadline),
        lambda: _of_ec2(deadline),
    )
    for place in places:
        if (keys := place()) is not None:
            return keys
    raise AuthenticationError(
        "AWS: no credentials in the environment (AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or "
        "AWS_WEB_IDENTITY_TOKEN_FILE and AWS_ROLE_ARN), in profiles, of a container or of EC2, on the "
        f"machine that connects; for single sign-on, {NEEDS_BOTOCORE}"
    )


def _of_environment() -> Keys | None:
    access, secret = (os.environ.get(name) for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"))
    if not access or not secret:
        return None
    return Keys(access, secret, os.environ.get("AWS_SESSION_TOKEN") or None)


def _of_web_identity(region: str | None, tls: Tls, deadline: Deadline) -> Keys | None:
    path, role = (os.environ.get(name) for name in ("AWS_WEB_IDENTITY_TOKEN_FILE", "AWS_ROLE_ARN"))
    if not path or not role:
        return None
    token = word_in(path, "AWS_WEB_IDENTITY_TOKEN_FILE")
    name = os.environ.get("AWS_ROLE_SESSION_NAME") or _SESSION_NAME
    return assume_role_with_web_identity(token, role, name, region, tls, deadline)


def _of_profile(profile: str) -> Keys | None:
    found = dict(_settings_of(profile))
    access, secret = found.get("aws_access_key_id"), found.get("aws_secret_access_key")
    if access and secret:
        return Keys(access, secret, found.get("aws_session_token") or None)
    if indirect := [name for name in _INDIRECT if name in found]:
        raise AuthenticationError(
            f"AWS: profile {printable(profile)} has {indirect[0]}, which needs AWS's own library: "
            f"{NEEDS_BOTOCORE}"
        )
    return None


def region_of_profile(profile: str | None) -> str | None:
    """The region of a profile, or of the default one; None if it has none."""
    return dict(_settings_of(profile or os.environ.get("AWS_PROFILE") or "default")).get("region")


def _settings_of(profile: str) -> Iterator[tuple[str, str]]:
    """The settings of a profile. Those of the file of credentials come last, so that they win."""
    section = profile if profile == "default" else f"profile {profile}"
    for kind, name in (("config", section), ("credentials", profile)):
        path = _file(kind)
        if not os.path.exists(path):
            continue
        parser = configparser.RawConfigParser(strict=False)
        try:
            parser.read_string(read_text(path, f"AWS {kind} file"))
        except configparser.Error as error:
            failure = type(error).__name__
        else:
            failure = ""
        if failure:  # not in the handler: the error's text has lines of the file
            raise AuthenticationError(
                f"AWS: {printable(path)} is not a file of profiles ({failure}); correct it"
            )
        if parser.has_section(name):
            yield from parser.items(name)


def _file(kind: str) -> str:
    """The path of a file of profiles. A user without a home, as in some containers, has none."""
    variable = {"credentials": "AWS_SHARED_CREDENTIALS_FILE", "config": "AWS_CONFIG_FILE"}[kind]
    return os.path.expanduser(os.environ.get(variable) or os.path.join("~", ".aws", kind))


def _of_container(tls: Tls, deadline: Deadline) -> Keys | None:
    relative = os.environ.get("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI")
    full = os.environ.get("AWS_CONTAINER_CREDENTIALS_FULL_URI")
    if not relative and not full:
        return None
    url = Url.parse(f"{_CONTAINER}{relative}" if relative else full or "")
    if url is None or (url.scheme == "http" and not _is_near(url.host)):
        raise AuthenticationError(
            "AWS: AWS_CONTAINER_CREDENTIALS_FULL_URI is neither https nor an address of this machine or of "
            "its container service; correct the variable"
        )
    token = os.environ.get("AWS_CONTAINER_AUTHORIZATION_TOKEN")
    if path := os.environ.get("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE"):
        token = word_in(path, "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE")
    if token and not _are_texts(token):
        raise AuthenticationError(
            "AWS: AWS_CONTAINER_AUTHORIZATION_TOKEN is not one line of ASCII (its value is not shown); "
            "correct it"
        )
    headers = {"Authorization": token} if token else {}
    return _keys_in(_asked(url, "GET", headers, tls, deadline), "the container's credentials endpoint")


def _is_near(host: str) -> bool:
    try:
        return host == "localhost" or host in _CONTAINER_HOSTS or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _of_ec2(deadline: Deadline) -> Keys | None:
    """Credentials of the machine's role, by version 2 of the metadata service alone, as AWS advises."""
    if os.environ.get("AWS_EC2_METADATA_DISABLED", "").lower() == "true":
        return None
    base = os.environ.get("AWS_EC2_METADATA_SERVICE_ENDPOINT") or _EC2
    what = "the metadata endpoint of EC2"

    def asked(method: str, path: str, headers: Mapping[str, str]) -> Answer:
        url = Url.parse(f"{base.rstrip('/')}{path}")
        if url is None:
            raise AuthenticationError(
                f"AWS: {what} is no URL, or names a role that is not a name; check "
                "AWS_EC2_METADATA_SERVICE_ENDPOINT"
            )
        return _asked(url, method, headers, Tls(), deadline)

    try:
        answer = asked("PUT", "/latest/api/token", {"X-aws-ec2-metadata-token-ttl-seconds": _EC2_TOKEN_S})
        token = answer.body.decode("ascii", "replace").strip()
        if answer.status != _OK or not token.isprintable() or not token.isascii():
            raise ConnectFailed(f"the endpoint answers with HTTP status {answer.status}")
        headers = {"X-aws-ec2-metadata-token": token}
        role = asked("GET", _EC2_CREDENTIALS, headers)
        if role.status != _OK:
            return None  # the machine has no role
        name = role.body.decode("ascii", "replace").split("\n")[0].strip()
        return _keys_in(asked("GET", f"{_EC2_CREDENTIALS}{name}", headers), what)
    except TransportError as error:
        raise error.located(
            "AWS: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, a profile, or give the machine a role: "
            f"environment and profiles have no credentials, and {what}"
        ) from error


def _asked(url: Url, method: str, headers: Mapping[str, str], tls: Tls, deadline: Deadline) -> Answer:
    return ask_metadata(url, headers, deadline, method=method, tls=tls)


def _keys_in(answer: Answer, what: str) -> Keys:
    if answer.is_temporary:
        raise ConnectFailed(f"AWS: {what} answers with HTTP status {answer.status}; try again")
    if answer.status != _OK:
        raise AuthenticationError(
            f"AWS: {what} refuses the request: HTTP status {answer.status}; check the role of the machine"
        )
    found = object_in(answer.body)
    access, secret, session = (found.get(name) for name in ("AccessKeyId", "SecretAccessKey", "Token"))
    if not _are_texts(access, secret, session):
        raise AuthenticationError(
            f"AWS: the response of {what} has no credentials; check the role of the machine"
        )
    return Keys(str(access), str(secret), str(session), seconds_until(found.get("Expiration")))


def _are_texts(*values: object) -> bool:
    return all(
        isinstance(value, str) and value and value.isascii() and value.isprintable() for value in values
    )
