"""`python -m examples.notebooks`: execute the notebooks and write their outputs back, as `make notebooks` does."""

import base64
import os
import sys
from pathlib import Path

import nbformat
from nbclient import NotebookClient

FOLDER = Path(__file__).parent
ROOT = FOLDER.parents[1]
NAMES = (
    "first_look",
    "the_bank_loses_money",
    "the_sky_over_new_york",
    "is_it_over",
    "training_in_the_middle",
    "lost_prompts",
)
CELL_S_MAX = 300
"""A cell that takes longer hangs. To start Spark takes a minute where other programs need the processors too."""
QUIET = ["--log-level=ERROR"]
ON_PAGES = {
    "the_sky_over_new_york": ROOT / "docs" / "pictures" / "sky.png",
    "lost_prompts": ROOT / "docs" / "pictures" / "lost_prompts.png",
}
"""The first pictures of these notebooks are on pages too."""


def read(name: str) -> nbformat.NotebookNode:
    """The notebook of that name as it is kept."""
    return nbformat.read(FOLDER / f"{name}.ipynb", as_version=4)


def execute(notebook: nbformat.NotebookNode) -> None:
    """Execute all its cells in a kernel that finds this project; raises what a cell raises."""
    paths = [str(ROOT), str(ROOT / "integrations"), *filter(None, [os.environ.get("PYTHONPATH")])]
    client = NotebookClient(
        notebook,
        timeout=CELL_S_MAX,
        resources={"metadata": {"path": str(FOLDER)}},
        record_timing=False,
        extra_arguments=QUIET,
    )
    client.execute(env=os.environ | {"PYTHONPATH": os.pathsep.join(paths)})
    notebook.metadata.pop("language_info", None)  # it names the version of Python that happens to be here


def pictures(notebook: nbformat.NotebookNode) -> list[bytes]:
    """The PNGs in its outputs."""
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", ())]
    return [base64.b64decode(one.data["image/png"]) for one in outputs if "image/png" in one.get("data", {})]


def main(names: list[str]) -> None:
    """Execute these notebooks, all of them if none is named, and keep what comes out."""
    for name in names or NAMES:
        notebook = read(name)
        execute(notebook)
        nbformat.write(notebook, FOLDER / f"{name}.ipynb")
        if name in ON_PAGES:
            ON_PAGES[name].write_bytes(pictures(notebook)[0])
        print(f"{name}: {len(pictures(notebook))} pictures")


if __name__ == "__main__":
    main(sys.argv[1:])
