"""Machines of systems that run, from which most stories of recovery begin, and how a story goes on."""

from rayshot.protocol.recovery import Recovery
from rayshot.protocol.recovery_events import Began, RecoveryEffect, RecoveryEvent, RecoveryPolicy

NEVER_BACK = RecoveryPolicy(rolls_back=False)


def running(life: int, policy: RecoveryPolicy | None = None) -> Recovery:
    """The machine of a system in this life, which runs."""
    machine = Recovery(life, policy or RecoveryPolicy())
    machine.handle(Began(life))
    return machine


def tell(machine: Recovery, *events: RecoveryEvent) -> tuple[RecoveryEffect, ...]:
    """The effects of the last of these events."""
    effects: tuple[RecoveryEffect, ...] = ()
    for event in events:
        effects = machine.handle(event)
        machine.validate()
    return effects
