"""Debian's Chromium for the tests of the page, and what a page asked for and complained about."""

import os
from contextlib import contextmanager
from pathlib import Path

from playwright.sync_api import sync_playwright

CHROMIUM = os.environ.get("CHROMIUM", "/usr/bin/chromium")
FLAGS = (
    *("--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking"),
    *("--disable-component-update", "--disable-sync"),
)


@contextmanager
def chromium():
    """A browser, ended with its processes."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=list(FLAGS))
        try:
            yield browser
        finally:
            browser.close()


class Visit:
    """One page that was opened, in a look; `requests` and `complaints` are what it asked for and what went wrong."""

    def __init__(self, browser, address: str | Path, **look):
        self.context = browser.new_context(**{"reduced_motion": "reduce", **look})
        self.page = self.context.new_page()
        self.requests, self.complaints = [], []
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.on("console", lambda message: self.complaints.append(message.text))
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("dialog", lambda dialog: (self.complaints.append(dialog.message), dialog.dismiss()))
        self.address = address.as_uri() if isinstance(address, Path) else address
        self.page.goto(self.address)

    def text(self, selector="body"):
        return self.page.inner_text(selector)

    def count(self, selector):
        return self.page.locator(selector).count()

    def places_of_records(self):
        """The x at which each actor's record stands."""
        script = "all => all.map(one => one.getCTM().e - one.ownerSVGElement.getCTM().e)"
        return {round(x, 1) for x in self.page.eval_on_selector_all("[data-recorded]", script)}

    def assert_quiet(self):
        """It asked for nothing but itself, and nothing went wrong in it."""
        assert self.requests == [self.address]
        assert self.complaints == []

    def close(self):
        self.context.close()
