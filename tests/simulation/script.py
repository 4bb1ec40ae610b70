"""The commands of story files, and the files themselves.

A file begins with lines of `#` that say what it shows and where it is from. Then come blocks, apart by empty lines: one
or more commands, a line `----`, and the whole trace that they leave. `stories/README.md` lists the commands.
"""

import shlex
from pathlib import Path
from typing import NamedTuple

from rayshot.protocol.abort import AbortReason
from rayshot.protocol.collector_events import AbortWanted, ProcessJoined, SnapshotWanted
from rayshot.protocol.driver_events import AnswerArrived
from rayshot.protocol.events import AlignmentTimedOut, SnapshotRequested
from rayshot.protocol.identity import ALIGNED, INITIATORS, Channel
from rayshot.protocol.topology import forward_inputs
from rayshot.simulation.bodies.account_process import AccountProcess
from rayshot.simulation.bodies.application import AccountMessage, Created, HandlerEnded, HandlerSent, SimulatedAccount
from tests.simulation.stage import Stage

RULE = "----"


class Block(NamedTuple):
    """Lines of a file: prose only, or commands with the trace that is expected beneath them."""

    line: int
    commands: list[str]
    expected: list[str]
    prose: list[str]


def read_blocks(text: str) -> list[Block]:
    """Split a file at its empty lines."""
    blocks, begin = [], 1
    for part in text.strip("\n").split("\n\n"):
        lines = part.split("\n")
        prose = [line for line in lines if line.startswith("#")]
        rest = [line for line in lines if not line.startswith("#")]
        rule = rest.index(RULE) if RULE in rest else len(rest)
        blocks.append(Block(begin, rest[:rule], rest[rule + 1 :], prose))
        begin += len(lines) + 1
    return blocks


def play(path: Path) -> str:
    """Do the commands of a file; return the file as it would be with the traces that they left."""
    script = Script()
    parts = []
    for block in read_blocks(path.read_text(encoding="utf-8")):
        lines = [*block.prose, *block.commands]
        if block.commands:
            lines += [RULE, *script.do_all(block.commands, f"{path.name}:{block.line}")]
        parts.append("\n".join(lines))
    return "\n\n".join(parts) + "\n"


class Script:
    """A stage, and the commands that move what is on it. Each is a method `do_...`; its arguments are words."""

    def __init__(self):
        self.stage = Stage()

    def do_all(self, commands, where):
        """Do the commands of a block; return its trace. Raises ValueError on what is no command, with the place."""
        trace = self.stage.narrator.trace = []
        for command in commands:
            name, *words = shlex.split(command, comments=True)
            if name.endswith(":"):  # a label: what the event is called in the picture that the story tells
                name, *words = words
            method = getattr(self, f"do_{name}", None)
            if method is None:
                raise ValueError(f"{where}: there is no command {name!r}")
            try:
                method(*words)
                self.stage.settle()
            except (TypeError, ValueError, LookupError, AssertionError) as error:
                raise ValueError(f"{where}: {command!r} cannot be done: {error!r}") from error
        return trace or ["nothing follows"]

    # Who is there ----------------------------------------------------------------------------------

    def do_processes(self, *pairs):
        for name, _, balance in (pair.partition("=") for pair in pairs):
            self.stage.add(name, SimulatedAccount(name, int(balance), ()))

    def do_channels(self, *pairs):
        for sender, _, receiver in (pair.partition("->") for pair in pairs):
            self.stage.open(sender, receiver)

    def do_names(self, whose, *pairs):
        """Words for states of a process, or for what messages of a channel carry."""
        sender, arrow, receiver = whose.partition("->")
        key = str(Channel(sender, receiver)) if arrow else whose
        for balance, _, word in (pair.partition("=") for pair in pairs):
            self.stage.narrator.names[key][int(balance)] = word

    def do_show(self):
        self.stage.narrator.say(f"now: {self.stage.narrator.global_state(*self.stage.global_state())}")

    # Messages --------------------------------------------------------------------------------------

    def do_send(self, sender, receiver, *amounts):
        """Send messages, each in a packet of its own."""
        for amount in amounts:
            self.do_queue(sender, receiver, amount)
            self.do_transport(sender, receiver)

    def do_queue(self, sender, receiver, *amounts):
        """Send messages that stay in the outbox."""
        for amount in amounts:
            if driver := self.stage.drivers.get(sender):
                driver.write(receiver, AccountMessage("transfer", int(amount), driver.sent(receiver) + 1))
                self.stage.narrator.log[Channel(sender, receiver)].append(int(amount))
            else:
                self.stage.processes[sender].step(HandlerSent(receiver, int(amount)))

    def do_transport(self, sender, receiver):
        """The transport takes all that the outbox has for a receiver, in one packet."""
        if driver := self.stage.drivers.get(sender):
            driver.take(receiver, len(driver.log[receiver]) - driver.taken[receiver])
        elif receiver != sender:
            self.stage.open(sender, receiver)
            self.stage.processes[sender].take(receiver, len(self.stage.processes[sender].outbox[receiver]))

    def do_arrive(self, sender, receiver, which="1"):
        """A packet in transit arrives: the oldest one, or the one with that place in the order of sending."""
        self.stage.arrive(sender, receiver, int(which) - 1)

    def do_receive(self, sender, receiver, which="1"):
        """As in the paper: it arrives, the receiver records if it is to, and takes what it may of that sender."""
        self.do_arrive(sender, receiver, which)
        self.stage.settle()
        self.stage.record(receiver)
        while sender in self.stage.processes[receiver].next_senders():
            self.do_take(receiver, sender)

    def do_take(self, receiver, sender):
        """A process takes the next message of a sender from its mailbox."""
        process = self.stage.processes[receiver]
        assert process.mailbox[sender], f"nothing of {sender} is in the mailbox"
        if sender not in process.next_senders():
            why = "while it stands still" if process.machine.paused else "that is behind the cut before it has recorded"
            self.stage.narrator.say(f"{receiver} may take nothing of {sender} {why}")
            return
        process.begin_handler(sender)

    def do_again(self, sender, receiver, first="1"):
        """The sender missed the acknowledgement: it sends the packet that begins with this message again."""
        place = len(self.stage.transit[sender, receiver])
        process = self.stage.processes.get(sender)
        if process is None:
            self.stage.drivers[sender].send_again(receiver, int(first), tagged_anew=True)
        else:
            process.send_again(receiver, int(first))
        packets = self.stage.transit[sender, receiver][place:]
        for packet in packets:
            what = self.stage.narrator.packet(
                Channel(sender, receiver), packet.first, len(packet.messages), packet.markers, tags=packet.tags
            )
            self.stage.narrator.say(f"{sender} -> {receiver} again: {what}")

    def do_lose(self, sender, receiver="", which="1"):
        """A packet in transit is lost, or with `all` everything that is in transit."""
        if sender == "all":
            self.stage.transit.clear()
        else:
            self.stage.transit[sender, receiver].pop(int(which) - 1)

    def do_acknowledge(self, receiver, sender):
        """The oldest acknowledgement of the receiver that waits comes to the sender, with its news."""
        channel = Channel(sender, receiver)
        waiting = self.stage.answers[channel][0]
        recorded = ", ".join(map(self.stage.narrator.snapshot, waiting.recorded))
        self.stage.narrator.say(f"{receiver} to {sender}: has all up to message {waiting.last}, recorded {recorded}")
        self.stage.answer(channel)

    # Snapshots -------------------------------------------------------------------------------------

    def do_begin(self, who):
        """A process begins a snapshot, records at once, and its markers alone bring the news.

        Or the coordinator begins one: `coordinator`, `aligned`, `stopped`.
        """
        if who in self.stage.processes:
            self.stage.processes[who].tell(SnapshotRequested())
            self.stage.settle()
            self.stage.record(who)
        elif who == "aligned":
            used = {c for c, sent in self.stage.narrator.log.items() if sent} | self.stage.channels
            used = {c for c in used if c.sender in self.stage.processes}
            graph = {name: [c.receiver for c in used if c.sender == name] for name in self.stage.processes}
            self.stage.coordinator.tell(SnapshotWanted(ALIGNED, forward_inputs(graph)))
        else:
            modes = {initiator: mode for mode, initiator in INITIATORS.items()}
            self.stage.coordinator.tell(SnapshotWanted(modes[who]))

    def do_tell(self, *names):
        """What the coordinator has to tell these processes reaches them."""
        for name in names:
            orders, self.stage.orders[name] = self.stage.orders[name], []
            for order in orders:
                self.stage.processes[name].tell(order)

    def do_record(self, *names):
        """These processes are between two handlers: they record what they are to record."""
        for name in names:
            self.stage.record(name)

    def do_pause(self, *names):
        """No handler runs any more in these processes."""
        for name in names:
            self.stage.processes[name].pause()

    def do_abort(self, snapshot):
        """The coordinator gives a snapshot up."""
        names = self.stage.narrator.snapshots
        (found,) = (k for k, name in names.items() if name == snapshot)
        self.stage.coordinator.tell(AbortWanted(found, AbortReason.TIMEOUT, "its time is up"))

    def do_timeout(self, name):
        """A process has waited long enough to be aligned."""
        process = self.stage.processes[name]
        for snapshot in process.machine.open_snapshots:
            if snapshot.mode == ALIGNED:
                process.tell(AlignmentTimedOut(snapshot))

    def do_restore(self, snapshot):
        """All processes are lost, and come back from a snapshot."""
        self.stage.restore(self.stage.stored[snapshot])
        self.stage.narrator.say(f"life {self.stage.life} begins from {snapshot}")
        self.do_show()

    # Births and ends -------------------------------------------------------------------------------

    def do_create(self, parent, child, amount):
        """A process creates another one: its constructor's message waits until it says hello."""
        self.stage.processes[parent].step(Created(child, int(amount)))
        self.stage.narrator.say(f"{parent} creates {child}")

    def do_join(self, name):
        """A process that was created says hello to the coordinator, and is not born yet."""
        self.stage.processes[name] = AccountProcess(name, self.stage.machine(name), self.stage)
        self.stage.coordinator.tell(ProcessJoined(name))

    def do_end(self, name, successor):
        """A process leaves all it has to another one, and wants to end."""
        self.stage.processes[name].step(HandlerEnded(successor))
        self.do_transport(name, successor)

    def do_leave(self, name):
        """A process that wants to end does so, if the protocol lets it."""
        process = self.stage.processes[name]
        process.try_to_end()
        if not process.ended:
            self.stage.narrator.say(f"{name} may not end yet")

    # Drivers ---------------------------------------------------------------------------------------

    def do_driver(self, name):
        """A program outside the system gets handles of its processes."""
        self.stage.add_driver(name)

    def do_answer(self, process, driver):
        """A driver sees what a process has become, and with it the snapshots that are open there."""
        tags = self.stage.processes[process].machine.open_snapshots
        known = ", ".join(map(self.stage.narrator.snapshot, tags)) or "none"
        self.stage.narrator.say(f"{process} answers {driver}: snapshots open here: {known}")
        self.stage.drivers[driver].tell(AnswerArrived(tags))
