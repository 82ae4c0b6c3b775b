"""Log directories that real brokers wrote, copied into the tests' own folders.

``tests/golden/log-directories/README.md`` tells how the brokers of Apache Kafka were stopped.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

LOG_DIRECTORIES: Final = Path(__file__).parents[1] / "golden" / "log-directories"
#: A broker that was stopped in order, and the same one killed in the middle of a transaction.
STOPPED: Final = LOG_DIRECTORIES / "3.9.1-stopped"
KILLED: Final = LOG_DIRECTORIES / "3.9.1-killed"
KILLED_4: Final = LOG_DIRECTORIES / "4.1.1-killed"
#: The first offset that DeleteRecords left, and the ends.
START_OFFSET: Final = 50
STOPPED_END: Final = 402
KILLED_END: Final = 408
#: The first offset of the transaction that was open when the broker was killed.
OPEN_SINCE: Final = 402
#: The transaction that was aborted.
ABORTED: Final = (311, 320)
#: Offsets of the markers that end the two transactions.
MARKERS: Final = frozenset((310, 321))
