"""Rows as messages in a topic of Kafka, through `confluent-kafka`.

What the cluster keeps of a sink is the last record in a topic of its own, written in the transaction of the rows. A
transaction belongs to a producer, and who begins as one with the sink's transactional id ends all others that had it.
So: look whether this life may write; begin as a producer; look again, as from now on nobody else writes without ending
this producer; write. Who may not write finds that out before it ends anybody.

The topic is the sink's own, as a record is seen only when all transactions before it in its topic have ended.
"""

import datetime as dt
import json
import re
from contextlib import suppress
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import blake3

from rayshot.errors import ConfigError
from rayshot.sinks.backend import UNFIT, Claim, refusal
from rayshot.sinks.optimistic import Optimistic

try:
    from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
    from confluent_kafka.admin import AdminClient, ConfigResource, NewTopic
except ImportError as error:
    raise ConfigError("a sink into Kafka needs confluent-kafka: pip install 'rayshot[kafka]'") from error

if TYPE_CHECKING:
    from rayshot.sinks.backend import Rows

    Message = tuple[bytes | None, bytes]
    """A key and a value."""

PREFIX = "rayshot.sinks."
"""How the names of the topics begin in which claims are."""
WAIT_MAX_S = 30.0
"""For an answer of the cluster."""
_ENDED = {KafkaError._FENCED, KafkaError.INVALID_PRODUCER_EPOCH, KafkaError.PRODUCER_FENCED}  # noqa: SLF001 - its name
"""Another producer has the transactional id."""
_UNFIT = {KafkaError.MSG_SIZE_TOO_LARGE, KafkaError.INVALID_MSG_SIZE, KafkaError.INVALID_RECORD}


class Kafka(Optimistic):
    """A topic, which may have other sinks and other writers too. Who reads with `read_committed` has each row once.

    A row is a JSON object in UTF-8; dates and times are texts of ISO 8601 there, and decimals are texts. The topic must
    exist. Another one, `rayshot.sinks.<system>_<sink>.<digest>`, is created, and must stay compacted.

    Args:
        settings: what `confluent_kafka.Producer` takes, with at least `bootstrap.servers`. Read passwords from the
            environment.
        topic: the name of the topic.
        key: the name in the rows whose value is the message's key: a text as it is, null as no key, else as JSON. None
            for messages without keys.
    """

    def __init__(self, settings: dict[str, Any], topic: str, *, key: str | None = None) -> None:
        self._settings, self._topic, self._key = settings, topic, key
        self._admin = AdminClient(settings)
        self._producer: Producer | None = None
        self._is_there = False
        """Whether the topic of claims is known to be there."""
        self._claim: Claim | None = None
        self._position = 0
        """Where it was read up to: `_claim` is the last one before."""

    @property
    def _claims(self) -> str:
        """The topic of this sink's claims."""
        plain = re.sub("[^A-Za-z0-9._-]", "_", self.name)[:200]
        return f"{PREFIX}{plain}.{blake3.blake3(self.name.encode()).hexdigest(8)}"

    def _look(self) -> Claim | None:
        """What the newest record says. Raises ConfigError without the user's topic."""
        if not self._is_there:
            topics = self._admin.list_topics(timeout=WAIT_MAX_S).topics
            if self._topic not in topics:
                where = self._settings["bootstrap.servers"]
                raise ConfigError(f"Kafka at {where} has no topic {self._topic!r}: create it", topic=self._topic)
            self._is_there = self._claims in topics
        if self._is_there:
            self._read_on()
        return self._claim

    def _read_on(self) -> None:
        """Read the topic of claims up to its end, or up to a transaction that is open."""
        reads = {
            "group.id": "rayshot",  # nothing is kept of it
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
            "fetch.wait.max.ms": 10,
        }
        consumer = Consumer({**self._settings, **reads})
        try:
            if self._ends(consumer) < self._position:  # the topic was made anew
                self._position, self._claim = 0, None
            consumer.assign([TopicPartition(self._claims, 0, self._position)])
            while (message := consumer.poll(WAIT_MAX_S)) is not None:
                if (failure := message.error()) is None:
                    about = message.value()
                    self._claim = None if about is None else Claim(**json.loads(about))
                elif failure.code() == KafkaError._PARTITION_EOF:  # noqa: SLF001 - its name
                    self._position = message.offset() or 0
                    return
                else:
                    raise KafkaException(failure)
        finally:
            consumer.close()
        raise TimeoutError(f"Kafka gave no answer for topic {self._claims!r} in {WAIT_MAX_S:.0f} s")

    def _ends(self, consumer: Consumer) -> int:
        ends: tuple[int, int] = consumer.get_watermark_offsets(TopicPartition(self._claims, 0), timeout=WAIT_MAX_S)
        return ends[1]

    def _write(self, claim: Claim, rows: "Rows | None") -> bool:
        messages = self._messages(claim, [] if rows is None else rows)
        try:
            if self._producer is None:
                self._producer = self._begun()
                return False
            self._write_all(self._producer, claim, messages)
        except KafkaException as error:
            producer, self._producer = self._producer, None
            if error.args[0].code() in _ENDED:
                return False
            if producer is not None:
                with suppress(KafkaException):  # else readers wait until it is too old, or a producer begins
                    producer.abort_transaction(1.0)
            raise
        return True

    def _begun(self) -> Producer:
        """Begin as the only producer of this sink. Raises ConfigError if the topic of claims forgets some."""
        new = NewTopic(self._claims, 1, -1, config={"cleanup.policy": "compact"})
        try:
            self._admin.create_topics([new], request_timeout=WAIT_MAX_S)[self._claims].result()
        except KafkaException as error:
            if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                raise
        topic = ConfigResource(ConfigResource.Type.TOPIC, self._claims)
        found = self._admin.describe_configs([topic], request_timeout=WAIT_MAX_S)[topic].result()
        if (policy := found["cleanup.policy"].value) != "compact":
            raise ConfigError(f"topic {self._claims!r} has cleanup.policy={policy}, so it forgets: set it to compact")
        producer = Producer({**self._settings, "transactional.id": f"rayshot/{self.name}"})
        producer.init_transactions(WAIT_MAX_S)
        return producer

    def _write_all(self, producer: Producer, claim: Claim, messages: "list[Message]") -> None:
        """Write messages and claim in one transaction. Raises SinkRefused, KafkaException."""
        failures: list[KafkaError] = []

        def delivered(failure: KafkaError | None, _: object) -> None:
            if failure is not None:
                failures.append(failure)

        records = [(self._topic, *message) for message in messages]
        records.append((self._claims, self.name.encode(), json.dumps(claim.document).encode()))
        sent = 0
        try:
            producer.begin_transaction()
            while sent < len(records):
                topic, key, value = records[sent]
                try:
                    producer.produce(topic, value, key, on_delivery=delivered)
                    sent += 1
                except BufferError:  # its queue is full
                    producer.poll(WAIT_MAX_S)
            producer.commit_transaction(WAIT_MAX_S)
        except KafkaException as error:
            for failure in (error.args[0], *failures):
                if failure.code() in _UNFIT:
                    with suppress(KafkaException):
                        producer.abort_transaction(WAIT_MAX_S)
                    row = sent if sent < len(messages) else None
                    raise refusal(self.name, claim.sequence, row, failure.str()) from error
            raise

    def _messages(self, claim: Claim, rows: "Rows") -> "list[Message]":
        """A message for each row. Raises SinkRefused."""
        messages = []
        for index, row in enumerate(rows if isinstance(rows, list) else rows.to_pylist()):
            try:
                messages.append((self._key_of(row), _json(row)))
            except (*UNFIT, KeyError) as error:
                why = f"it has no {self._key!r}" if isinstance(error, KeyError) else str(error)
                raise refusal(self.name, claim.sequence, index, why) from error
        return messages

    def _key_of(self, row: dict[str, Any]) -> bytes | None:
        key = None if self._key is None else row[self._key]
        return key.encode() if isinstance(key, str) else None if key is None else _json(key)


def _json(value: Any) -> bytes:
    return json.dumps(value, default=_plain, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()


def _plain(value: Any) -> str:
    """A value that JSON does not know, as a text."""
    if isinstance(value, (dt.date, dt.time)):
        return value.isoformat()
    if isinstance(value, Decimal):
        return str(value)
    raise TypeError(f"JSON has no {type(value).__name__}")
