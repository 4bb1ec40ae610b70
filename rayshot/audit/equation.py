"""The cut equation, from the bytes.

For a channel, Chandy and Lamport (1985, section 3.1) count the messages sent before its sender recorded (n), and those
received before its receiver recorded (m). A recorded state is meaningful when n >= m; then the channel's state is the
messages m+1 .. n. Both parts matter: if n < m, the range is empty and would hide an orphan.
"""

from rayshot.audit.document import Document, StoredChannel
from rayshot.audit.findings import Unproved

DRIVER_PREFIX = "driver:"


def check_equation(document: Document) -> str:
    """Check every channel; returns what was proved. Raises Unproved."""
    in_flight = 0
    seen: set[tuple[str, str]] = set()
    for channel in document.channels:
        if (channel.sender, channel.receiver) in seen:
            raise Unproved(f"channel {channel} is listed twice")
        seen.add((channel.sender, channel.receiver))
        _check_ends(document, channel)
        in_flight += _check_channel(document, channel)
    return (
        f"on each of {len(document.channels):,} channels exactly the messages received + 1 .. sent are stored, in "
        f"order: {in_flight:,} in flight"
    )


def check_alignment(document: Document) -> str | None:
    """Check that no message is in flight on channels that the snapshot calls aligned. Raises Unproved."""
    aligned = [channel for channel in document.channels if channel.aligned]
    for channel in aligned:
        if channel.sent != channel.received or channel.mailbox is not None or channel.outbox is not None:
            raise Unproved(f"channel {channel} was aligned, but messages {channel.received + 1} .. are in flight on it")
    return f"{len(aligned):,} channels were aligned, and nothing is in flight on them" if aligned else None


def _check_ends(document: Document, channel: StoredChannel) -> None:
    senders = document.actors.keys() | document.ended
    if channel.receiver not in document.actors:
        raise Unproved(f"channel {channel} leads to nobody")
    if channel.sender not in senders and not channel.sender.startswith(DRIVER_PREFIX):
        raise Unproved(f"channel {channel} comes from nobody")


def _check_channel(document: Document, channel: StoredChannel) -> int:
    if not 0 <= channel.received <= channel.arrived <= channel.sent:
        raise Unproved(
            f"channel {channel}: {channel.received} received, {channel.arrived} arrived, {channel.sent} sent: "
            "a message was received that was never sent"
        )
    expected = channel.received
    for number in document.messages(channel):
        expected += 1
        if number != expected:
            raise Unproved(f"channel {channel}: message {number} is stored where {expected} should be")
    if expected != channel.sent:
        raise Unproved(f"channel {channel}: messages {expected + 1} .. {channel.sent} are missing")
    return channel.sent - channel.received
