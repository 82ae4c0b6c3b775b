"""An exactly-once write as a proxy sees it: its steps, how far it is, and faults at any of them.

stage = Stage()
with StagedProxy(upstreams, stage) as proxy:
    stage.begin(Fault(Step.FINISH, nth=2, after_it=True), strike)
    ...write through the proxy; ``strike`` is called by the thread of the connection at that moment...
    stage.struck, stage.phase
"""

from __future__ import annotations

import enum
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from spark_kafkawire.protocol import modern
from spark_kafkawire.protocol.api import Api
from tests.chaos.frames import KafkaView, View
from tests.chaos.proxy import Proxy, Upstream

#: What stands before a request's and a response's body, bytes.
_LENGTH_BYTES: Final = 4
#: How the transactional id, and the group, of a driver end.
_DRIVER: Final = "-driver"


class Step(enum.Enum):
    """Purposes of requests."""

    TAKE_OVER = "the driver begins its transaction"
    READ = "the driver reads what was decided"
    SWEEP = "what is open is listed"
    BEGIN = "an attempt begins its transaction, or the id of one that is over is fenced"
    AWAITED = "an attempt asks whether its driver waits for it"
    TASK_READ = "an attempt of a write that is run again reads what its task has committed"
    JOIN = "partitions are added to a transaction"
    ROWS = "rows are sent"
    HOLD = "an attempt puts its record into its transaction"
    CHECK = "the driver asks what is open, or which ids are to be fenced"
    DECIDE = "the decision is put into the driver's transaction"
    DECISION = "the decision is committed"
    FINISH = "a task's transaction is committed"
    COMPLETE = "and again, or it is described, to know that it is complete"
    MARK = "the note that all is done is put into the driver's transaction"
    DONE = "that note is committed"
    ABORT = "a transaction is aborted"
    OTHER = "what is not about transactions is asked"


class Phase(enum.Enum):
    """Phases of a write."""

    BEFORE = "before the decision"
    DECIDING = "the decision is sent, and not answered"
    BETWEEN = "between the decision and the last commit"
    AFTER = "after the last commit"


@dataclass(frozen=True, slots=True)
class Fault:
    """A moment: the ``nth`` request for a step, from 1 on, before its broker gets it or after it has
    answered. Without a step, when ``delay`` of the time that writes take has passed."""

    step: Step | None
    nth: int = 1
    after_it: bool = False
    delay: float = 0.0


@dataclass(frozen=True, slots=True)
class Place:
    """Place at which a fault struck: the broker that was asked, the port of the client, and the phase
    of the write."""

    upstream: str
    client_port: int
    phase: Phase


class Cut(ConnectionError):
    """A connection that ends here, with both its ends."""


class Stage:
    """Follows one write after the other. Safe for the threads of all connections."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.begin(None, lambda _: None)

    def begin(self, fault: Fault | None, strike: Callable[[Place], None]) -> None:
        """A write begins, on which that fault strikes."""
        with self._lock:
            self.fault, self._strike = fault, strike
            self.struck: Place | None = None
            self.phase = Phase.BEFORE
            self.heard: list[str] = []
            #: The ids of attempts that began.
            self.begun: set[str] = set()
            self._counts: Counter[Step] = Counter()
            self._committed: set[str] = set()
            self._has_decided = False
            self._began_s = time.monotonic()
            self._gone_until_s = 0.0

    def cut_off(self, seconds: float) -> None:
        """Let no connection live for so long."""
        self._gone_until_s = time.monotonic() + seconds

    def check_connected(self) -> None:
        """Raises ``Cut`` where nobody is connected."""
        if time.monotonic() < self._gone_until_s:
            raise Cut("the network is gone")

    def strike_by_chance(self) -> None:
        """The moment of a fault without a step has come."""
        self._struck_at("", 0)

    def asked(self, api: Api, request: Any, upstream: str, client_port: int) -> tuple[Step, bool]:
        """A request comes: what it is for, and whether the fault strikes when it is answered."""
        with self._lock:
            step = self._step_of(api, request)
            self._counts[step] += 1
            self._note(f"{step.name} {_name_of(request)} -> {upstream}")
            if step is Step.BEGIN:
                self.begun.add(_name_of(request))
            fault = self.fault
            is_it = (
                fault is not None
                and self.struck is None
                and (fault.step, fault.nth) == (step, self._counts[step])
            )
            strikes_now = is_it and fault is not None and not fault.after_it
            if step is Step.DECISION and not strikes_now:
                self.phase = Phase.DECIDING
            elif step is Step.FINISH and self.phase is Phase.BEFORE:
                self.phase = Phase.BETWEEN  # of the decision of an earlier run
            elif step in (Step.COMPLETE, Step.MARK, Step.DONE):
                self.phase = Phase.AFTER
        if strikes_now:
            self._struck_at(upstream, client_port)
        return step, is_it and not strikes_now

    def answered(
        self, step: Step, request: Any, response: Any, strikes: bool, upstream: str, client_port: int
    ) -> None:
        """A broker has answered, and who asked does not know yet."""
        with self._lock:
            code = getattr(response, "error_code", 0)
            self._note(f"{step.name} {_name_of(request)} <- {code}")
            if step is Step.DECISION and not code:
                self.phase, self._has_decided = Phase.BETWEEN, True
            elif step is Step.FINISH and not code and not strikes:
                self._committed.add(request.transactional_id)
            elif step is Step.DONE and not code and not self._has_decided:
                # What an earlier run had decided is done, and this write begins.
                self.phase = Phase.BEFORE
                self._committed.clear()
        if strikes:
            self._struck_at(upstream, client_port)

    def _struck_at(self, upstream: str, client_port: int) -> None:
        with self._lock:
            if self.struck is not None:
                return
            self.struck = Place(upstream, client_port, self.phase)
            self._note("the fault strikes")
            strike = self._strike
        strike(self.struck)

    def _note(self, line: str) -> None:
        self.heard.append(f"{time.monotonic() - self._began_s:7.3f} {line}")

    def _step_of(self, api: Api, request: Any) -> Step:
        is_driver = _name_of(request).endswith(_DRIVER)
        is_decided = self.phase in (Phase.BETWEEN, Phase.AFTER)
        if api is modern.END_TXN:
            return self._step_of_end(request, is_driver, is_decided)
        if api is modern.DESCRIBE_TRANSACTIONS:
            if is_driver:
                return Step.AWAITED
            return Step.COMPLETE if is_decided else Step.CHECK
        if api in (modern.TXN_OFFSET_COMMIT, modern.ADD_OFFSETS_TO_TXN) and is_driver:
            return Step.MARK if is_decided else Step.DECIDE
        if is_driver:
            return _OF_DRIVER.get(api, Step.OTHER)
        return _OF_TASKS.get(api, Step.OTHER)

    def _step_of_end(self, request: Any, is_driver: bool, is_decided: bool) -> Step:
        if not request.committed:
            return Step.ABORT
        if not is_driver:
            return Step.COMPLETE if request.transactional_id in self._committed else Step.FINISH
        return Step.DONE if is_decided else Step.DECISION


_OF_TASKS: Final = {
    modern.INIT_PRODUCER_ID: Step.BEGIN,
    modern.OFFSET_FETCH: Step.TASK_READ,
    modern.ADD_PARTITIONS_TO_TXN: Step.JOIN,
    modern.ADD_OFFSETS_TO_TXN: Step.HOLD,
    modern.TXN_OFFSET_COMMIT: Step.HOLD,
    modern.PRODUCE: Step.ROWS,
    modern.LIST_TRANSACTIONS: Step.SWEEP,
}
_OF_DRIVER: Final = {modern.INIT_PRODUCER_ID: Step.TAKE_OVER, modern.OFFSET_FETCH: Step.READ}


def _name_of(request: Any) -> str:
    """The transactional id, or the group, that a request is about."""
    for field in ("transactional_id", "v3_and_below_transactional_id", "group_id"):
        if name := getattr(request, field, None):
            return str(name)
    if ids := getattr(request, "transactional_ids", None):
        return str(ids[0])
    groups = getattr(request, "groups", None) or ()
    # DescribeGroups has their names (slow brokers are asked it while they tell their versions), OffsetFetch
    # what is asked of each.
    return str(getattr(groups[0], "group_id", groups[0])) if groups else ""


class StagedView(KafkaView):
    """One connection, whose frames the stage gets."""

    def __init__(self, proxy: StagedProxy, upstream: Upstream, client_port: int) -> None:
        ports = {each.port: proxy.port(each.name) for each in proxy.upstreams}
        super().__init__(ports, proxy.spoken)
        self._stage, self._place = proxy.stage, (upstream.name, client_port)
        self._waiting: dict[int, tuple[Api, int, Any, Step, bool]] = {}

    def request(self, frame: bytes) -> None:
        """As any, unless the fault strikes here. Raises ``Cut``."""
        self._stage.check_connected()
        super().request(frame)
        body = memoryview(frame)[_LENGTH_BYTES:]
        api, header, _ = modern.DIALECT.read_request_header(body)
        request = None
        if api not in _UNREAD:
            api, request = modern.DIALECT.read_request(body)
        step, strikes = self._stage.asked(api, request, *self._place)
        self._stage.check_connected()
        self._waiting[header.correlation_id] = api, header.api_version, request, step, strikes

    def response(self, frame: bytes) -> bytes:
        """The same of what a broker answers."""
        correlation_id = int.from_bytes(frame[_LENGTH_BYTES : _LENGTH_BYTES + 4], "big")
        passed = super().response(frame)
        api, version, request, step, strikes = self._waiting.pop(correlation_id)
        response = None
        if step is not Step.OTHER:
            body = memoryview(frame)[_LENGTH_BYTES:]
            response = modern.DIALECT.read_response(api, body, version, correlation_id)
        self._stage.answered(step, request, response, strikes, *self._place)
        self._stage.check_connected()
        return passed


#: What no step is told by.
_UNREAD: Final = (modern.METADATA, modern.API_VERSIONS)


class StagedProxy(Proxy):
    """A proxy whose connections the stage follows."""

    def __init__(self, upstreams: Sequence[Upstream], stage: Stage) -> None:
        super().__init__(upstreams)
        self.upstreams, self.stage = upstreams, stage

    def view(self, upstream: Upstream, client_port: int) -> View:
        """Its view."""
        return StagedView(self, upstream, client_port)

    @property
    def bootstrap_servers(self) -> str:
        """All its ports, as clients take them."""
        return ",".join(f"127.0.0.1:{self.port(each.name)}" for each in self.upstreams)
