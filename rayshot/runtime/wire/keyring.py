"""The keys with which a life of a system signs and encrypts, and how they come to its coordinator.

Ray's control service keeps what an actor is made with, on a disk or in Redis where it is fault tolerant. So an actor is
made with the names of keys only. The coordinator looks for these keys in the environment of its own node; those that
are not there the driver gives it in a call, which is kept nowhere. The vaults hold them in memory too, for a
coordinator that is started anew.
"""

from dataclasses import dataclass, field
from typing import Any

from rayshot.errors import ConfigError
from rayshot.format.encryption_key import EncryptionKey, find_encryption_keys
from rayshot.format.signing_key import Signer, find_key, load_key
from rayshot.runtime.wire.answers import get_answer, the_coordinator


@dataclass(frozen=True, slots=True)
class Keyring:
    """One life's keys: `signing` seals its manifests, the first of `encryption` encrypts, if there is one."""

    signing: Signer = field(repr=False)
    encryption: tuple[EncryptionKey, ...] = field(default=(), repr=False)

    @property
    def names(self) -> tuple[str, ...]:
        """The ids of the keys in order, the one that signs first. They betray nothing."""
        return self.signing.key_id, *(key.key_id for key in self.encryption)


def load_keyring(*, local: bool) -> Keyring:
    """The keys of a driver, whose life writes to `local` storage or another one. Raises ConfigError."""
    return Keyring(load_key(local=local), find_encryption_keys())


def find_keyring(names: tuple[str, ...]) -> Keyring | None:
    """The keys of this process's environment, if they are those of that name."""
    try:
        signing, encryption = find_key(), find_encryption_keys()
    except ConfigError:  # of other programs: the driver has the right ones
        return None
    found = None if signing is None else Keyring(signing, encryption)
    return found if found is not None and found.names == names else None


def offer_keys(coordinator: Any, system: str, own: Keyring | None = None) -> bool:
    """Give a coordinator the keys that it lacks: `own`, or those of this program's environment, if they are the ones.

    Returns whether it was given any. Raises NoAnswer.
    """
    names = get_answer(coordinator.take_keys.remote(None), the_coordinator(system))
    keyring = (own or find_keyring(names)) if names else None
    if keyring is not None:
        get_answer(coordinator.take_keys.remote(keyring), the_coordinator(system))
    return keyring is not None
