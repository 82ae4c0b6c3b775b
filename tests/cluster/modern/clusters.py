"""A cluster as its clients see it, and the errors that its coordinators answer with."""

from __future__ import annotations

from spark_kafkawire.cluster.modern.cluster import ModernCluster
from spark_kafkawire.cluster.modern.metadata import Metadata
from spark_kafkawire.options import NetOptions
from spark_kafkawire.protocol.modern.limits import READ_UNCOMMITTED
from tests.support.settings import net_modern, servers

NET = net_modern(timeout_s=5.0, backoff_s=0.001)
COORDINATOR_LOADING, COORDINATOR_NOT_AVAILABLE, NOT_COORDINATOR, GROUP_REFUSED = 14, 15, 16, 30


def cluster_of(
    bootstrap_servers: str,
    isolation_level: int = READ_UNCOMMITTED,
    group_id: str | None = None,
    net: NetOptions = NET,
) -> ModernCluster:
    """The cluster of these servers."""
    return ModernCluster(Metadata(servers(bootstrap_servers), net), net, isolation_level, group_id)
