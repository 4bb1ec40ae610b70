"""How a driver makes actors: for its program, and again behind a rollback to a snapshot that lacks them."""

import logging
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from rayshot.errors import ConfigError, NameTaken, RayshotError
from rayshot.model.child_names import random_name
from rayshot.model.handle import ActorHandle
from rayshot.model.specification import ActorSpecification
from rayshot.protocol.driver_events import ActorMade
from rayshot.runtime.actor.host import Host
from rayshot.runtime.actor.spawning import name_taken, spawn_host
from rayshot.runtime.door import door
from rayshot.runtime.driver.liveness import AGAIN_S
from rayshot.runtime.driver.session import DriverSession, PresentLife

log = logging.getLogger("rayshot")
MEET_S = 60.0


class Maker:
    """Makes the actors of one driver. It takes the driver's lock, and calls Ray without it."""

    def __init__(self, session: DriverSession) -> None:
        self._session = session

    def spawn(
        self, specification: ActorSpecification, name: str | None, args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> ActorHandle:
        """Make an actor and send it the call of its constructor. See Port.

        While the system goes back, an actor without a name is made in its next life; one with a name waits for that.
        """
        session = self._session
        if name is not None:
            self._check_free(name)
        if session.down is not None:
            raise session.down.anew()
        if name in session.life.ended:
            raise name_taken(name, session.system)
        message = session.codec.create(specification.pack(), session.codec.tell("__init__", args, kwargs))
        made = self._make(specification, name, message)
        handle = session.dropped.handle(session.port, made, specification, held=name is None)
        if name is not None:
            session.handles[name] = handle
        return handle

    def _make(self, specification: ActorSpecification, name: str | None, message: bytes) -> str:
        """Make an actor in the present life, or in the next one if the system goes back meanwhile; returns its name."""
        session = self._session
        while True:
            life, made = session.life, name or random_name(specification.class_name)
            if not life.rolls_back:  # otherwise it is made in the next life, where it can join
                self._start(life, specification, made)
            with session.lock:
                if session.life is life:
                    self._create(specification, made, message)
                    return made

    def _check_free(self, name: str) -> None:
        """Raise NameTaken if this driver knows a living actor of that name; on the way back wait, as nobody knows then.

        Ray knows no name of an actor that has died, though the snapshot may bring it back.
        """
        session = self._session
        with session.lock:
            session.await_life()
            channel = session.channels.get(name)
            if channel is not None and channel.down is None and channel.sent:
                raise name_taken(name, session.system)

    def _start(self, life: PresentLife, specification: ActorSpecification, name: str) -> None:
        """Start the process of an actor in this life. Raises NameTaken, ConfigError."""
        life.peers.know(name, spawn_host(Host, life.identity, specification, name, maker=self._session.name))

    def _create(self, specification: ActorSpecification, name: str, message: bytes) -> None:
        """Send an actor its creation. Call under the lock."""
        session = self._session
        channel = session.channel_to(name)
        if channel.down is not None:
            raise channel.down.anew()
        channel.calls_max = specification.calls_max
        session.creations.add(name, specification)
        session.take_news()  # the actor may follow from answers that the program has seen
        session.machine.handle(ActorMade(name))
        channel.put_call(message)

    def make_again(self, life: PresentLife, missing: Mapping[str, ActorSpecification]) -> set[str]:
        """Make actors again in a later life, in this order; returns those for which no more can be done.

        The coordinator may have brought an actor back. While nobody says so, or Ray makes no process, the actor is not
        among those that are returned.
        """
        done = set[str]()
        for name, specification in missing.items():
            if not door.is_joined():  # to ask would start Ray anew
                break
            try:
                if life.is_there(name) is None:
                    self._start(life, specification, name)
            except (NameTaken, ConfigError) as error:
                log.warning("%s: actor %r cannot be made again: %s", life.name, name, error)
            except (RayshotError, door.CallFailed) as error:
                log.warning("%s: actor %r cannot be made again yet: %r", life.name, name, error)
                time.sleep(AGAIN_S)
                continue
            done.add(name)
        return done

    def meet(self, name: str) -> None:
        """If the actor is just being made, wait until it is a member of the system, for at most MEET_S seconds."""
        self._await_hellos([name])

    def meet_again(self, life: PresentLife) -> None:
        """Wait as `meet`, but once, for the actors that this driver makes again behind a rollback."""
        if self._await_hellos(life.made_again & self._session.machine.starting):
            life.made_again = frozenset()  # one that has no room now may never have any

    def _await_hellos(self, names: Iterable[str]) -> bool:
        handles = map(self._session.find, names)
        hellos = [handle.hello.remote() for handle in handles if handle is not None]
        if hellos:
            door.wait(hellos, num_returns=len(hellos), timeout=MEET_S)
        return bool(hellos)
