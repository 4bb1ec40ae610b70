"""The notebooks run without an error or a word on stderr, and what is kept of them is what comes out."""

import copy
import re
import socket

import numpy as np
import pytest

from examples.notebooks.__main__ import FOLDER, NAMES, execute, pictures, read
from examples.notebooks.stores import bank, training

PNG = b"\x89PNG\r\n"
PLOTLY = "application/vnd.plotly.v1+json"
A_TIME = re.compile(r"20\d\d-\d\d-\d\d[ T]\d\d:\d\d")


FIRST, *OTHERS = NAMES


@pytest.fixture(
    scope="module",
    params=[
        FIRST,
        *(pytest.param(name, marks=pytest.mark.wide("each notebook is a session of Spark")) for name in OTHERS),
    ],
)
def both(request):
    """A notebook as it is kept, and as it comes out now."""
    kept = read(request.param)
    now = copy.deepcopy(kept)
    for cell in now.cells:
        if cell.cell_type == "code":
            cell.outputs = []
    execute(now)
    return kept, now


def texts(notebook):
    """The outputs as words, each with the number of its cell; a picture has its caption."""
    outputs = [(cell.id, output) for cell in notebook.cells for output in cell.get("outputs", ())]
    return [(cell, one.get("text") or one.data["text/plain"]) for cell, one in outputs]


@pytest.mark.spark
def test_a_notebook_comes_out_as_it_is_kept_and_nothing_is_noisy(both):
    kept, now = both
    assert texts(now) == texts(kept)
    assert len(pictures(now)) == len(pictures(kept)) > 0
    assert all(picture.startswith(PNG) for picture in [*pictures(now), *pictures(kept)])
    outputs = [output for cell in now.cells for output in cell.get("outputs", ())]
    assert not [output.text for output in outputs if output.get("name") == "stderr"]


@pytest.mark.parametrize("name", NAMES)
def test_a_notebook_says_first_what_is_to_be_seen_and_asserts_its_story_at_the_end(name):
    cells = read(name).cells
    for before, cell in zip([None, *cells], cells, strict=False):
        outputs = [output for output in cell.get("outputs", ()) if "image/png" in output.get("data", {})]
        assert len(outputs) <= 1, "one picture a screen"
        if outputs:
            assert before.cell_type == "markdown"
            assert outputs[0].data[PLOTLY]["data"]
            assert outputs[0].data["text/plain"].endswith(".")
    assert "assert " in cells[-1].source


def test_the_first_look_has_ten_cells():
    assert len(read("first_look").cells) == 10


@pytest.mark.parametrize("name", NAMES)
def test_what_is_kept_names_no_machine_no_user_and_no_time(name):
    notebook = read(name)
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", ())]
    tables = [output.data["text/html"] for output in outputs if "text/html" in output.get("data", {})]
    plots = [str(output.data[PLOTLY]) for output in outputs if PLOTLY in output.get("data", {})]
    for text in [*tables, *plots, *(said for _, said in texts(notebook)), *(cell.source for cell in notebook.cells)]:
        assert not A_TIME.search(text)
        assert not re.search(rf"\b{re.escape(socket.gethostname())}\b", text)
        assert not re.search(r"/home/|/root/|/tmp/|site-packages", text)
    assert set(notebook.metadata) == {"kernelspec"}


def test_every_notebook_of_the_folder_is_executed():
    assert {path.stem for path in FOLDER.glob("*.ipynb")} == set(NAMES)


def test_the_bank_loses_one_payment_which_waits_at_a_branch_that_sends_nothing_on_that_day():
    (gone,) = bank.lost(bank.plan(bank.SEED))
    assert (gone.sender, gone.receiver, gone.amount, gone.number, gone.day) == ("osaka", "lagos", 60, 912, 5)
    assert bank.busy_on(gone.day) == gone.receiver


def test_a_gradient_of_the_training_says_how_the_squared_error_of_its_batch_grows():
    known, minutes = training.problem()
    assert len(known) == len(minutes) == training.LOOKED_AT + training.BATCHES * training.BATCH

    def squared_error(parameters):
        rows = slice(training.LOOKED_AT + 3 * training.BATCH, training.LOOKED_AT + 4 * training.BATCH)
        return np.mean((known[rows] @ parameters - minutes[rows]) ** 2)

    here = np.linspace(-1, 1, known.shape[1])
    nudges = 1e-4 * np.eye(known.shape[1])
    grows = [(squared_error(here + nudge) - squared_error(here - nudge)) / 2e-4 for nudge in nudges]
    assert training.gradient(here, 3) == pytest.approx(grows, rel=1e-5)
