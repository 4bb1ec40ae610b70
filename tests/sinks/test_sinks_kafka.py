import datetime as dt
import json
import re
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from confluent_kafka import KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from rayshot.errors import ConfigError, SinkBehind, SinkFenced, SinkRefused, SinkTaken
from rayshot.sinks import Backend, Held
from rayshot.sinks import kafka as module
from rayshot.sinks.kafka import PREFIX, Kafka
from tests.sinks.conformance import A, B, BackendConformance, made
from tests.sinks.kafka_broker import CommittedConsumer
from tests.sinks.tables import numbers, token

VISITS = "visits"


class Topic:
    """An empty topic of two partitions."""

    def __init__(self, address: str) -> None:
        self.settings = {"bootstrap.servers": address, "log_level": 0}
        self.admin = AdminClient(self.settings)
        self.remove()
        self.create(NewTopic(VISITS, 2, 1))

    def create(self, topic: NewTopic) -> None:
        self.admin.create_topics([topic])[topic.topic].result()

    def remove(self) -> None:
        """What an earlier test left."""
        if there := [name for name in self.admin.list_topics().topics if name == VISITS or name.startswith(PREFIX)]:
            for gone in self.admin.delete_topics(there).values():
                gone.result()

    def backend(self) -> Backend:
        return Kafka(self.settings, VISITS)

    def messages(self) -> list[tuple[bytes | None, Any]]:
        """The keys and values that a reader sees, in the order of each partition."""
        reads = {"group.id": "tests", "isolation.level": "read_committed", "enable.partition.eof": True}
        consumer = CommittedConsumer({**self.settings, **reads, "fetch.wait.max.ms": 10})
        consumer.assign([TopicPartition(VISITS, number, 0) for number in range(2)])
        found: list[tuple[bytes | None, Any]] = []
        ended = 0
        while ended < 2:
            message = consumer.poll(30)
            assert message is not None
            if message.error():
                ended += 1
            else:
                found.append((message.key(), json.loads(message.value())))
        consumer.close()
        return found

    def seen(self) -> list[int]:
        return [row["n"] for _, row in self.messages()]


@pytest.fixture(autouse=True)
def committed_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "Consumer", CommittedConsumer)


class TriedAgain(Kafka):
    """What the runtime does: this broker sometimes has no answer for a producer that another one ends meanwhile."""

    def _move(self, *args: Any) -> Any:
        for _ in range(5):
            try:
                return super()._move(*args)
            except KafkaException as error:
                if error.args[0].code() != KafkaError._TIMED_OUT:
                    raise
        raise AssertionError("the broker did not answer five times in turn")


class TriedTopic(Topic):
    def backend(self) -> Backend:
        return TriedAgain(self.settings, VISITS)


class TestBroker(BackendConformance):
    rounds_quick = 12

    @pytest.fixture
    def place(self, kafka: str) -> Topic:
        return TriedTopic(kafka)


@pytest.fixture
def topic(kafka: str) -> Topic:
    return Topic(kafka)


def taken(topic: Topic, life: int = 1) -> Kafka:
    backend = made(topic)
    backend.take(token(life))
    assert isinstance(backend, Kafka)
    return backend


def test_who_looked_before_a_later_life_took_it_writes_nothing(topic: Topic) -> None:
    zombie = taken(topic)
    there = zombie._look()
    assert there is not None
    late = taken(topic, 2)
    assert not zombie._write(there.moved(Held(1, A)), numbers(1, 9))
    late.publish(token(2), 1, A, numbers(1))
    with pytest.raises(SinkFenced):
        zombie.publish(token(1), 1, A, numbers(1, 9))
    assert topic.seen() == [0]


def test_who_may_not_write_ends_nobody(topic: Topic) -> None:
    backend = taken(topic, 2)
    producer = backend._producer
    with pytest.raises(SinkFenced):
        made(topic).take(token(1))
    with pytest.raises(SinkTaken):
        made(topic).publish(token(9, "other"), 1, A, numbers(1))
    assert made(topic).look() == Held()
    backend.publish(token(2), 1, A, numbers(1))
    assert backend._producer is producer


def test_one_whose_producer_was_ended_by_a_zombie_that_looked_before_goes_on(topic: Topic) -> None:
    zombie, late = made(topic), made(topic)
    assert isinstance(zombie, Kafka)
    taken(topic).publish(token(1), 1, A, numbers(1))
    there = zombie._look()  # it is the zombie's, still
    assert there is not None
    late.take(token(2))
    assert not zombie._write(there.moved(Held(2, A)), numbers(1, 9))  # begins as a producer, and must look again
    late.publish(token(2), 2, A, numbers(1, 1))
    with pytest.raises(SinkFenced):
        zombie.publish(token(1), 2, A, numbers(1, 9))
    assert sorted(topic.seen()) == [0, 1]


def test_a_transaction_that_a_life_left_open_stops_nobody(topic: Topic) -> None:
    """Nor does one of another program, which is open in the topic of the rows."""
    backend = taken(topic)
    backend.publish(token(1), 1, A, numbers(1))
    left = backend._producer
    other = Producer({**topic.settings, "transactional.id": "another program"})
    other.init_transactions(30)
    assert left is not None
    for producer in (left, other):
        producer.begin_transaction()
        producer.produce(VISITS, b'{"n": 9}')
        if producer is left:
            producer.produce(backend._claims, b"{}", b"shop/sink")
        producer.flush()
    assert made(topic).look() == Held(1, A)
    late = taken(topic, 2)
    late.publish(token(2), 2, A, numbers(1, 1))
    other.abort_transaction()
    assert sorted(topic.seen()) == [0, 1]


def test_other_writers_and_sinks_have_room_in_the_topic(topic: Topic) -> None:
    other = Producer(topic.settings)
    for sink in ("a", "b"):
        backend = made(topic, sink)
        backend.take(token(1, f"run of {sink}"))
        backend.publish(token(1, f"run of {sink}"), 1, f"line of {sink}", numbers(1))
        other.produce(VISITS, b'{"n": 100}')
        other.flush()
    assert {sink: made(topic, sink).look().line for sink in ("a", "b")} == {"a": "line of a", "b": "line of b"}
    assert sorted(topic.seen()) == [0, 0, 100, 100]


def test_a_cluster_that_lost_the_claims_is_noticed_at_the_next_batch(topic: Topic) -> None:
    backend = taken(topic)
    for sequence in (1, 2):
        backend.publish(token(1), sequence, A, numbers(1, sequence))
    topic.remove()
    topic.create(NewTopic(VISITS, 2, 1))
    topic.create(NewTopic(backend._claims, 1, 1, config={"cleanup.policy": "compact"}))
    with pytest.raises(SinkBehind, match="what was kept of shop/sink is not there any more"):
        backend.publish(token(1), 3, A, numbers(1, 3))


def test_topics_must_be_as_they_have_to(topic: Topic) -> None:
    with pytest.raises(ConfigError, match=r"Kafka at 127.0.0.1:\d+ has no topic 'nothing': create it"):
        Kafka(topic.settings, "nothing").look()
    backend = made(topic)
    assert isinstance(backend, Kafka)
    assert re.fullmatch(r"rayshot\.sinks\.shop_sink\.[0-9a-f]{16}", backend._claims)
    topic.create(NewTopic(backend._claims, 1, 1, config={"cleanup.policy": "delete"}))
    with pytest.raises(
        ConfigError, match=r"topic 'rayshot.sinks.shop_sink\..*' has cleanup.policy=delete, so it forgets"
    ):
        taken(topic)


@pytest.mark.parametrize(
    ("bad", "row", "why"),
    [
        ({"n": float("nan"), "person": "ann"}, 1, "(?i)not JSON compliant"),
        ({"n": object(), "person": "ann"}, 1, "JSON has no object"),
        ({"n": 1}, 1, "it has no 'person'"),
        ({"n": "x" * 2_000_000, "person": "ann"}, 1, "(?i)message size too large"),
    ],
)
def test_a_row_that_never_fits_is_named_and_nothing_of_its_batch_is_there(
    topic: Topic, bad: Any, row: int, why: str
) -> None:
    backend = Kafka(topic.settings, VISITS, key="person")
    backend.system, backend.sink = "shop", "sink"
    backend.take(token(1))
    with pytest.raises(SinkRefused, match=why) as caught:
        backend.publish(token(1), 1, A, [{"n": 0, "person": "bob"}, bad])
    assert caught.value.evidence == {"sink": "shop/sink", "sequence": 1, "row": row}
    assert topic.seen() == []
    assert made(topic).look() == Held()
    backend.publish(token(1), 1, A, [{"n": 0, "person": "bob"}])
    assert topic.seen() == [0]


def test_a_message_is_json_and_rows_of_one_key_keep_their_order(topic: Topic) -> None:
    backend = Kafka(topic.settings, VISITS, key="person")
    backend.take(token(1))
    at = dt.datetime(2026, 11, 30, 18, 52, 1, 250, dt.UTC)
    rows = pa.table(
        {"n": range(300), "person": 100 * ["anné", "bob", None], "at": 300 * [at], "pay": 300 * [Decimal("1.10")]}
    )
    backend.publish(token(1), 1, A, rows)
    found = topic.messages()
    for person in ("anné", "bob"):
        mine = [row for key, row in found if key == person.encode()]
        assert [row["n"] for row in mine] == [n for n, one in enumerate(rows["person"].to_pylist()) if one == person]
    assert {"n": 1, "person": "bob", "at": at.isoformat(), "pay": "1.10"} in [row for _, row in found]
    assert sum(key is None for key, _ in found) == 100


def test_more_rows_than_the_queue_of_the_producer_has_room_for_are_one_batch(topic: Topic) -> None:
    backend = Kafka({**topic.settings, "queue.buffering.max.messages": 1000}, VISITS)
    backend.take(token(1))
    backend.publish(token(1), 1, A, numbers(5000))
    assert sorted(topic.seen()) == list(range(5000))


def test_an_answer_that_is_lost_is_told_from_a_step_that_failed(topic: Topic, monkeypatch: pytest.MonkeyPatch) -> None:
    class Losing(Producer):
        """Its next commit's answer is lost, behind the commit or before it."""

        lose: str | None = None

        def commit_transaction(self, *args: Any) -> None:
            lose, Losing.lose = Losing.lose, None
            if lose != "before":
                super().commit_transaction(*args)
            if lose is not None:
                raise KafkaException(KafkaError(KafkaError._TIMED_OUT, "the answer is lost"))

    monkeypatch.setattr(module, "Producer", Losing)
    steps = [
        lambda backend: backend.take(token(1)),
        lambda backend: backend.publish(token(1), 1, A, numbers(2)),
        lambda backend: backend.publish(token(1), 2, A, numbers(2, 2)),
        lambda backend: backend.reset(token(1), 1, B),
        lambda backend: backend.publish(token(1), 2, A, numbers(2, 2)),
    ]
    for lose in ("before", "behind"):
        backend = made(topic, f"sink {lose}")
        for step in steps:
            Losing.lose = lose
            with pytest.raises(KafkaException, match="the answer is lost"):
                step(backend)
            step(backend)
        assert backend.take(token(1)) == Held(2, A)
    assert sorted(topic.seen()) == sorted(2 * [0, 1, 2, 2, 3, 3])
