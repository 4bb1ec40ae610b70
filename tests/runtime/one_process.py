"""The channels of one actor's process with its real machine, and receivers that answer when a test says so. No Ray."""

import threading
from types import SimpleNamespace
from unittest.mock import Mock

from rayshot.format.codec import Codec, Frame, split_frame
from rayshot.model.dead_letters import DeadLetters
from rayshot.model.handle import ActorHandle
from rayshot.protocol.events import ReceiverReady
from rayshot.runtime.actor.channels import Channels
from rayshot.runtime.actor.runner import Runner
from rayshot.runtime.actor.tracing import Tracing
from rayshot.runtime.wire.host_identity import HostIdentity
from rayshot.runtime.wire.packets import PacketAnswer, Status, unpack_packet

CODEC = Codec(ActorHandle, lambda handle: handle.name, lambda name: ActorHandle("system", name, None, None))


def identity_of(name="alice", coordinator=None, **settings):
    given = {"snapshot_timeout_s": 40.0, "channel_state_bytes_max": 1 << 30, **settings}
    return HostIdentity("system", 1, name, coordinator or Mock(), "", **given)


class Process(Channels):
    """The channels of alice; nobody is looked for, and it notes whose outboxes were above their limit."""

    def __init__(self, snapshots=None):
        cell = SimpleNamespace(constructing=False, tell_methods=lambda _tell: None, dead_letters=DeadLetters())
        runner = Runner(identity_of())
        super().__init__(runner, cell, CODEC, Tracing("alice", cell, False), lambda *_: None)
        runner.employ(self, snapshots or Mock())
        self.runner = runner
        self.congested_channels = []

    def connect(self, channel):
        pass

    def congested(self, channel):
        self.congested_channels.append(channel)

    def meet(self, receiver, peer):
        """Find a receiver."""
        with self.lock:
            channel = self.channel_locked(receiver)
            channel.connected(peer)
            self.runner.handle(ReceiverReady(receiver))
        return channel


class Receiver:
    """Bob, who keeps what came until `answer` is called. `numbers` are the second arguments of the messages, in order.

    `batches` has for each packet the event of the receiver's machine, `unanswered` the batch in flight.
    """

    def __init__(self):
        self.unanswered = []
        self.batches = []
        self.numbers = []
        self.came = threading.Semaphore(0)
        self.wanted = []
        self.channel = None

    def receive(self, packet):
        batch, _, body = unpack_packet(packet)
        self.batches.append(batch)
        self.unanswered.append(self.channel.in_flight.get(batch.first))
        for message in split_frame(Frame(batch.first, batch.count, body)):
            _, (number,), _ = CODEC.decode_tell(message)
            self.numbers.append(number)
        self.came.release()
        return SimpleNamespace(_on_completed=lambda _callback: None)

    def await_credit(self, _name, wanted):
        self.wanted.append(wanted)
        return SimpleNamespace(_on_completed=lambda _callback: None)

    def answer(self, processed=None, **answer):
        """Answer the first call that is not answered; all of it is processed by then, if nothing else is said."""
        batch = self.unanswered.pop(0)
        taken = PacketAnswer(Status.TAKEN, batch.last if processed is None else processed, **answer)
        self.channel.settle_batch(self.channel._sender, batch, taken)
