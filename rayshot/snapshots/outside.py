"""The files that hooks of actors write for a snapshot: where they are, and whether they are what the manifest says.

Each actor has a folder for each snapshot, below the storage or below another root. Programs write there as they like.
When the actor's hook has ended, `seal` lists the files with their sizes and digests for the manifest. From then on they
must not change. A large file is never in memory as a whole.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

from rayshot.errors import ConfigError, CorruptFile, KeyNotFound, MissingFile, StoreError, StoreUnavailable, UnsafePath
from rayshot.format.chunks import new_hasher
from rayshot.format.entries import Outside, OutsideFile
from rayshot.format.entry_checks import check_files
from rayshot.format.manifest import Manifest
from rayshot.format.payloads import read_payload
from rayshot.log.layout import actor_folder, inside, outside_folder
from rayshot.log.records import CommitRecord
from rayshot.places.calls import several_at_once
from rayshot.places.kinds import address_of, open_store
from rayshot.places.store import Store
from rayshot.protocol.identity import SnapshotId

PART_BYTES = 8 << 20
"""Files are read in parts of so many bytes."""
P = TypeVar("P", Store, str)
AT_ONCE = 4
"""So many files are read at once."""


class ActorFolder:
    """The folder of an actor's files for one snapshot. Its methods raise StoreError besides what they say.

    Args:
        root: the store with these files, or its address.
        home: the folder of the system in it, or of the copied snapshot.
        snapshot: its id.
        actor: the actor's name.
        files: what the manifest says, if there is one already.
    """

    def __init__(
        self, root: Store | str, home: str, snapshot: SnapshotId, actor: str, files: Sequence[OutsideFile] = ()
    ) -> None:
        self.root = root if isinstance(root, str) else root.url
        """The address of the store with the files."""
        self._root = root
        self.key = f"{inside(home, outside_folder(snapshot))}/{actor_folder(actor)}"
        self.actor = actor
        self.files = tuple(files)

    @cached_property
    def store(self) -> Store:
        """The store with the files. Raises ConfigError for an address that rayshot cannot use."""
        return open_store(self._root) if isinstance(self._root, str) else self._root

    @property
    def address(self) -> str:
        """Where programs find the files: a path on a local disk, else an address such as `s3://bucket/...`."""
        try:
            return address_of(self.store, self.key)
        except ConfigError:
            return f"{self._root}/{self.key}"

    @property
    def is_seen(self) -> bool:
        """Whether its root can be reached from here and holds anything: an empty one may be a disk not mounted."""
        try:
            return next(self.store.list(shallow=True), None) is not None
        except (ConfigError, StoreError, UnsafePath):
            return False

    @property
    def size_bytes(self) -> int:
        """The sizes of all files together."""
        return sum(file.size for file in self.files)

    def open(self) -> str:
        """Make the folder, if it is on a local disk. Returns its address."""
        address = self.address
        if "://" not in address:
            try:
                Path(address).mkdir(parents=True, exist_ok=True)
            except OSError as error:
                raise StoreUnavailable(f"{address} cannot be made: {error.strerror}", path=address) from error
        return address

    def seal(self) -> tuple[OutsideFile, ...]:
        """Make all files in the folder durable, and read them once: path, size and digest of each, sorted by path.

        Empty folders do not count. Raises UnsafePath for a link, a socket or a name that rayshot does not take (see
        `bounds.is_file_path`), CorruptFile if a file changes meanwhile, LimitExceeded for too many files.
        """
        self.store.adopt(self.key)
        before = self._listed()
        found = [OutsideFile(path, size, "0" * 64) for path, (size, _) in sorted(before.items())]
        check_files(found, f"actor {self.actor}")
        with several_at_once(len(found), "rayshot-seal", AT_ONCE) as each:
            self.files = tuple(each(self._digested, found))
        if changed := set(before.items()) ^ set(self._listed().items()):
            path, _ = min(changed)
            raise CorruptFile(
                f"{self.address}/{path} changed while rayshot read it: the function that on_snapshot returns must end "
                "when all is written",
                actor=self.actor,
                path=path,
            )
        return self.files

    def check(self) -> None:
        """Compare names and sizes with the manifest. Raises MissingFile, CorruptFile."""
        there = self._listed() if self.files else {}
        for file in self.files:
            size, _ = there.get(file.path, (None, 0.0))
            if size is None:
                raise self._missing(file)
            if size != file.size:
                raise self._corrupt(file, f"has {size:,} bytes instead of {file.size:,}")

    def verify(
        self, files: Iterable[OutsideFile] | None = None, progress: Callable[[int], None] = lambda _size: None
    ) -> None:
        """Compare names, sizes and digests with the manifest; digests of these files only, if given.

        `progress` is called with the bytes of each part that was read, from several threads.
        Raises MissingFile, CorruptFile.
        """
        self.check()
        chosen = self.files if files is None else tuple(files)

        def prove(file: OutsideFile) -> None:
            for part in self.proved(file):
                progress(len(part))

        with several_at_once(len(chosen), "rayshot-verify", AT_ONCE) as each:
            for _ in each(prove, chosen):
                pass

    def proved(self, file: OutsideFile) -> Iterator[bytes]:
        """The bytes of a file, in parts. Raises CorruptFile behind the last one if they do not fit the digest."""
        hasher = new_hasher()
        for part in self._parts(file):
            hasher.update(part)
            yield part
        if hasher.hexdigest() != file.digest:
            raise self._corrupt(file, "does not fit its digest")

    def _digested(self, file: OutsideFile) -> OutsideFile:
        hasher = new_hasher()
        for part in self._parts(file):
            hasher.update(part)
        return OutsideFile(file.path, file.size, hasher.hexdigest())

    def _parts(self, file: OutsideFile) -> Iterator[bytes]:
        for start in range(0, file.size, PART_BYTES):
            wanted = min(PART_BYTES, file.size - start)
            try:
                part = self.store.read_range(f"{self.key}/{file.path}", start, wanted)
            except KeyNotFound as error:
                raise self._missing(file) from error
            if len(part) != wanted:
                raise self._corrupt(file, f"ends at byte {start + len(part):,} instead of {file.size:,}")
            yield part

    def _listed(self) -> dict[str, tuple[int, float]]:
        """Path -> size and time of the last change."""
        start = len(self.key) + 1
        return {entry.key[start:]: (entry.size, entry.modified) for entry in self.store.list(self.key)}

    def _missing(self, file: OutsideFile) -> MissingFile:
        return MissingFile(f"{self.address}/{file.path} is not there", actor=self.actor, path=file.path)

    def _corrupt(self, file: OutsideFile, how: str) -> CorruptFile:
        return CorruptFile(f"{self.address}/{file.path} {how}", actor=self.actor, path=file.path)


@dataclass(frozen=True, slots=True)
class OutsideInfo:
    """What an actor fixed outside for a snapshot.

    `payload` is what its hook gave, read from JSON. `files` are those that it wrote into `folder`, which is a path on a
    local disk, else an address. `root` is the address below which the files of all snapshots are, None for the storage.
    """

    payload: Any
    files: tuple[OutsideFile, ...]
    folder: str
    root: str | None

    @property
    def size_bytes(self) -> int:
        """The sizes of all files together."""
        return sum(file.size for file in self.files)


def place_of(outside: Outside, storage: P, *, is_copy: bool) -> P | str:
    """Where the files of an actor are: in the storage of the snapshot, or below its root. A copy has them with it."""
    return storage if outside.root is None or is_copy else outside.root


def outside_folders(store: Store, system: str, record: CommitRecord, manifest: Manifest) -> list[ActorFolder]:
    """The folders of all actors of a snapshot in `store` that have something outside."""
    home = inside(system, record.folder) if record.folder else system
    return [
        ActorFolder(
            place_of(outside, store, is_copy=bool(record.folder)),
            home,
            record.snapshot,
            actor.name,
            outside.files,
        )
        for actor in manifest.actors
        if (outside := actor.outside) is not None
    ]


def outside_infos(store: Store, system: str, record: CommitRecord, manifest: Manifest) -> dict[str, OutsideInfo]:
    """What each actor has outside, by its name, in the order of the manifest. Reads nothing."""
    folders = {folder.actor: folder.address for folder in outside_folders(store, system, record, manifest)}
    return {
        actor.name: OutsideInfo(read_payload(outside.payload), outside.files, folders[actor.name], outside.root)
        for actor in manifest.actors
        if (outside := actor.outside) is not None
    }
