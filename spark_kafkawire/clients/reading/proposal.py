"""Reader of a range of a 0.7 log in the New Wire Format Proposal of 2012: long polls, one after the other.

A fetch of the proposal has no size: the broker returns as many bytes as fit in one response. So each fetch
asks for the rest of the range, and the size of its response decides where the next fetch begins. The next
fetch is sent before the response is decoded. Bytes after the end of the range are ignored.
"""

from __future__ import annotations

from spark_kafkawire.errors import BrokerError
from spark_kafkawire.model import OffsetRange
from spark_kafkawire.options import FetchOptions
from spark_kafkawire.protocol.connection import Response
from spark_kafkawire.protocol.proposal import NO_REPLICA, FetchRequest, OffsetData, broker_error

from .v07 import Chunk, V07Reader, Window, Windows


class ProposalReader(V07Reader):
    """``PartitionReader`` for fetches that wait until bytes are available."""

    def _cut(self, offset_range: OffsetRange, options: FetchOptions) -> Windows[Chunk]:
        self._wait_ms = options.wait_ms
        return Windows(offset_range.start_offset, offset_range.stop_offset, max(offset_range.size, 1), 1)

    def _request(self, window: Window) -> FetchRequest:
        tp = self._range.topic_partition
        wanted = OffsetData(tp.topic, (tp.partition,), (window.offset,))
        return FetchRequest(NO_REPLICA, self._wait_ms, 1, (wanted,))

    def _chunk(self, response: Response) -> Chunk:
        [offset] = response.request.topic_offsets[0].offsets
        messages = [part.messages for topic in response.body.data for part in topic.partition_data]
        # A response with an error may have no messages. Those of the partition are at the end of the frame.
        size = sum(map(len, messages))
        start = len(response.frame) - size
        stop = start + min(size, self._range.stop_offset - offset)
        return Chunk(offset, response.body.error_code, response.frame[:stop], start)

    def _error(self, code: int) -> BrokerError:
        return broker_error(code, "Fetch")
