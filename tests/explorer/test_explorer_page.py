"""The page in a real browser: what it draws of a real system is what the snapshot holds."""

import re

import pytest
from axe_playwright_python.sync_playwright import Axe

import rayshot
from rayshot.explorer.data import snapshot_document
from rayshot.explorer.report import report
from tests.explorer.branches import photograph
from tests.explorer.browser import Visit, chromium

pytestmark = pytest.mark.ray
STRAIGHTENED = "text=straightened: one instant"


@pytest.fixture(scope="module")
def browser():
    with chromium() as running:
        yield running


@pytest.fixture(scope="module")
def shots(cluster, tmp_path_factory):
    """A storage with the photographs of a traced system."""
    folder = tmp_path_factory.mktemp("shots")
    system = rayshot.init("branches", storage=folder, trace=True, snapshots=rayshot.SnapshotConfig())
    try:
        photograph(system)
    finally:
        system.shutdown()
    return folder


@pytest.fixture(scope="module")
def snapshot(shots):
    """The one with a label."""
    return next(one for one in rayshot.open(shots).system().snapshots() if one.label)


@pytest.fixture(scope="module")
def file(shots, snapshot, tmp_path_factory):
    """The report that opens with it."""
    path = tmp_path_factory.mktemp("report") / "cut.html"
    path.write_text(report(rayshot.open(shots).system(), snapshot)[1])
    return path


@pytest.fixture(params=["light", "dark"])
def visit(request, browser, file):
    made = Visit(browser, file, color_scheme=request.param)
    yield made
    made.close()


@pytest.mark.wide("slow")
def test_each_message_in_flight_is_an_arrow_across_the_cut(visit, snapshot):
    assert snapshot.in_flight > 0
    assert visit.count(".cross") == snapshot.in_flight
    assert visit.text("#count") == f"{snapshot.in_flight} messages cross the cut, 0 from right to left"
    visit.assert_quiet()


def test_the_page_says_what_a_consistent_cut_is(visit):
    assert "A cut is consistent if no message goes back across it, from right to left" in visit.text("#why")
    visit.page.click(STRAIGHTENED)
    assert "This is the meaning of consistent" in visit.text("#why")


@pytest.mark.sampled("more cases of one kind", keeps=1)
def test_the_button_makes_one_instant_of_all_records(visit, snapshot):
    assert visit.count("[data-recorded]") == len(snapshot.actors)
    cut = snapshot_document(snapshot)["cut"]
    different = {
        cut["events"][index]["x"] for index, lane in zip(cut["cuts"], cut["lanes"], strict=True) if not lane["driver"]
    }
    assert len(visit.places_of_records()) == len(different)
    visit.page.locator(STRAIGHTENED).focus()
    visit.page.keyboard.press("Enter")
    assert len(visit.places_of_records()) == 1
    assert "one instant" in visit.text("#why")
    visit.assert_quiet()


@pytest.mark.sampled("more cases of one kind", keeps=1)
@pytest.mark.parametrize("straight", [False, True])
def test_no_arrow_leads_back(visit, straight):
    if straight:
        visit.page.click(STRAIGHTENED)
    script = """all => all.map(one => one.getPointAtLength(0).x - one.getPointAtLength(one.getTotalLength()).x)"""
    assert max(visit.page.eval_on_selector_all(".arrow", script)) < 0


@pytest.mark.sampled("more cases of one kind", keeps=1)
def test_an_event_tells_what_was_called_and_when(visit):
    visit.page.locator(".event").first.wait_for()
    said = []
    for event in visit.page.locator(".event").all()[:40]:
        event.dispatch_event("mouseenter")
        said.append(visit.text(".said"))
    assert any(
        re.search(r"handled message \d+ of \S+, (deposit|move)\(\).* · \d+:\d\d:\d\d\.\d{3}", one) for one in said
    )


def test_the_animation_ends_where_the_still_picture_is(browser, file):
    moving = Visit(browser, file, reduced_motion="no-preference")
    moving.page.click(STRAIGHTENED)
    moving.page.wait_for_selector("#cut svg[aria-busy=false]")
    assert len(moving.places_of_records()) == 1
    moving.assert_quiet()
    moving.close()


@pytest.mark.sampled("more cases of one kind", keeps=1)
def test_axe_finds_nothing(visit):
    found = Axe().run(visit.page)
    assert found.violations_count == 0, found.generate_report()


@pytest.mark.sampled("more cases of one kind", keeps=1)
def test_arrow_keys_go_from_message_to_message(visit, snapshot):
    visit.page.locator(".cross[tabindex='0']").focus()
    first = visit.text(".said")
    visit.page.keyboard.press("ArrowRight")
    second = visit.text(".said")
    assert first != second
    assert ": deposit(" in second or ": move(" in second
