"""The page, as one file with everything that it shows, and as the server sends it. It loads only its data."""

import base64
import hashlib
import json
import re
from collections.abc import Sequence
from html import escape
from importlib.resources import files
from typing import Any

from rayshot.explorer.data import one_alone, snapshot_document, storage_document
from rayshot.snapshots.catalog import SystemView
from rayshot.snapshots.snapshot import Snapshot

REPORT_BYTES_MAX = 900_000
"""A report gets other snapshots besides the requested one until it reaches this size."""
SNAPSHOTS_MAX = 12
_NO_DATA = '<script id="data" type="application/json">null</script>'
_POLICY = 'content="POLICY"'


def page(data: dict[str, Any] | None = None) -> str:
    """The page as HTML, with its data or without. Without, it fetches `data/storage` and `data/snapshot/ID`.

    Its policy lets only its own parts run and load, whatever its data contain.
    """
    text = files("rayshot.explorer").joinpath("page.html").read_text("utf-8")
    fetched = "'self'" if data is None else "'none'"
    text = text.replace(_POLICY, f'content="{escape(policy(text, fetched))}"', 1)
    return text if data is None else text.replace(_NO_DATA, _NO_DATA.replace("null", _inlined(data)), 1)


def policy(text: str, fetched: str) -> str:
    """The content security policy of a page: it allows its one style and its one script, by their digests."""
    style = re.search("<style>(.*?)</style>", text, re.DOTALL)
    script = re.search("<script>(.*?)</script>", text, re.DOTALL)
    assert style is not None, "the page has one"
    assert script is not None, "the page has one"
    digests = [base64.b64encode(hashlib.sha256(found[1].encode()).digest()).decode() for found in (style, script)]
    return (
        f"default-src 'none'; style-src 'sha256-{digests[0]}'; script-src 'sha256-{digests[1]}'; "
        f"connect-src {fetched}; base-uri 'none'; form-action 'none'"
    )


def report(
    view: SystemView,
    snapshot: Snapshot | None = None,
    *,
    actors: Sequence[str] = (),
) -> tuple[Snapshot, str]:
    """The snapshot that opens first, and a page about a system with it, the time line and as many others as fit.

    Args:
        view: the system.
        snapshot: the snapshot that opens first; None means the `first` of `storage_document`.
        actors: as for `snapshot_document`.
    """
    known = view.snapshots()
    storage = storage_document(view, known)
    if snapshot is not None:
        storage["first"] = str(snapshot.id)
    first = next((one for one in known if str(one.id) == storage["first"]), snapshot) or view.latest()
    documents = {str(first.id): snapshot_document(first, actors=actors, siblings=known)}
    data = {"storage": storage, "snapshots": documents}
    size = len(_inlined(data))
    others = [one for one in reversed(known) if one != first]
    for one in others[: SNAPSHOTS_MAX - 1]:
        document = snapshot_document(one, actors=actors, siblings=known)
        size += len(_inlined(document))
        if size > REPORT_BYTES_MAX:
            break
        documents[str(one.id)] = document
    return first, page(data)


def frame(snapshot: Snapshot) -> str:
    """One snapshot as a frame for notebooks; the frame's content cannot reach the notebook."""
    data = {
        "storage": one_alone(snapshot),
        "snapshots": {str(snapshot.id): snapshot_document(snapshot)},
    }
    style = "width: 100%; height: 900px; border: 0"
    inner = escape(page(data)).encode("ascii", "xmlcharrefreplace").decode()  # works in every encoding of the notebook
    return f'<iframe sandbox="allow-scripts" style="{style}" srcdoc="{inner}"></iframe>'


def _inlined(data: dict[str, Any]) -> str:
    """JSON that no text in it can end, because `<` is an escape."""
    return json.dumps(data, separators=(",", ":")).replace("<", "\\u003c")
