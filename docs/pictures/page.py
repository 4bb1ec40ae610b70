"""Takes pictures of the page of `rayshot report`: `python docs/pictures/page.py STORAGE SNAPSHOT`, of a traced system.

Writes page-light.png and page-dark.png, as it could have happened, and page-straight.png. It needs Chromium.
"""

import sys
import tempfile
from pathlib import Path

from PIL import Image
from playwright.sync_api import sync_playwright

import rayshot
from rayshot.explorer.report import report

LOOKS = {"page-light": ("light", False), "page-dark": ("dark", False), "page-straight": ("light", True)}
SIZE = {"width": 1360, "height": 1000}
COLOURS = 128


def main(storage: str, snapshot: str) -> None:
    view = rayshot.open(storage).system()
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        file = Path(folder) / "cut.html"
        file.write_text(report(view, view.snapshot(snapshot))[1], encoding="utf-8")
        browser = playwright.chromium.launch(executable_path="/usr/bin/chromium", args=["--no-sandbox"])
        for name, (scheme, straight) in LOOKS.items():
            page = browser.new_page(color_scheme=scheme, viewport=SIZE, reduced_motion="reduce")
            page.goto(file.as_uri())
            if straight:
                page.click("text=straightened: one instant")
                page.mouse.move(0, 0)
            picture = Path(__file__).with_name(f"{name}.png")
            section = page.locator("section.wide").nth(1) if straight else page
            section.screenshot(path=picture)
            Image.open(picture).convert("RGB").quantize(COLOURS).save(picture, optimize=True)
        browser.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
