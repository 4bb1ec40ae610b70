"""What a driver keeps of one channel, by itself."""

import pytest

from rayshot.format.codec import Frame, split_frame
from rayshot.format.slots import LARGE, Slot
from rayshot.runtime.channel.outbox import BATCH_BYTES_MAX, BATCH_MESSAGES_MAX
from rayshot.runtime.channel.retained import Budget, Retained
from tests.runtime.one_process import CODEC


def message(number, size=0):
    return CODEC.tell("take", (number, "x" * size))


def keep(*batches):
    """A channel that keeps these batches; each is a list of messages."""
    kept, first = Retained(Budget()), 1
    for batch in batches:
        kept.add(Frame(first, len(batch), b"".join(batch)), {})
        first += len(batch)
    return kept


def numbers(kept, first, last):
    frame, _ = kept.piece(first, last)
    assert frame.count == len(split_frame(frame))
    return [CODEC.decode_tell(found)[1][0] for found in split_frame(frame)]


def test_small_batches_are_sent_again_as_one():
    kept = keep(*([message(number)] for number in range(1, 11)))
    assert numbers(kept, 1, 10) == list(range(1, 11))
    assert numbers(kept, 4, 6) == [4, 5, 6]


def test_a_batch_is_cut_where_the_piece_begins_and_ends():
    kept = keep([message(1), message(2), message(3)], [message(4), message(5)])
    assert numbers(kept, 2, 4) == [2, 3, 4]
    assert numbers(kept, 3, 3) == [3]


def test_a_piece_has_no_more_bytes_and_messages_than_a_batch_may_have():
    large = BATCH_BYTES_MAX // 2 + 1
    kept = keep([message(1, large)], [message(2, large)], [message(3, large), message(4, large)], [message(5)])
    assert [numbers(kept, first, 5) for first in (1, 2, 3, 5)] == [[1], [2], [3, 4], [5]]
    many = keep(*([message(number)] for number in range(BATCH_MESSAGES_MAX + 5)))
    assert len(numbers(many, 1, BATCH_MESSAGES_MAX + 5)) == BATCH_MESSAGES_MAX


def test_slots_stay_with_their_messages_and_count():
    budget = Budget()
    kept, slot = Retained(budget), Slot(LARGE, "reference", size=1000)
    kept.add(Frame(1, 2, message(1) + message(2)), {2: (slot,)})
    assert budget.used == len(message(1) + message(2)) + 1000
    assert kept.piece(1, 1)[1] == {}
    assert kept.piece(1, 2)[1] == {2: (slot,)}


def test_what_is_released_is_gone_and_counts_no_more():
    budget = Budget()
    kept = Retained(budget)
    for first in (1, 3, 5):
        kept.add(Frame(first, 2, message(first) + message(first + 1)), {})
    whole = budget.used
    kept.release(3)
    assert budget.used == whole * 2 // 3
    assert numbers(kept, 4, 6) == [4, 5, 6]
    with pytest.raises(AssertionError, match="2 is needed again"):
        kept.piece(2, 6)
    kept.clear()
    assert budget.used == 0
