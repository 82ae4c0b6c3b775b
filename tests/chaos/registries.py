"""Requests to a schema registry whose connections break and whose answers are wrong, at random.

    run(seed=1, seconds=60)                                         # as many operations as there is time for
    python -m tests.chaos.registries --operation 1:4711             # one of them again

An operation asks a registry some questions through proxies that break connections, while some of the answers
are ``false_answers``. Each question ends, in time, with the truth or with an error of ours. Then the same
client asks the same questions without any fault: it has kept nothing wrong.
"""

from __future__ import annotations

import argparse
import itertools
import logging
import random
import time
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

from spark_kafkawire.errors import KafkaWireError, TransportError, UnknownSchemaError
from spark_kafkawire.net.http import Url
from spark_kafkawire.net.retry import RetryPolicy
from spark_kafkawire.registry.client import Registry
from spark_kafkawire.registry.schemas import Reference, RegisteredSchema, Schema
from spark_kafkawire.registry.settings import BasicLogin, RegistrySettings
from tests.support.fake_registry import FakeRegistry, Fault
from tests.support.polling import GRACE_S, poll

from .false_answers import BROKEN, FINAL, Honest
from .faults import NO_FAULTS, Plan
from .operation import ERROR_SIZE_MAX, EXACT, SECRET
from .proxy import HOST, Proxy, Upstream

#: The deadline of each request where there are faults, and where there are none, on a busy machine.
TIMEOUT_S: Final = 0.3
CALM_TIMEOUT_S: Final = 60.0
#: Longest wait between two attempts, seconds.
_WAIT_MAX_S: Final = 0.1
_RETRIES: Final = (0, 1, 3)
#: How often an answer is false.
_SHARES: Final = (0.0, 0.3, 0.7)
_FINAL_SHARE: Final = 0.1
#: Operations that a run does at least.
_AT_LEAST: Final = 10
_UNKNOWN: Final = "unknown"
_LARGE: Final = f'{{"type": "enum", "name": "Large", "symbols": {[f"S{i}" for i in range(9999)]}}}'.replace(
    "'", '"'
)
_SUBJECTS: Final = ("orders-value", "a/b c:ä", "base", "left", "top")
#: Schemas with their ids, in the order of registration.
_SCHEMAS: Final[Mapping[int, tuple[str, Schema]]] = {
    1: ("orders-value", Schema("AVRO", '"string"')),
    2: ("orders-value", Schema("AVRO", '{"type": "enum", "name": "Größe", "symbols": ["A"]}')),
    3: ("orders-value", Schema("AVRO", _LARGE)),
    4: ("a/b c:ä", Schema("JSON", '{"type": "object"}')),
    5: ("base", Schema("PROTOBUF", "B")),
    6: ("left", Schema("PROTOBUF", "L", (Reference("base.proto", "base", 1),))),
    7: (
        "top",
        Schema("PROTOBUF", "T", (Reference("left.proto", "left", 1), Reference("base.proto", "base", 1))),
    ),
}
_IMPORTED: Final = {6: (("base.proto", "B"),), 7: (("base.proto", "B"), ("left.proto", "L"))}
_NEW: Final = Schema("AVRO", '"bytes"')
_NEW_ID: Final = 8


@dataclass(frozen=True, slots=True)
class Question:
    """A call of the client, and its only right result; ``_UNKNOWN`` for a schema that is not there."""

    name: str
    ask: Callable[[Registry], object]
    truth: object


def questions(fake: FakeRegistry) -> list[Question]:
    """All questions about the schemas of this file."""
    found = []
    for schema_id, (subject, schema) in _SCHEMAS.items():
        imported = _IMPORTED.get(schema_id, ())
        version = fake.subjects[subject].index(schema_id) + 1
        of_subject = RegisteredSchema(schema_id, schema, imported, subject, version)
        found += [
            Question(
                f"id {schema_id}", _by("schema", schema_id), RegisteredSchema(schema_id, schema, imported)
            ),
            Question(
                f"GUID of {schema_id}",
                _by("schema_of_guid", fake.guid(schema_id)),
                RegisteredSchema(-1, schema, imported),
            ),
            Question(f"version of {schema_id}", _by("version", subject, version), of_subject),
            Question(f"look up {schema_id}", _by("look_up", subject, schema), schema_id),
            Question(f"register {schema_id}", _by("register", subject, schema), schema_id),
        ]
        if schema_id == fake.subjects[subject][-1]:
            found.append(Question(f"latest of {subject}", _by("latest", subject), of_subject))
    return [
        *found,
        Question("register a new one", _by("register", "new", _NEW), _NEW_ID),
        Question("id 77", _by("schema", 77), _UNKNOWN),
        Question("GUID 0", _by("schema_of_guid", bytes(16)), _UNKNOWN),
        Question("version 9", _by("version", "orders-value", 9), _UNKNOWN),
        Question("latest of nothing", _by("latest", "nothing"), _UNKNOWN),
        Question("look up nothing", _by("look_up", "top", _NEW), _UNKNOWN),
    ]


def _by(method: str, *arguments: Any) -> Callable[[Registry], object]:
    return lambda registry: getattr(registry, method)(*arguments)


@dataclass(slots=True)
class Liar:
    """Replaces answers of a registry, in an order that its chance gives, and counts them by name."""

    chance: random.Random
    share: float
    told: Counter[str] = field(default_factory=Counter)

    def __call__(self, path: str, code: int, found: dict[str, Any]) -> Fault | None:
        if not found or self.chance.random() >= self.share:
            return None
        is_final = self.chance.random() < _FINAL_SHARE
        name = self.chance.choice(tuple(FINAL if is_final else BROKEN))
        answer = FINAL[name][1] if is_final else BROKEN[name]
        fault = answer(Honest(path, code, found), self.chance)
        self.told[name] += fault is not None
        return fault

    def explains(self, error: KafkaWireError) -> bool:
        """True if one of its answers says that this error is right."""
        name = type(error).__name__
        return any(self.told[answer] and expected == name for answer, (expected, _) in FINAL.items())


class Operation:
    """Some questions to a registry, from its start to its end. Raises ``AssertionError``."""

    def __init__(self, seed: int, number: int) -> None:
        text = f"{seed} registry {number}"
        self._plan = Plan.drawn(text)
        self._chance = random.Random(f"{text} operation")
        self._liar = Liar(random.Random(f"{text} answers"), self._chance.choice(_SHARES))
        self.is_calm = not self._plan.share and not self._liar.share
        self.ended: Counter[str] = Counter()

    def run(self) -> Counter[str]:
        """Ask with faults, then without; how many questions ended how, and the faults that struck."""
        with ExitStack() as stack:
            fake = stack.enter_context(FakeRegistry(users={"alice": SECRET}))
            for schema_id, (subject, schema) in _SCHEMAS.items():
                references = tuple((each.name, each.subject, each.version) for each in schema.references)
                assert fake.add(subject, schema.text, schema.format, references) == schema_id
            port = int(fake.url.rpartition(":")[2])
            servers = ["first", "second"][: self._chance.choice((1, 1, 2))]
            proxy = Proxy([Upstream(server, port, "http") for server in servers], self._plan)
            stack.enter_context(proxy)
            urls = [f"http://{HOST}:{proxy.port(server)}" for server in servers]
            registry, asked = self._registry(urls), self._chance.choices(questions(fake), k=5)
            fake.lie = self._liar
            for question in asked:
                self._ask(registry, question)
            fake.lie, proxy.plan = None, NO_FAULTS
            for question in asked:
                poll(partial(self._has_the_truth, registry, question), f"the truth about {question.name}")
        struck = {f"connections {kind.name.lower()}": count for kind, count in proxy.broken.items()}
        answers = {f"answers {name}": count for name, count in self._liar.told.items()}
        return self.ended + Counter(struck) + Counter(answers)

    def _registry(self, urls: list[str]) -> Registry:
        parsed = tuple(url for url in map(Url.parse, urls) if url is not None)
        self._timeout_s = CALM_TIMEOUT_S if self.is_calm else TIMEOUT_S
        self._retry = RetryPolicy(self._chance.choice(_RETRIES), 0.01, self._chance.choice((0.0, 0.0, 0.5)))
        login = BasicLogin("alice", SECRET)
        return Registry(RegistrySettings(parsed, login, timeout_s=self._timeout_s, retry=self._retry))

    @property
    def _seconds_max(self) -> float:
        """Longest time of a question: an attempt has one deadline for each of up to two servers, however many
        schemas are imported."""
        attempt_s = 2 * self._timeout_s + _WAIT_MAX_S
        return (1 + self._retry.retries) * attempt_s + self._retry.retry_timeout_s + attempt_s + GRACE_S

    def _ask(self, registry: Registry, question: Question) -> None:
        """Ask while there are faults."""
        began_s = time.monotonic()
        try:
            self._check(question, self._answer(registry, question))
            self.ended[EXACT] += 1
        except KafkaWireError as error:
            is_right = isinstance(error, TransportError) or self._liar.explains(error)
            if self.is_calm or not is_right:
                raise AssertionError(f"{question.name}: {type(error).__name__}: {error}") from error
            self.ended[type(error).__name__] += 1
        elapsed_s = time.monotonic() - began_s
        assert elapsed_s < self._seconds_max, f"{question.name} took {elapsed_s:.1f} s"

    def _has_the_truth(self, registry: Registry, question: Question) -> bool:
        """Ask without faults; False if the machine is too busy for the deadline."""
        try:
            self._check(question, self._answer(registry, question))
        except TransportError:
            return False
        except KafkaWireError as error:
            raise AssertionError(f"{question.name}, honestly: {type(error).__name__}: {error}") from error
        return True

    @staticmethod
    def _answer(registry: Registry, question: Question) -> object:
        """The client's answer, whose error is one printable line without the secret."""
        try:
            return question.ask(registry)
        except KafkaWireError as error:
            message = str(error)
            if not message.isprintable() or len(message) > ERROR_SIZE_MAX or SECRET in message:
                raise AssertionError(f"{question.name}: {message[:ERROR_SIZE_MAX]!r} is shown") from error
            if isinstance(error, UnknownSchemaError):
                return _UNKNOWN
            raise

    @staticmethod
    def _check(question: Question, found: object) -> None:
        assert found == question.truth, f"{question.name}: {found!r:.500} instead of {question.truth!r:.500}"


def operation(seed: int, number: int) -> Counter[str]:
    """One operation; how its questions ended, and its faults. Raises ``AssertionError`` that names it."""
    try:
        return Operation(seed, number).run()
    except Exception as error:
        again = f"python -m tests.chaos.registries --operation {seed}:{number}"
        raise AssertionError(f"registry operation {seed}:{number}: {error!r}; again: {again}") from error


def run(seed: int, seconds: float) -> Counter[str]:
    """Operations of that seed for so long; how their questions ended, and the faults that struck.

    Raises ``AssertionError`` that names the operation which failed.
    """
    stop_s, total = time.monotonic() + seconds, Counter[str]()
    for number in itertools.count():
        if number >= _AT_LEAST and time.monotonic() >= stop_s:
            break
        total += operation(seed, number)
    return total


def main() -> None:
    """Run what the arguments name."""
    parser = argparse.ArgumentParser(prog="python -m tests.chaos.registries")
    parser.add_argument("--operation", required=True, help="seed:number")
    seed, number = map(int, parser.parse_args().operation.split(":"))
    logging.disable(logging.CRITICAL)
    print(dict(operation(seed, number)))


if __name__ == "__main__":
    main()
