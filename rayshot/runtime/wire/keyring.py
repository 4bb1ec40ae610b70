"""The keys with which a life of a system signs and encrypts, and how they come to its coordinator.

Ray's control service keeps the arguments with which an actor is made, on a disk or in Redis if it is fault tolerant. So
an actor is made only with the names of keys. The coordinator looks for these keys in the environment of its own node.
If they are not there, the driver gives them in a call, which is stored nowhere. The vaults also hold them in memory,
for a coordinator that is started again.
"""

from dataclasses import dataclass, field
from typing import Any

from rayshot.errors import ConfigError
from rayshot.keys.encryption import EncryptionKey
from rayshot.keys.finder import find_encryption_keys, find_key, load_key
from rayshot.keys.signing import Signer
from rayshot.runtime.wire.answers import get_answer, noticing_restart, the_coordinator


@dataclass(frozen=True, slots=True)
class Keyring:
    """One life's keys: `signing` seals its manifests; the first key of `encryption`, if any, encrypts."""

    signing: Signer = field(repr=False)
    encryption: tuple[EncryptionKey, ...] = field(default=(), repr=False)

    @property
    def names(self) -> tuple[str, ...]:
        """The ids of the keys in order, the signing key first. They do not reveal the keys."""
        return self.signing.key_id, *(key.key_id for key in self.encryption)


def load_keyring(*, local: bool) -> Keyring:
    """The keys of a driver whose life writes to `local` storage or to another storage. Raises ConfigError."""
    return Keyring(load_key(local=local), find_encryption_keys())


def find_keyring(names: tuple[str, ...]) -> Keyring | None:
    """The keys of this process's environment if they have these names, else None."""
    try:
        signing, encryption = find_key(), find_encryption_keys()
    except ConfigError:  # the environment may have keys of other programs: the driver has the right ones
        return None
    found = None if signing is None else Keyring(signing, encryption)
    return found if found is not None and found.names == names else None


def offer_keys(coordinator: Any, system: str, own: Keyring | None = None) -> bool:
    """Give a coordinator the keys that it lacks: `own`, or the keys of this program's environment if they fit.

    Returns whether it gave any keys. Raises NoAnswer, SystemRecovering.
    """
    with noticing_restart(system, coordinator):
        names = get_answer(coordinator.take_keys.remote(None), the_coordinator(system))
        keyring = (own or find_keyring(names)) if names else None
        if keyring is not None:
            get_answer(coordinator.take_keys.remote(keyring), the_coordinator(system))
    return keyring is not None
