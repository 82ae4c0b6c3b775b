"""A range of a 0.7 log in the format of the proposal: long polls, one after the other.

A fetch of the proposal has no size: the broker gives as much as one answer holds. So the window of a fetch is
all that is left of the range, and how much comes decides where the next one begins. That is sent before what
came is decoded. What the broker gives behind the range's end is not of it.
"""

from __future__ import annotations

from ....errors import BrokerError
from ....model import OffsetRange
from ....options import FetchOptions
from ....protocol.connection import Reply
from ....protocol.proposal import NO_REPLICA, FetchRequest, OffsetData
from ....protocol.proposal.error_codes import broker_error
from .window_feed import Chunk, WindowFeed
from .windows import Window, Windows


class PollFeed(WindowFeed):
    """Implements the protocol ``Feed`` for fetches that wait until there is something."""

    def _cut(self, log_range: OffsetRange, options: FetchOptions) -> Windows[Chunk]:
        self._wait_ms = options.wait_ms
        return Windows(log_range.start_offset, log_range.stop_offset, max(log_range.size, 1), 1)

    def _request(self, window: Window) -> FetchRequest:
        log = self._range.log
        wanted = OffsetData(log.topic, (log.partition,), (window.offset,))
        return FetchRequest(NO_REPLICA, self._wait_ms, 1, (wanted,))

    def _chunk(self, reply: Reply) -> Chunk:
        [offset] = reply.request.topic_offsets[0].offsets
        messages = [part.messages for topic in reply.body.data for part in topic.partition_data]
        # With an error there may be none. The messages of one partition end the frame.
        size = sum(map(len, messages))
        start = len(reply.frame) - size
        stop = start + min(size, self._range.stop_offset - offset)
        return Chunk(offset, reply.body.error_code, reply.frame[:stop], start)

    def _error(self, code: int) -> BrokerError:
        return broker_error(code, "Fetch")
