"""The sending end of a channel, without a receiver."""

import threading

from rayshot.runtime.outbox import BATCH_BYTES_MAX, OutChannel


class Nobody:
    """A process whose receivers never say hello."""

    def connect(self, channel):
        pass

    def congested(self, channel):
        pass


def test_a_large_outbox_is_recorded_in_frames_of_a_bounded_size():
    channel = OutChannel(Nobody(), "bob", threading.Lock())
    messages = [bytes([number]) * (BATCH_BYTES_MAX * 2 // 5) for number in range(20)]
    for message in messages:
        channel.append(message)
    frames = [frame for frame in channel.unreleased(1) if frame.count]
    assert b"".join(bytes(frame.body) for frame in frames) == b"".join(messages)
    assert [frame.first for frame in frames] == [1 + sum(f.count for f in frames[:n]) for n in range(len(frames))]
    assert max(len(frame.body) for frame in frames) < 2 * BATCH_BYTES_MAX


def test_a_message_larger_than_a_frame_has_one_of_its_own():
    channel = OutChannel(Nobody(), "bob", threading.Lock())
    for size in (1, 3 * BATCH_BYTES_MAX, 1):
        channel.append(b"x" * size)
    assert sum(frame.count for frame in channel.unreleased(1)) == 3
