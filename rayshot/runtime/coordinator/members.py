"""The members of a system: hosts and vaults, and why the others are gone. The coordinator's lock covers them."""

import logging
import threading
import time
from collections.abc import Callable, Collection, Container, Iterable, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

from rayshot.format.codec import Codec
from rayshot.model.dead_letter import DeadLetter
from rayshot.model.dead_letters import DEAD_LETTERS_MAX, last_of
from rayshot.model.handle import ActorHandle
from rayshot.protocol.identity import SnapshotId
from rayshot.runtime.actor.spawning import name_taken
from rayshot.runtime.coordinator.death_watch import DeathWatch
from rayshot.runtime.coordinator.system_lock import SystemLock
from rayshot.runtime.door import door, here, notes
from rayshot.runtime.door.naming import actor_name, named_actors, prefix, vault_name
from rayshot.runtime.door.roster import Roster, names_by_ray_name, packed_options
from rayshot.runtime.door.state import actor_id, actors_in_the_making
from rayshot.runtime.wire.actor_errors import ActorExited
from rayshot.runtime.wire.host_identity import Abandoned, Ending, Stop
from rayshot.runtime.wire.keyring import Keyring, find_keyring
from rayshot.runtime.wire.orders import Issuer
from rayshot.runtime.wire.restored_fit import RestoredFit

log = logging.getLogger("rayshot")
ANSWER_S = 2.0
"""A member has so many seconds to answer a question; after that its answer is left out."""
TAKE_OVER_S = 30.0
"""An actor that does not answer a new coordinator for so many seconds counts as dead."""
CLEAN_UP_S = 10.0
"""Seconds that a shutdown waits for deaths, and then again for the vaults, which alone remove what the dead left."""
STOP_S = 1.0
"""A shutdown waits so many seconds for the answers to `stop`: Ray writes an error if a host dies before it answers."""
LINGER_S = 10.0
"""The process of an actor that ended stays for at most so many seconds, so that drivers can fetch outcomes of calls."""
AGAIN_S = 1.0
"""Seconds until the next try, where Ray's control service did not answer."""
VAULT_PAUSE_S = 10.0
"""A vault is watched again so many seconds after its death."""
VAULT_GROUPS = {"store": 1, "watch": 1, "control": 1, "hello": 1}


class Living(NamedTuple):
    """A host that lives, as far as anybody knows. It was made under this Ray name, and with these `options` of Ray."""

    host: Any
    ray_name: str
    options: Mapping[str, Any]


class Members:
    """Ray handles of one life of a system. What changes them is done under the lock.

    What asks Ray's control service is done without it, as its text says; only a take-over asks under the lock.
    """

    def __init__(
        self, system: str, issuer: Issuer, storage: str, on_death: Callable[[str, str], None], lock: SystemLock
    ) -> None:
        self.hosts: dict[str, Any] = {}
        self.in_the_making: dict[str, Any] = {}
        self.roster = Roster(system, issuer.life)
        self.letters: dict[str, tuple[DeadLetter, ...]] = {}
        """The dead letters of actors that have ended; of the last ones, so that they are about DEAD_LETTERS_MAX."""
        self.passed_over: dict[tuple[str, str, int], DeadLetter] = {}
        """Messages without which actors go on, by receiver, sender and number; see `protocol.poison`."""
        self.fitted: RestoredFit | None = None
        """How the snapshot from which a person restored the system fits, until another one that advances is stored."""
        self._keyring: Keyring | None = None
        self._lock = lock
        self._system = system
        self._issuer = issuer
        self._incarnation = issuer.life
        self._storage = storage
        self.ray_names: dict[str, str] = {}
        self.options: dict[str, Mapping[str, Any]] = {}
        """What Ray was told when it made an actor. The ended ones too: going back to a snapshot may bring them back."""
        self._codec = Codec(ActorHandle, lambda handle: handle.name_in(system), _no_handle)
        self._vaults: dict[str, Any] = {}
        self._nodes: dict[str, str] = {}
        self._ended: dict[str, Ending] = {}
        self._stops: list[Any] = []
        self._watches = DeathWatch(on_death)
        self._vault_watches = DeathWatch(self._vault_died, restarted=True)

    def admit(self, name: str, living: Living) -> None:
        """Reserve the name for a host that joins.

        Raises ActorExited for the name of an actor that ended: messages to that actor must not reach another one.
        NameTaken for the name of another living actor, which has another Ray name.
        """
        assert self._lock.is_held, "a name is reserved under the lock"
        if name in self._ended:
            raise ActorExited(
                f"{self._ended[name].detail}; actor names cannot be used again until the system is restored", actor=name
            )
        if self.ray_names.setdefault(name, living.ray_name) != living.ray_name:
            raise name_taken(name, self._system)

    def is_admitted(self, name: str, living: Living) -> bool:
        """Whether the name is still reserved for this host: it may have ended since, or been lost."""
        return name not in self._ended and self.ray_names.get(name) == living.ray_name

    def enlist(self, name: str, living: Living) -> None:
        """Write down a host that joins. Without the lock."""
        assert not self._lock.is_held, "the roster is not written under the lock"
        self.roster.add(name, living.ray_name, self._pack(living.options))

    def join(self, name: str, node: str, living: Living, vault: Any, *, watched: bool) -> None:
        """Add a host that is written down, and the vault of its node.

        It is not watched while its state is loaded, because who loads it sees its death.
        """
        assert self._lock.is_held, "a host joins under the lock"
        assert self.is_admitted(name, living), f"{name} joins, and its name is not free"
        self.hosts[name], self.options[name] = living.host, living.options
        if watched:
            self._watches.add(name, living.host)
        self._nodes[name] = node
        self._keep_vault(node, vault)

    def lose(self, name: str) -> Any | None:
        """A host was lost before this life runs, and another one will join in its place. Returns it, if it joined."""
        assert self._lock.is_held, "a host is lost under the lock"
        self._watches.drop(name)
        self.ray_names.pop(name, None)
        return self.hosts.pop(name, None)

    def _pack(self, options: Mapping[str, Any]) -> bytes:
        return self._codec.tell("", (dict(options),)) if options else b""

    def find_options(self) -> None:
        """After the coordinator was started again: learn what Ray was told of the actors that are dead, too."""
        for name, packed in packed_options(self._system, self._incarnation).items():
            if packed:
                _, (options,), _ = self._codec.decode_tell(packed)
                self.options.setdefault(name, options)

    def watch(self, name: str) -> None:
        """A host is loaded: see its death from now on."""
        assert self._lock.is_held, "hosts are watched under the lock"
        assert name in self.hosts, f"{name} is loaded, and has not joined"
        self._watches.add(name, self.hosts[name])

    def leave(self) -> dict[str, Living]:
        """The life is over, and the next one may go on with these hosts."""
        assert self._lock.is_held, "a life is left under the lock"
        self._watches.drop_all()
        self._vault_watches.drop_all()
        return {name: Living(host, self.ray_names[name], self.options[name]) for name, host in self.hosts.items()}

    def pass_over(self, letter: DeadLetter) -> None:
        """Note a message without which its receiver goes on."""
        self.passed_over[letter.receiver, letter.sender, letter.number] = letter
        if len(self.passed_over) > DEAD_LETTERS_MAX:
            del self.passed_over[next(iter(self.passed_over))]

    def make_guard(self) -> None:
        """There is a vault on the coordinator's node, also if no actor is: see `guard`. Without the lock."""
        self._keep_vault(node := here.node(), self.find_vault(node))

    def inherit(self, before: "Members", ended: Collection[str]) -> None:
        """Go on with what the life before knew: vaults, keys, the fit, and the messages that stay left out.

        And with the dead letters of the actors that have `ended` for ever, as the snapshot says that begins this life.
        """
        assert self._lock.is_held, "a life begins under the lock"
        self.letters = {name: last_of(letters) for name, letters in before.letters.items() if name in ended}
        self.passed_over, self.fitted = dict(before.passed_over), before.fitted
        self._keyring = before._keyring  # noqa: SLF001 - another life
        self._vaults = dict(before._vaults)  # noqa: SLF001
        for node, vault in self._vaults.items():  # one that died since `leave` has neither keys nor fit
            self._welcome_vault(node, vault)

    def find_vault(self, node: str) -> Any:
        """The vault of this node, which is made if it is the first there. Without the lock."""
        if (known := self._vaults.get(node)) is not None:
            return known
        from rayshot.runtime.node.vault import Vault  # noqa: PLC0415 - late, as the committer in `coordinator`

        name, told = vault_name(self._system, self._incarnation, node), (self._system, self._storage)
        return door.make(Vault, VAULT_GROUPS, name, *told, restarts=True, node=node, get_if_exists=True, num_cpus=0)

    def _keep_vault(self, node: str, vault: Any) -> None:
        if node not in self._vaults:
            self._vaults[node] = vault
            self._welcome_vault(node, vault)

    def _welcome_vault(self, node: str, vault: Any) -> None:
        self._vault_watches.add(node, vault)
        if self._keyring is not None:
            vault.hold_keys.remote(self._keyring)
        if self.fitted is not None:
            vault.hold_fit.remote(self.fitted)

    def hand_out(self, keyring: Keyring) -> None:
        """Give the keys to all vaults, also to future ones: they keep them for a coordinator that is started again."""
        self._keyring = keyring
        self.tell_vaults("hold_keys", keyring)

    def find_keys(self, names: tuple[str, ...]) -> Keyring | None:
        """The keys with these names: from the environment, or from the vaults if the coordinator was started again."""
        if (keyring := find_keyring(names)) is not None:
            return keyring
        answers = self._ask({node: vault.keys.remote() for node, vault in tuple(self._vaults.items())})
        return next((keyring for keyring in answers.values() if keyring is not None), None)

    def keep_fit(self, fitted: RestoredFit) -> None:
        """Keep how a snapshot fits, also in all vaults, for a coordinator that is started again: see `restored_fit`.

        Without the lock.
        """
        assert not self._lock.is_held, "nobody asks Ray's control service under the lock"
        notes.of_fits(self._system).put(str(fitted.snapshot), b"")
        self.fitted = fitted
        self.tell_vaults("hold_fit", fitted)

    def forget_fit(self) -> None:
        """Another snapshot is the one to which the system goes back."""
        assert not self._lock.is_held, "nobody asks Ray's control service under the lock"
        if (fitted := self.fitted) is not None:
            self.fitted = None
            self.tell_vaults("hold_fit", None)
            notes.of_fits(self._system).remove(str(fitted.snapshot))

    def find_fit(self) -> None:
        """After the coordinator was started again: learn it from the vaults, if there is one."""
        if notes.of_fits(self._system).all():
            answers = self._ask({node: vault.fit.remote() for node, vault in tuple(self._vaults.items())})
            self.fitted = next((fitted for fitted in answers.values() if fitted is not None), None)

    def _vault_died(self, node: str, detail: str) -> None:
        """A vault died: what it was writing is lost, and Ray starts it again.

        Until it runs again, a new watch fails at once; if Ray cannot start it, every watch does.
        """
        log.warning("the vault of node %s died: %s", node, detail)
        time.sleep(VAULT_PAUSE_S)
        if (vault := self._vaults.get(node)) is not None:
            self._welcome_vault(node, vault)

    @property
    def vaults(self) -> dict[str, Any]:
        """All vaults, by what they are called in a log."""
        return {f"the vault of node {node}": vault for node, vault in tuple(self._vaults.items())}

    def nodes(self) -> set[str]:
        """The nodes on which the system has actors."""
        return set(self._nodes.values())

    def know_ended(self, names: Iterable[str]) -> None:
        """Note that these actors have ended before."""
        self._ended.update({name: Ending(f"actor {name!r} ended") for name in names})

    def shares(self, bodies: Mapping[str, Any]) -> list[tuple[Any, list[Any]]]:
        """The vaults that have something to write, each with the bodies from its node: large bodies are on their nodes.

        Returns at least one vault, if any exists. It leaves out the others: if a node is gone after its actors had
        ended, the coordinator would wait for its vault.
        """
        first = next(iter(self._vaults), "")
        shares: dict[str, list[Any]] = {}
        for name, body in tuple(bodies.items()):  # reports that no cut needs may arrive meanwhile
            shares.setdefault(self._nodes.get(name, first), []).append(body)
        if not shares and first:
            shares[first] = []
        return [(self._vaults[node], share) for node, share in shares.items()]

    def end(self, name: str, ending: Ending) -> bool:
        """An actor ended itself, and the system does not need its process any more. Returns False if already known."""
        assert self._lock.is_held, "an actor ends under the lock"
        if name in self._ended:
            return False
        self._ended[name] = replace(ending, letters=())
        if ending.letters:
            self.letters[name] = ending.letters
        while len(self.letters) > 1 and sum(map(len, self.letters.values())) > DEAD_LETTERS_MAX:
            del self.letters[next(iter(self.letters))]
        self._nodes.pop(name, None)
        self._watches.drop(name)
        handle = self.hosts.pop(name, None)
        self.tell_all("receiver_ended", name, ending.detail)
        threading.Thread(target=_bury, args=(self.roster, name, handle), daemon=True).start()
        return True

    def is_there(self, name: str) -> bool | None:
        """Whether the actor is a member: False if it has ended, None if it never was a member."""
        return False if name in self._ended else True if name in self.hosts else None

    def fate(self, name: str) -> Ending:
        """What became of `name`."""
        return self._ended.get(name) or Ending(f"there is no actor {name!r} in system {self._system!r}")

    def tell(self, name: str, method: str, *args: Any) -> None:
        """Give a host an order; do not wait for the answer."""
        if name in self.hosts:
            self.order(self.hosts[name], method, *args)

    def order(self, host: Any, method: str, *args: Any) -> Any:
        """Give the host behind this Ray handle an order; returns the reference to its answer."""
        return getattr(host, method).remote(self._issuer, *args)

    def tell_all(self, method: str, *args: Any) -> None:
        """Give every host an order."""
        assert self._lock.is_held, "all are told under the lock, so that all hear the same order"
        for name in self.hosts:
            self.tell(name, method, *args)

    def stop_all(self, stop: Stop) -> None:
        """Tell every host that the system takes no messages any more, also hosts that joined another coordinator."""
        assert self._lock.is_held, "all are stopped under the lock"
        hosts = (*self.hosts.values(), *self.in_the_making.values())
        self._stops = [self.order(host, "stop", stop) for host in hosts]

    def tell_vaults(self, method: str, *args: Any, **kwargs: Any) -> None:
        """Call a method of every vault."""
        for vault in tuple(self._vaults.values()):  # others join meanwhile
            getattr(vault, method).remote(*args, **kwargs)

    def status(self, names: Container[str] | None = None) -> dict[str, dict[str, Any] | None]:
        """The status of each host, or of these, by name; None for a host that does not answer."""
        hosts = tuple(self.hosts.items())
        return self._ask({name: host.status.remote() for name, host in hosts if names is None or name in names})

    def figures(self) -> dict[str, Any]:
        """As `status`, but with the answers of `Host.figures`."""
        return self._ask({name: handle.figures.remote() for name, handle in tuple(self.hosts.items())})

    def trace(self, full: bool | None) -> list[str]:  # noqa: FBT001 - as a Ray call
        """Tell all hosts to trace, or with None to stop it. Returns the hosts that have not changed yet."""
        answers = self._ask({name: self.order(handle, "trace", full) for name, handle in tuple(self.hosts.items())})
        return [name for name, done in answers.items() if not done]

    def topology(self) -> dict[str, tuple[str, ...]]:
        """For each host the receivers of its channels; no receivers for a host that does not answer."""
        try:
            answers = self._ask({name: handle.receivers.remote() for name, handle in tuple(self.hosts.items())})
        except door.CallFailed as error:
            log.warning("nobody can be asked for channels now: %s", error)
            return {}
        return {name: answer or () for name, answer in answers.items()}

    def why_missing(self, snapshot: SnapshotId, names: Iterable[str]) -> dict[str, tuple[Any, ...] | None]:
        """For each of these hosts the answer of `Host.progress`; None for a host that does not answer."""
        hosts = dict(self.hosts)
        return self._ask({name: hosts[name].progress.remote(snapshot) for name in names if name in hosts})

    def _ask(self, refs: dict[str, Any], timeout_s: float = ANSWER_S) -> dict[str, Any]:
        ready, _ = door.wait(list(refs.values()), num_returns=len(refs), timeout=timeout_s) if refs else ([], [])
        answered = set(ready)
        answers = {}
        for name, ref in refs.items():
            try:
                answers[name] = door.get(ref) if ref in answered else None
            except door.CallFailed:
                answers[name] = None
        return answers

    def disband(self) -> Callable[[], None]:
        """The life is over, and has no members any more. Returns a function that ends their processes.

        It ends the hosts, waits until the vaults have removed what these left, and then ends the vaults too. Call it
        without the lock.
        """
        assert self._lock.is_held, "a system ends under the lock"
        stops, deaths = self._stops, self._watches.drop_all()
        self._vault_watches.drop_all()
        hosts, vaults = list(self.hosts.values()), list(self._vaults.values())
        self.hosts.clear()
        self._vaults.clear()

        def end() -> None:
            if stops:
                door.wait(stops, num_returns=len(stops), timeout=STOP_S)
            for host in hosts:
                door.kill(host)
            _clean_up(deaths, vaults)

        return end

    def find_vaults(self) -> None:
        """After the coordinator was started again: find the vaults, which earlier lives may have made."""
        before = prefix(self._system)
        for rest, vault in named_actors(before).items():
            life, kind, node = rest.split("/", 2)
            if kind == "vault" and int(life) <= self._incarnation:
                self._vaults[node] = vault
        for node, vault in self._vaults.items():
            self._welcome_vault(node, vault)

    def find_living(self) -> dict[str, Living]:
        """After the coordinator was started again: all hosts that lives up to this one made, the latest of each name.

        Ends the others, which are of no use in any life.
        """
        found: dict[str, Living] = {}
        for ray_name, (name, host) in self._find_named().items():
            if name in found:
                door.kill(found[name].host)
            found[name] = Living(host, ray_name, {})
        return found

    def _find_hosts(self, joined: Mapping[str, str]) -> None:
        """Find the members, and the hosts of this life that have not joined yet."""
        self.ray_names = dict(joined)
        made_now = actor_name(self._system, self._incarnation, "")
        for ray_name, (name, host) in self._find_named().items():
            if ray_name.startswith(made_now):
                self.ray_names.setdefault(name, ray_name)
            if self.ray_names.get(name) == ray_name:
                self.hosts[name] = host

    def _find_named(self) -> dict[str, tuple[str, Any]]:
        """The hosts that lives up to this one made, by Ray name in the order of lives, with their actors' names.

        A process that was made as a spare is an actor if a roster says so. Ends the other spare processes: a new
        coordinator makes its own.
        """
        before, joined = prefix(self._system), names_by_ray_name(self._system, self._incarnation)
        found = {}
        for rest, host in sorted(named_actors(before).items(), key=lambda item: _life_in(item[0])):
            life, kind, own = rest.split("/", 2)
            name = joined.get(ray_name := before + rest) or (own if kind == "actor" else None)
            if int(life) <= self._incarnation and name is not None:
                found[ray_name] = name, host
            elif int(life) <= self._incarnation and kind == "spare":
                door.kill(host)
        return found

    def find(self, stop: Stop | None, joined: Mapping[str, str]) -> dict[str, Abandoned | None]:
        """After the coordinator was started again: find all actors and take over from the old coordinator.

        With `stop` the actors handle no more messages. `joined` is the roster.
        Returns the answer of each actor; None for an actor that does not answer, which is not a member any more. It
        does not ask actors that are still being made, because they may wait for this coordinator to join. They are
        `in_the_making` then.
        """
        self._find_hosts(joined)
        unfinished = actors_in_the_making() if self.hosts else set()
        for name, handle in tuple(self.hosts.items()):
            if actor_id(handle) in unfinished:
                self.in_the_making[name] = self.hosts.pop(name)
                if name in joined:
                    self._watches.add(name, handle)
        asked = {name: self.order(handle, "abandon", stop) for name, handle in self.hosts.items()}
        answers = self._ask(asked, TAKE_OVER_S)
        for name, answer in answers.items():
            if answer is None:
                self.hosts.pop(name)
            else:
                self._watches.add(name, self.hosts[name])
                self._nodes[name], self.options[name] = answer.node, answer.options
                self._keep_vault(answer.node, self.find_vault(answer.node))
        return answers


def _no_handle(name: str) -> ActorHandle:
    raise AssertionError(f"no option of Ray's is a handle, as that of {name}")


def _life_in(rest: str) -> int:
    return int(rest.partition("/")[0])


def _bury(roster: Roster, name: str, host: Any | None) -> None:
    """Strike an actor that ended from the roster, and end its process, as others may need its room.

    In this order: to a coordinator that is started meanwhile, one that is on the roster and gone has died. The process
    stays until outcomes are fetched.
    """
    while True:
        try:
            roster.remove(name)
            break
        except door.CallFailed as error:
            log.warning("the end of %s cannot be written down now: %r", name, error)
            time.sleep(AGAIN_S)
    if host is None:
        return
    door.wait([host.linger.remote()], timeout=LINGER_S)
    door.kill(host)


def _clean_up(deaths: list[Any], vaults: list[Any]) -> None:
    """Wait for deaths, let the vaults remove what the dead left, and end the vaults. Each wait has a time limit."""
    _await(deaths)
    _await([vault.clean_up.remote() for vault in vaults])
    for vault in vaults:
        door.kill(vault)


def _await(refs: list[Any]) -> None:
    if refs:
        door.wait(refs, num_returns=len(refs), timeout=CLEAN_UP_S)
