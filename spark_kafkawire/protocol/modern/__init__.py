"""The protocol of Kafka 0.8 to 4.x, declared as data: one module per theme.

Every message exists once, with the versions of each of its fields. A connection starts with
ApiVersions and then speaks the highest versions that broker and client have in common::

    connection = Connection(modern.DIALECT, client_id)
    reply = ...send ApiVersionsRequest()...
    connection.negotiated(offered(reply))
    if reply.error_code == ErrorCode.UNSUPPORTED_VERSION:
        ...send it again, this time in a version that the broker knows...

Brokers before 0.10 do not know that question. They are told nothing but what ``BEFORE_API_VERSIONS`` has,
once they are proven to be that old: ``old_brokers`` tells how.

Offsets count records. Replies come in the order of the requests and carry their correlation ids.

Importing this package imports none of them: a process that speaks one API declares no others. ``dialect`` has
all, and its names are found here, too.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .dialect import *  # noqa: F403


def __getattr__(name: str) -> Any:
    if not name.isupper():  # what is asked for before a module of this package is looked for
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(".dialect", __name__), name)
