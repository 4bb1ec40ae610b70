"""Messages in flight to actors that a restore leaves out, as dead letters."""

from collections import deque
from collections.abc import Callable

from rayshot.format.codec import read_frames, read_messages
from rayshot.format.manifest import Blob
from rayshot.model.dead_letter import DeadLetter
from rayshot.model.resolution import Fit

LETTERS_MAX = 1000
"""Only the last messages of each channel are read; the counters say how many there were."""


def undeliverable(fit: Fit, read: Callable[[Blob], bytes]) -> tuple[DeadLetter, ...]:
    """One dead letter for each message, at most the last LETTERS_MAX of each channel. Raises Damaged, StoreError."""
    letters = []
    for channel in fit.undeliverable:
        why = (
            f"actor {channel.receiver!r} was left out of the restore of {fit.manifest.snapshot}: this program has no "
            f"{fit.left_out[channel.receiver]}, or it was named in skip_missing_classes"
        )
        frames = (frame for blob in channel.blobs() for frame in read_frames(read(blob)))
        messages = (message for frame in frames for message in read_messages(frame))
        letters += [
            DeadLetter(channel.receiver, channel.sender, message.number, message.method, why)
            for message in deque(messages, LETTERS_MAX)
        ]
    return tuple(letters)
