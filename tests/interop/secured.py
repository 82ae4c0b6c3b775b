"""Options of logins to the listeners of ``ApacheKafka``."""

from __future__ import annotations

import base64
import json
import time
from typing import Any, Final

from tests.support.certificates import Certificates

SCRAM: Final = ("SCRAM-SHA-256", "SCRAM-SHA-512")
MODULES: Final = {"PLAIN": "plain.Plain", **dict.fromkeys(SCRAM, "scram.Scram")}


def option_name(name: str) -> str:
    """The name of an option, of an argument: our own ones have no prefix."""
    return name if name.startswith("saslToken") else f"kafka.{name.replace('__', '.')}"


def login(mechanism: str, user: str, password: str) -> dict[str, Any]:
    escaped = password.replace("\\", "\\\\").replace('"', '\\"')
    module = f"org.apache.kafka.common.security.{MODULES[mechanism]}LoginModule"
    jaas = f'{module} required username="{user}" password="{escaped}";'
    return {"sasl__mechanism": mechanism, "sasl__jaas__config": jaas}


def trust(certificates: Certificates) -> dict[str, Any]:
    return {"ssl__truststore__type": "PEM", "ssl__truststore__location": str(certificates.authority)}


def unsecured_token(**claims: Any) -> str:
    """A token without a signature, which the broker's own validator for development takes."""
    now_s = int(time.time())
    parts = ({"alg": "none"}, {"sub": "alice", "iat": now_s, "exp": now_s + 300, **claims})
    encoded = (base64.urlsafe_b64encode(json.dumps(part).encode()).decode().rstrip("=") for part in parts)
    return ".".join((*encoded, ""))
