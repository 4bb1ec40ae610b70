"""A working tree under git belongs to the snapshots of the actor that edits it: `python examples/holders/sandbox.py`.

At a snapshot what is in the tree is committed; beside the handlers the commit goes as a bundle into the folder of the
snapshot. When the actor goes back, it clones the bundle. Run it twice: the second run goes on from the last snapshot of
the first.
"""

import logging
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import ray

import rayshot
from examples.holders.deaths import ask, kill, wait_for

EDITS, FILES = 600, 7
BUNDLE = "tree.bundle"
PLAIN_GIT = {
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_CONFIG_SYSTEM": os.devnull,
    **{f"GIT_{who}_{what}": "sandbox" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")},
}


def git(tree: str, *arguments: str) -> str:
    """Run git in a tree; returns what it printed. Raises CalledProcessError."""
    command = ["git", "-c", "gc.auto=0", *arguments]
    return subprocess.run(
        command, cwd=tree, env=os.environ | PLAIN_GIT, check=True, capture_output=True, text=True
    ).stdout.strip()


@rayshot.actor
class Sandbox:
    """Edits files. Each object has a tree of its own below `root`: what is left of an old one can do no harm."""

    def __init__(self, root: str) -> None:
        self.root, self.edits = root, 0
        self.tree = self._new_tree()
        git(self.tree, "init", "-q")

    def __getstate__(self) -> dict[str, object]:
        return {"root": self.root, "edits": self.edits}

    def edit(self) -> None:
        """Add a line to a file."""
        with (Path(self.tree) / f"{self.edits % FILES}.txt").open("a") as file:
            file.write(f"{self.edits}\n")
        self.edits += 1

    def progress(self) -> int:
        """How many edits it made."""
        return self.edits

    def agrees(self) -> bool:
        """Whether the files have these edits, each once."""
        files = Path(self.tree).glob("*.txt")
        return sorted(int(line) for file in files for line in file.read_text().splitlines()) == [*range(self.edits)]

    def on_snapshot(self, cut: rayshot.ActorCut) -> Callable[[], dict[str, str]]:
        """Commit the tree now, under a name of its own: it is bundled while the tree changes."""
        tree, name = self.tree, f"cut-{cut.snapshot}"
        git(tree, "add", "--all")
        git(tree, "commit", "-q", "--allow-empty", "--message", name)
        git(tree, "tag", name)

        def bundle() -> dict[str, str]:
            git(tree, "bundle", "create", "-q", f"{cut.folder}/{BUNDLE}", name)
            return {"commit": git(tree, "rev-parse", name), "tag": name}

        return bundle

    def on_restore(self, back: rayshot.ActorCut) -> None:
        """Clone what was bundled at this cut."""
        back.verify()
        shutil.rmtree(self.root)
        self.tree = self._new_tree()
        git(self.tree, "clone", "-q", "--branch", back.payload["tag"], f"{back.folder}/{BUNDLE}", ".")
        assert git(self.tree, "rev-parse", "HEAD") == back.payload["commit"]

    def _new_tree(self) -> str:
        Path(self.root).mkdir(parents=True, exist_ok=True)
        return tempfile.mkdtemp(prefix="tree-", dir=self.root)


def main(storage: str = "./shots") -> None:
    """Edit, kill, and look whether each edit is there once."""
    ray.init("local", num_cpus=4, include_dashboard=False, logging_level=logging.ERROR, log_to_driver=False)
    system = rayshot.resume(
        "sandbox",
        storage=storage,
        begin=lambda _system: Sandbox.options(name="sandbox").remote(f"{Path(storage).resolve()}.trees"),
        snapshots=rayshot.SnapshotConfig(interval_s=0.3),
    )
    sandbox = system.get_actor("sandbox", Sandbox)
    edits: int = ask(sandbox.progress)
    for _death in range(2):
        for _ in range(EDITS):
            sandbox.edit.tell()
        edits += EDITS
        wait_for(sandbox, edits - EDITS // 2)
        kill(system, "sandbox")
        wait_for(sandbox, edits)
    outside = system.snapshot().outside["sandbox"]
    print(f"the snapshot has commit {outside.payload['commit']} and {[file.path for file in outside.files]}")
    agrees = ask(sandbox.agrees)
    print(f"each of {edits} edits is there once: {agrees}, after two deaths")
    system.shutdown()
    ray.shutdown()
    sys.exit(0 if agrees else 1)


if __name__ == "__main__":
    main(*sys.argv[1:])
