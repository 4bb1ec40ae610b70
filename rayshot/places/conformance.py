"""The tests that every store must pass. They are part of the package, so that you can run them on your own store.

Subclass `StoreConformance` in a file that pytest collects and define a fixture named `store` that gives an
empty one:

    class TestMyStore(StoreConformance):
        @pytest.fixture
        def store(self):
            return MyStore(...)
"""

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial

from rayshot.errors import AlreadyExists, KeyNotFound, RayshotError, UnsafePath
from rayshot.places.kinds import open_store
from rayshot.places.store import Store

RACERS = 16
MANY = 1_100
"""More keys than any object storage lists in one answer."""

LARGE_BYTES = 20 << 20
CONTENT = bytes(range(256)) * 17


@contextmanager
def refused(error: type[RayshotError]) -> Iterator[None]:
    """Assert that the block raises `error`."""
    try:
        yield
    except error:
        return
    raise AssertionError(f"{error.__name__} was not raised")


class StoreConformance:
    """One method for each promise of `Store`; `store` is empty at the start of each."""

    def test_what_was_created_is_read_back(self, store: Store) -> None:
        """Whole, in parts, and in parts that reach beyond its end."""
        store.create("a/b", CONTENT)
        assert store.read("a/b") == CONTENT
        assert store.read_range("a/b", 10, 20) == CONTENT[10:30]
        assert store.read_range("a/b", len(CONTENT) - 3, 10) == CONTENT[-3:]
        assert store.read_range("a/b", len(CONTENT) + 3, 10) == b""

    def test_a_range_reaches_as_far_as_there_are_bytes(self, store: Store) -> None:
        """A read never goes behind the end; a range may be empty, may begin at the start, or may be everything."""
        store.create("a", CONTENT)
        for start, length in ((0, 0), (0, 1), (1, 1), (0, len(CONTENT)), (0, len(CONTENT) + 1), (len(CONTENT), 1)):
            assert store.read_range("a", start, length) == CONTENT[start : start + length]

    def test_a_large_object_of_several_buffers_comes_back_whole(self, store: Store) -> None:
        """The object comes back unchanged and in one piece, and can be created only once."""
        half = memoryview(CONTENT * (LARGE_BYTES // 2 // len(CONTENT)))
        store.create("large", [half, half])
        with refused(AlreadyExists):
            store.create("large", [half, half])
        assert store.read("large") == bytes(half) * 2
        assert store.read_range("large", half.nbytes - 5, 10) == bytes(half[-5:]) + bytes(half[:5])

    def test_an_object_may_be_empty(self, store: Store) -> None:
        """Zero bytes are an object too."""
        store.create("empty", b"")
        assert store.read("empty") == store.read_range("empty", 0, 10) == b""
        assert [entry.size for entry in store.list()] == [0]

    def test_several_buffers_become_one_object(self, store: Store) -> None:
        """The buffers are joined in their order; they may be of any kind and item size."""
        wide = memoryview(b"12345678").cast("I")
        store.create("joined", [b"ab", bytearray(b"cd"), b"", memoryview(b"ef"), wide])
        assert store.read("joined") == b"abcdef12345678"

    def test_a_key_that_is_taken_is_refused_and_keeps_its_bytes(self, store: Store) -> None:
        """Create never overwrites."""
        store.create("key", b"first")
        with refused(AlreadyExists):
            store.create("key", b"second")
        assert store.read("key") == b"first"

    def test_a_race_for_a_key_has_one_winner(self, store: Store) -> None:
        """The winner's bytes are there, whole."""
        won = race([partial(store.create, "race", bytes([n]) * 50_000) for n in range(RACERS)])
        assert len(won) == 1
        assert store.read("race") == bytes([won[0]]) * 50_000

    def test_a_missing_key_is_an_error_for_readers_and_none_for_delete(self, store: Store) -> None:
        """This holds at any depth, also if a folder or an object has part of the name."""
        store.create("a/b", b"x")
        for key in ("missing", "a/missing", "a", "a/b/c"):
            with refused(KeyNotFound):
                store.read(key)
            with refused(KeyNotFound):
                store.read_range(key, 0, 1)
        store.delete("missing")
        store.delete("a/missing")
        assert store.read("a/b") == b"x"

    def test_a_deleted_key_is_gone_and_free(self, store: Store) -> None:
        """Reads and listings do not find it; then it can be created again."""
        store.create("a/b", b"old")
        store.delete("a/b")
        assert not list(store.list())
        with refused(KeyNotFound):
            store.read("a/b")
        store.create("a/b", b"new")
        assert store.read("a/b") == b"new"

    def test_a_listing_is_sorted_and_keeps_to_its_folder(self, store: Store) -> None:
        """Listings are sorted by whole keys, not folder by folder; a folder's name never matches as a mere prefix."""
        for key in ("b/z", "b/a/q", "b-c", "b/a-b", "bb/x", "a"):
            store.create(key, key.encode())
        assert [entry.key for entry in store.list()] == ["a", "b-c", "b/a-b", "b/a/q", "b/z", "bb/x"]
        assert [(entry.key, entry.size) for entry in store.list("b")] == [
            ("b/a-b", 5),
            ("b/a/q", 5),
            ("b/z", 3),
        ]
        assert [entry.key for entry in store.list("b", after="b/a-b")] == ["b/a/q", "b/z"]
        assert not list(store.list("nowhere"))

    def test_a_listing_of_many_keys_is_whole(self, store: Store) -> None:
        """This holds also if the storage answers in pages, and for a listing that begins in the middle."""
        keys = [f"many/{number:04}" for number in range(MANY)]
        with ThreadPoolExecutor(16) as threads:
            list(threads.map(store.create, keys, [b"x"] * MANY))
        assert [entry.key for entry in store.list("many")] == keys
        assert [entry.key for entry in store.list("many", shallow=True)] == keys
        assert [entry.key for entry in store.list("many", after=keys[MANY // 2])] == keys[MANY // 2 + 1 :]

    def test_a_shallow_listing_shows_folders_instead_of_what_is_in_them(self, store: Store) -> None:
        """Each folder comes once, with a slash at its end."""
        for key in ("b/z", "b/a/q", "b/a/r", "a"):
            store.create(key, b"x")
        assert [entry.key for entry in store.list(shallow=True)] == ["a", "b/"]
        assert [entry.key for entry in store.list("b", shallow=True)] == ["b/a/", "b/z"]

    def test_a_listing_dates_objects_in_order(self, store: Store) -> None:
        """The store's clock gives the dates; it may differ from ours."""
        store.create("1", b"x")
        store.create("2", b"x")
        first, second = store.list()
        assert 0 < first.modified <= second.modified

    def test_files_of_users_may_have_every_printable_name_and_are_listed_like_others(self, store: Store) -> None:
        """Below `outside/<snapshot>/<actor>/`, in the folder of a system or of a copy."""
        for home in ("bank", "bank/copies/1-a-1.0"):
            names = [f"{home}/outside/1-a-1/alice/{name}" for name in (".metadata", "a b/..c", "[1]?#%41*.pt", "ä")]
            for key in names:
                store.create(key, b"x")
            assert [entry.key for entry in store.list(f"{home}/outside")] == sorted(names)
            assert {store.read(key) for key in names} == {b"x"}
            for key in (f"{home}/outside/1-a-1/alice/a/../b", f"{home}/outside/.x/alice/a", f"{home}/.x/1-a-1/alice/a"):
                with refused(UnsafePath):
                    store.create(key, b"x")

    def test_a_large_file_is_written_from_its_parts_in_place_of_what_was_there(self, store: Store) -> None:
        """If its parts cannot be had, what was there stays."""
        store.create("large", b"before")

        def cut() -> Iterator[bytes]:
            yield CONTENT
            raise AlreadyExists("the parts end here")

        with refused(AlreadyExists):
            store.write("large", cut(), 2 * len(CONTENT))
        assert store.read("large") == b"before"
        part = CONTENT * (LARGE_BYTES // 4 // len(CONTENT))
        store.write("large", (part for _ in range(4)), 4 * len(part))
        assert store.read("large") == part * 4
        store.write("empty", iter([]), 0)
        assert store.read("empty") == b""
        assert [entry.key for entry in store.list()] == ["empty", "large"]

    def test_what_is_in_a_folder_is_adopted_and_cleared_with_it(self, store: Store) -> None:
        """Nothing else goes; where nothing is, nothing happens."""
        keys = ["b/outside/1-a-1/x/.f", "b/outside/1-a-1/x/g/h", "b/outside/1-a-10/x/f"]
        for key in keys:
            store.create(key, b"x")
        store.adopt("b/outside/1-a-1/x")
        store.adopt("b/outside/1-a-2/x")
        store.clear("b/outside/1-a-2")
        assert [entry.key for entry in store.list("b")] == sorted(keys)
        store.clear("b/outside/1-a-1")
        assert [entry.key for entry in store.list("b")] == keys[2:]

    def test_keys_that_could_lead_out_are_refused_by_every_verb(self, store: Store) -> None:
        """They are refused before anything is touched."""
        for key in ("../x", "a/../../x", "/etc/x", "a//b", "a/", ".hidden", "a\0b", "a\\b", "x" * 5000):
            verbs: list[Callable[[], object]] = [
                partial(store.create, key, b""),
                partial(store.read, key),
                partial(store.read_range, key, 0, 1),
                partial(store.list, key),
                partial(store.delete, key),
                partial(store.adopt, key),
                partial(store.write, key, [], 0),
                partial(store.clear, key),
            ]
            for verb in verbs:
                with refused(UnsafePath):
                    verb()

    def test_check_passes_and_leaves_nothing_behind(self, store: Store) -> None:
        """This holds for every call."""
        store.check()
        store.check()
        assert not list(store.list())

    def test_the_url_opens_the_same_place(self, store: Store) -> None:
        """This holds at least as long as this process lives."""
        store.create("here", b"x")
        assert open_store(store.url).read("here") == b"x"


def race(contenders: list[Callable[[], object]]) -> list[int]:
    """Run all at once, each in its own thread; return the numbers of those that did not get AlreadyExists."""
    start = threading.Barrier(len(contenders))
    won: list[int] = []

    def run(number: int) -> None:
        start.wait()
        try:
            contenders[number]()
        except AlreadyExists:
            return
        won.append(number)

    threads = [threading.Thread(target=run, args=(number,)) for number in range(len(contenders))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return won
