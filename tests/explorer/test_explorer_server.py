"""`rayshot ui`: a real server, asked over real HTTP by its user, and by who is not."""

import json
import shutil
import socket
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest

import rayshot
from rayshot.places.local import LocalStore
from tests.explorer.browser import Visit, chromium
from tests.explorer.serving import PROGRAM, served
from tests.snapshots.snapshot_builder import KEY, Bank, Flow, make_snapshot, open_bank

HOSTILE = "</script><img src=x onerror=alert(1)>"


@pytest.fixture(autouse=True)
def own_key(monkeypatch):
    monkeypatch.setenv("RAYSHOT_SIGNING_KEY", KEY.secret.decode())


@pytest.fixture
def shots(tmp_path):
    repository = open_bank(LocalStore(tmp_path / "shots"))
    states = {"alice": {"balance": 90, HOSTILE: HOSTILE, "password": "hunter2"}, "bob": {"balance": 10}}
    make_snapshot(repository, Bank(label=HOSTILE), 1)
    make_snapshot(repository, Bank(states=states), 2)
    return tmp_path / "shots"


def ended(*arguments):
    command = [str(PROGRAM), "ui", *map(str, arguments), "--no-open"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    return done.returncode, done.stdout, done.stderr


def test_the_link_opens_once_and_the_cookie_from_then_on(shots):
    with served(shots) as server:
        assert server.ask("/").status == 403
        assert server.ask("/?token=wrong").status == 403
        entered = server.enter()
        assert entered.status == 200
        given = entered.headers["Set-Cookie"].lower()
        assert "httponly" in given
        assert "samesite=strict" in given
        assert server.ask("/").status == 200
        assert server.ask(server.way_in).status == 200  # of the same browser, typed again
        assert server.ask(server.way_in, cookie="x=y").status == 403  # of another one
        assert server.ask("/", cookie=f"{server.cookie}x").status == 403
        assert server.way_in.partition("=")[2] not in entered.text
        for path in ("/data/storage", "/data/snapshot/1-coordinator-1"):
            assert server.ask(path, cookie="x=y").status == 403
        assert server.interrupt() == (0, "Ctrl-C ends it\n")


def test_of_many_who_come_with_the_link_at_once_one_gets_in(shots):
    with served(shots) as server, ThreadPoolExecutor(16) as several:
        statuses = sorted(answer.status for answer in several.map(server.ask, [server.way_in] * 16))
    assert statuses == [200, *[403] * 15]


def test_what_the_page_asks_for_is_there(shots):
    with served(shots) as server:
        server.enter()
        listed = json.loads(server.ask("/data/storage").text)
        assert [one["id"] for one in listed["snapshots"]] == ["1-coordinator-1", "1-coordinator-2"]
        one = json.loads(server.ask("/data/snapshot/1-coordinator-2?actors=bob&before=1-coordinator-1").text)
        assert [actor["name"] for actor in one["actors"]] == ["bob"]
        whole = server.ask("/data/snapshot/1-coordinator-2").text
        assert "<redacted>" in whole
        assert "hunter2" not in whole
    with served(shots, "--show-secrets") as server:
        server.enter()
        assert "hunter2" in server.ask("/data/snapshot/1-coordinator-2").text


def test_other_hosts_and_other_methods_are_refused_with_the_cookie_too(shots):
    with served(shots) as server:
        server.enter()
        for host in ("evil.example", f"evil.example:{server.port}", "127.0.0.1.evil.example", "", "[::1]"):
            assert server.ask("/data/storage", host=host or "evil").status == 400
        assert server.ask("/data/storage", host=f"localhost:{server.port}").status == 200
        for method in ("POST", "PUT", "DELETE", "PATCH", "OPTIONS", "HEAD", "TRACE", "BREW"):
            assert server.ask("/data/storage", method=method).status == 405
        assert server.ask("/", method="POST", cookie="x=y").status == 405


@pytest.mark.sampled("more cases of one kind", keeps=1)
@pytest.mark.parametrize(
    "path",
    [
        "/data/snapshot/../../../../etc/passwd",
        "/data/snapshot/..%2f..%2f..%2fetc%2fpasswd",
        "/data/snapshot/%2e%2e%2f%2e%2e%2fbank",
        "/data/snapshot/1-coordinator-1%00",
        "/data/snapshot/1-coordinator-9",
        "/data/snapshot/",
        "/data/snapshot/" + "9" * 5000,
        "/data/snapshot/1-coordinator-1?before=../../etc",
        "/data",
        "/page.html",
        "//etc/passwd",
        "/docs",
        "/data/snapshot/%ff%fe",
    ],
)
def test_a_path_that_leads_nowhere_is_told_so(shots, path):
    with served(shots) as server:
        server.enter()
        answer = server.ask(path)
        assert answer.status == 404
        assert "root:" not in answer.text
        assert server.ask("/data/storage").status == 200
        assert server.interrupt() == (0, "Ctrl-C ends it\n")


def test_every_answer_forbids_what_the_page_does_not_need(shots):
    with served(shots) as server:
        answers = [server.ask("/"), server.enter(), server.ask("/"), server.ask("/data/storage"), server.ask("/no")]
        answers += [server.ask("/", method="POST"), server.ask("/", host="evil.example")]
        for answer in answers:
            policy = answer.headers["Content-Security-Policy"]
            assert policy.startswith("default-src 'none';")
            assert "frame-ancestors 'none'" in policy
            assert "unsafe" not in policy
            assert answer.headers["Cache-Control"] == "no-store"
            assert answer.headers["Referrer-Policy"] == "no-referrer"
            assert answer.headers["X-Content-Type-Options"] == "nosniff"
            assert answer.headers["Server"] is None


def test_a_damaged_snapshot_and_a_storage_that_vanishes_are_errors_of_one_answer(shots):
    with served(shots) as server:
        server.enter()
        manifest = shots / "bank" / rayshot.open(shots).system().snapshot("1-coordinator-1").record.manifest_key
        manifest.write_bytes(manifest.read_bytes()[:-1])
        damaged = json.loads(server.ask("/data/snapshot/1-coordinator-1").text)
        assert "error" in damaged
        assert "error" not in json.loads(server.ask("/data/snapshot/1-coordinator-2").text)
        shutil.rmtree(shots)
        gone = server.ask("/data/storage")
        assert gone.status in (404, 500)
        assert json.loads(gone.text)["error"]["message"]
        assert server.ask("/").status == 200
        assert server.interrupt() == (0, "Ctrl-C ends it\n")


@pytest.mark.wide("slow")
def test_a_browser_shows_hostile_names_as_text_and_asks_nobody_else(shots):
    with served(shots) as server, chromium() as browser:
        visit = Visit(browser, server.link)
        visit.page.wait_for_url(f"http://127.0.0.1:{server.port}/")
        visit.page.wait_for_selector("text=1-coordinator-2")
        visit.page.wait_for_load_state("networkidle")
        assert "onerror=alert(1)" in visit.text()
        assert visit.count("img") == 0
        assert visit.complaints == []
        own = f"http://127.0.0.1:{server.port}/"
        assert all(one.startswith(own) for one in visit.requests)
        visit.close()


@pytest.mark.wide("slow")
def test_a_page_that_is_open_tells_what_is_gone_and_goes_on(shots):
    """A snapshot is deleted, then the server is started again on its port, for which the browser has no cookie."""
    with chromium() as browser:
        with served(shots) as server:
            visit = Visit(browser, server.link)
            visit.page.wait_for_selector("#verdict.good")
            (shots / "bank" / rayshot.open(shots).system().snapshot("1-coordinator-1").record.manifest_key).unlink()
            visit.page.click("[data-snapshot='1-coordinator-1']")
            visit.page.wait_for_selector("#cut >> text=the manifest of 1-coordinator-1 is missing")
            visit.page.click("[data-snapshot='1-coordinator-2']")
            visit.page.wait_for_selector("#verdict.good")
            server.interrupt()
            visit.page.click("[data-snapshot='1-coordinator-1']")
            visit.page.wait_for_selector("#cut >> text=`rayshot ui` gives no answer: has it ended?")
        with served(shots, "--port", server.port):
            visit.page.click("[data-snapshot='1-coordinator-2']")
            visit.page.wait_for_selector("#cut >> text=This needs the link that `rayshot ui` printed")
            visit.close()


@pytest.mark.wide("slow")
def test_what_is_chosen_last_is_shown_though_an_earlier_answer_comes_later(shots):
    settled = "async () => { await (await fetch('data/storage')).text(); await new Promise(requestAnimationFrame); }"
    with served(shots) as server, chromium() as browser:
        visit = Visit(browser, server.link)
        visit.page.wait_for_selector("#verdict.good")
        held = []
        visit.page.route("**/data/snapshot/1-coordinator-1*", lambda route: held.append(route))  # noqa: PLW0108
        visit.page.click("[data-snapshot='1-coordinator-1']")
        with visit.page.expect_request_finished():
            visit.page.click("[data-snapshot='1-coordinator-2']")
        visit.page.evaluate(settled)
        with visit.page.expect_request_finished():
            held[0].continue_()
        visit.page.evaluate(settled)
        assert "1-coordinator-2" in visit.text("#which")
        visit.close()


def test_what_cannot_be_served_is_one_line(shots, tmp_path):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        code, printed, complaint = ended(shots, "--port", port)
        assert (code, printed) == (2, "")
        assert complaint.startswith(f"error: config_error: port {port} of 127.0.0.1 cannot be used: ")
    code, printed, complaint = ended(tmp_path / "nowhere")
    assert (code, printed, complaint.count("\n")) == (10, "", 1)


def test_without_the_extra_one_line_says_what_to_install(shots):
    """A Python that cannot find them, as where they were never installed."""
    hide = "import sys; sys.modules['uvicorn'] = None; sys.argv[0] = 'rayshot'; from rayshot.cli import main; main()"
    command = [sys.executable, "-c", hide, "ui", str(shots), "--no-open"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    needed = "the page is served with starlette and uvicorn: pip install 'rayshot[ui]'"
    assert done.stderr == f"error: config_error: {needed}\n"


def test_a_large_snapshot_takes_less_than_100_mb(tmp_path):
    states = {f"actor-{number:04}": {"count": number} for number in range(1000)}
    flows = {
        (f"actor-{n:04}", f"actor-{(n * 7 + 1) % 1000:04}"): Flow(sent=110, arrived=60, received=10)
        for n in range(1000)
    }
    make_snapshot(open_bank(LocalStore(tmp_path / "shots")), Bank(states=states, flows=flows), 1)
    with served(tmp_path / "shots") as server:
        server.enter()
        for _ in range(3):
            document = json.loads(server.ask("/data/snapshot/1-coordinator-1").text)
            server.ask("/data/storage")
        assert document["in_flight"] == 100_000
        peak_mb = server.memory_mb()
        assert peak_mb < 100, peak_mb
