"""Machines of systems that run, from which most stories of recovery begin."""

from rayshot.protocol.recovering import Began, RecoveryPolicy
from rayshot.protocol.recovery import Recovery


def running(life: int, policy: RecoveryPolicy | None = None) -> Recovery:
    """The machine of a system in this life, which runs."""
    machine = Recovery(life, policy or RecoveryPolicy())
    machine.handle(Began(life))
    return machine
