"""A process that waits to become an actor, so that none has to be started when one has died."""

import logging
import threading
from importlib import import_module

from rayshot.runtime.actor.host import Host
from rayshot.runtime.actor.loading import LoadPlan
from rayshot.runtime.door import door, here
from rayshot.runtime.door.sigterm import die_at_sigterm
from rayshot.runtime.wire.host_identity import ActorOffer, HostIdentity

log = logging.getLogger("rayshot")


class Spare(Host):
    """Not a host before it has become one: until then nothing but the methods of this class may be called."""

    def __init__(self, modules: frozenset[str]) -> None:
        die_at_sigterm()
        self._taken = threading.Event()
        self._is_host = False
        for module in sorted(modules):
            try:
                import_module(module)
            except (Exception, SystemExit) as error:  # noqa: BLE001 - it runs the user's code; loading says it again
                log.info("a spare process cannot import %s: %r", module, error)

    @door.method("control")
    def ready(self) -> str:
        """Answers once the process runs, and has imported. Returns the id of its node."""
        return str(here.node())

    @door.method("watch")
    def until_taken(self) -> None:
        """Stays pending while this process waits. The call fails when it dies."""
        self._taken.wait()

    @door.method("load")
    def become(self, identity: HostIdentity, plan: LoadPlan) -> None:
        """Be the host of this actor from now on, as a new process: see `Host` and `Host.load`."""
        self._taken.set()
        super().__init__(identity)
        self._is_host = True
        self.load(plan)

    @door.method("control", again=True)
    def hello(self) -> ActorOffer | None:
        """See `Host.hello`; None while this process becomes a host."""
        return super().hello() if self._is_host else None
