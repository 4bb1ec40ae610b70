"""Snapshots of strangers, damaged ones, and ones without a trace: the page shows what it can and runs nothing."""

import subprocess
import sys
from urllib.parse import parse_qs, urlsplit

import pytest
from axe_playwright_python.sync_playwright import Axe

import rayshot
from rayshot.explorer.data import snapshot_document, storage_document
from rayshot.explorer.report import page, report
from rayshot.places.kinds import open_store
from tests.explorer.browser import Visit, chromium
from tests.explorer.computations import overlapping, store_all
from tests.processes import search_path
from tests.snapshots.snapshot_builder import TAKEN_AT, Bank, Flow, make_snapshot, open_bank

HOSTILE = "</script><img src=x onerror=alert(1)><!--\u202e"
NAMES = (HOSTILE.replace("\u202e", ""), "bea", "cyd")


@pytest.fixture(scope="module")
def browser():
    with chromium() as running:
        yield running


@pytest.fixture
def visit(browser, tmp_path):
    made = []

    def open_page(storage=None, snapshot=None, **look):
        view = rayshot.open(storage or tmp_path / "shots").system()
        path = tmp_path / "cut.html"
        path.write_text(report(view, view.snapshot(snapshot))[1], encoding="utf-8")
        made.append(Visit(browser, path, **look))
        return made[-1]

    yield open_page
    for one in made:
        one.close()


@pytest.fixture
def repository(tmp_path):
    return open_bank(open_store(tmp_path / "shots"))


def hostile_states():
    return {name: {HOSTILE: HOSTILE, "list": [HOSTILE, {HOSTILE: 1}], "password": "sesame"} for name in NAMES}


@pytest.mark.sampled("more cases of one kind", keeps=1)
@pytest.mark.parametrize("traced", [True, False])
def test_hostile_names_attributes_labels_and_values_are_text(visit, repository, traced):
    label = HOSTILE.replace("\u202e", "")
    if traced:
        store_all(overlapping(NAMES), repository, states=hostile_states(), label=label)
    else:
        flows = {(NAMES[0], "bea"): Flow(9, 7, 2, method=HOSTILE, kwargs={HOSTILE: HOSTILE})}
        for counter in (1, 2):
            make_snapshot(repository, Bank(states=hostile_states(), flows=flows, label=label), counter)
    page = visit()
    assert page.count("img, iframe, #data ~ :not(script)") == 0
    assert page.count("script") == 2
    for pane in ("#which", "#cut", "#flight", "#state"):
        assert "</script><img" in page.text(pane)
    assert "\u202e" not in page.text()
    assert "\\u{202e}" in page.text("#state")
    assert "sesame" not in page.page.content()
    assert "<redacted>" in page.text("#state")
    page.assert_quiet()


def test_a_report_redacts_and_shows_what_was_asked_for(tmp_path, repository):
    make_snapshot(repository, Bank(states={"alice": {"password": "sesame"}}))
    command = [sys.executable, "-m", "rayshot.cli", "report", str(tmp_path / "shots"), "-o", str(tmp_path / "cut.html")]
    for options, found in (([], False), (["--show-secret", "password"], True)):
        code = [sys.executable, "-c", "from rayshot.cli import main; main()", *command[3:], *options]
        done = subprocess.run(code, capture_output=True, text=True, check=True, env=search_path())
        assert "1-coordinator-1 of bank" in done.stdout
        assert ("sesame" in (tmp_path / "cut.html").read_text()) is found


@pytest.mark.wide("slow")
def test_a_system_without_a_trace_shows_the_counters_of_its_channels(visit, repository):
    make_snapshot(repository, Bank())
    page = visit()
    assert "3 messages in flight" in page.text("#count")
    assert page.count(".bar") == 2
    label = page.page.get_attribute(".bar >> nth=0", "aria-label")
    assert label == "alice to bob: 2 handled, 2 in the mailbox, 1 in the outbox, 5 sent"
    assert "rayshot.init(..., trace=True)" in page.text("#cut")
    assert page.count("#flight tbody tr") == 3
    found = Axe().run(page.page)
    assert found.violations_count == 0, found.generate_report()
    page.assert_quiet()


def test_a_damaged_snapshot_says_what_it_is_and_the_others_are_there(visit, repository, tmp_path):
    first, second = (make_snapshot(repository, Bank(), counter) for counter in (1, 2))
    (tmp_path / "shots" / "bank" / second.record.manifest_key).write_bytes(b"nonsense")
    page = visit()
    assert "✗" in page.text("#verdict")
    assert page.count("ol.time .bad") == 1
    assert Axe().run(page.page).violations_count == 0
    page.page.click(f"[data-snapshot='{first.id}']")
    assert "3 messages in flight" in page.text("#count")
    page.assert_quiet()


def test_where_chunks_are_missing_the_rest_is_shown(visit, repository, tmp_path):
    snapshot = make_snapshot(repository, Bank())
    for chunk in snapshot.manifest.chunks:
        (tmp_path / "shots" / "bank" / chunk.key).unlink()
    page = visit()
    assert "cannot be read" in page.text("#state")
    assert "the messages in flight" in page.text("#notes")
    assert page.count(".bar") == 2
    page.assert_quiet()


@pytest.mark.parametrize("traced", [False, True])
def test_where_chunks_are_damaged_the_page_does_not_call_the_snapshot_whole(visit, repository, tmp_path, traced):
    """Of their sizes and names all is right: only who reads them finds it."""
    if traced:
        snapshot, *_ = store_all(overlapping(), repository)
    else:
        snapshot = make_snapshot(repository, Bank())
    for chunk in snapshot.manifest.chunks:
        path = tmp_path / "shots" / "bank" / chunk.key
        path.write_bytes(bytes(byte ^ 0xFF for byte in path.read_bytes()))
    page = visit(snapshot=str(snapshot.id))
    assert page.text("#verdict").startswith("✗ damaged: the")
    assert "the state of" in page.text("#verdict")
    assert "the messages in flight" in page.text("#notes")
    assert page.count(".bar") > 0
    page.assert_quiet()


def test_who_was_chosen_and_is_not_there_is_told(repository):
    document = snapshot_document(make_snapshot(repository), actors=["bob", "nobody"])
    assert [lane["name"] for lane in document["cut"]["lanes"]] == ["bob"]
    assert document["notes"] == ["chosen, but not shown: nobody"]


def test_a_snapshot_whose_key_is_missing_is_told(visit, tmp_path):
    from rayshot.keys.encryption import EncryptionKey

    repository = open_bank(open_store(tmp_path / "shots"), keys=[EncryptionKey(b"e" * 32)])
    make_snapshot(repository, Bank())
    page = visit()
    assert "key" in page.text("#cut")
    page.assert_quiet()


def test_the_time_line_shows_where_a_new_coordinator_took_over(visit, repository):
    make_snapshot(repository, Bank(), 1)
    repository.log.begin_epoch(1, "w2", began_at=TAKEN_AT + 1.5, cause="takeover")
    make_snapshot(repository, Bank(), 2)
    page = visit()
    places = page.page.eval_on_selector_all("ol.time li", "all => all.map(one => one.innerText)")
    assert [("taken over" in one, "1-coordinator" in one) for one in places] == [
        (False, True),
        (True, False),
        (False, True),
    ]
    assert "a new coordinator took over" in page.page.get_attribute("ol.time .mark", "title")


def test_a_system_without_snapshots_is_no_report(repository, tmp_path):
    from rayshot.errors import SnapshotNotFound

    with pytest.raises(SnapshotNotFound):
        report(rayshot.open(tmp_path / "shots").system())


def test_two_cuts_that_overlap_cross_each_other_on_the_page(visit, repository):
    first, second, _ = store_all(overlapping(), repository)
    page = visit(snapshot=str(first.id))
    page.page.select_option("select[aria-label='a second cut beside this one']", str(second.id))
    assert page.count(".record.other") > 0
    lines = [page.page.get_attribute(f".line{kind}", "d") for kind in (":not(.other)", ".other")]
    one, other = ({y: x for x, y in points(line)} for line in lines)
    ways = {(other[y] > one[y]) - (other[y] < one[y]) for y in other.keys() & one}
    assert {-1, 1} <= ways
    assert "neither is before the other" in page.text("#cut")
    page.assert_quiet()


def points(line):
    return [tuple(map(float, point.split())) for point in line[1:].split("L")]


def test_the_page_fetches_what_it_shows_where_nothing_is_in_it(browser, repository, tmp_path):
    first, second, third = store_all(overlapping(), repository)
    view = rayshot.open(tmp_path / "shots").system()
    asked = []

    def answer(route):
        url = urlsplit(route.request.url)
        asked.append(url.path)
        if url.path == "/":
            return route.fulfill(body=page(), content_type="text/html; charset=utf-8")
        if url.path == "/data/storage":
            return route.fulfill(json=storage_document(view))
        query = parse_qs(url.query)
        others = [view.snapshot(one) for one in query.get("before", [])]
        found = view.snapshot(url.path.removeprefix("/data/snapshot/"))
        if found.id == first.id:
            return route.fulfill(status=404, json={"error": {"kind": "damaged", "message": "it is broken"}})
        document = snapshot_document(found, before=next(iter(others), None), actors=query.get("actors", ()))
        return route.fulfill(json=document)

    visit = Visit(browser, "about:blank")
    visit.page.route("http://rayshot.test/**", answer)
    visit.page.goto("http://rayshot.test/")
    visit.page.wait_for_selector("#count")
    assert asked == ["/", "/data/storage", f"/data/snapshot/{second.id}"]
    visit.page.click(f"[data-snapshot='{third.id}']")
    visit.page.wait_for_selector("#which >> text=1-coordinator-3")
    visit.page.click("summary >> text=choose rows")
    visit.page.select_option("select[multiple]", ["bea", "dan"])
    visit.page.wait_for_selector(".lane >> nth=2", state="detached")
    assert visit.count(".lane") == 2
    visit.page.click(f"[data-snapshot='{first.id}']")
    visit.page.wait_for_selector("#cut >> text=it is broken")
    assert set(visit.complaints) <= {"Failed to load resource: the server responded with a status of 404 (Not Found)"}
    visit.close()


def test_a_notebook_shows_the_page_in_a_frame_that_reaches_nothing(browser, repository, tmp_path):
    snapshot = make_snapshot(repository, Bank())
    path = tmp_path / "notebook.html"
    head = "<!doctype html><meta charset=iso-8859-1><title>notebook</title>"
    path.write_text(head + snapshot._repr_html_(), encoding="utf-8")
    page = Visit(browser, path)
    frame = page.page.frame_locator("iframe")
    assert "3 messages in flight" in frame.locator("#count").inner_text()
    assert page.page.get_attribute("iframe", "sandbox") == "allow-scripts"
    assert page.complaints == []
    page.close()
