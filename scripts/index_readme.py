"""Gives the package index a README whose links and pictures lead to the files of the version that is built.

An index shows README.md without the files beside it. Hatch runs this at each build: see pyproject.toml.
"""

import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

FENCE = re.compile(r"(?ms)(^```.*?^```$)")
"""Code is shown as it is."""
LINK = re.compile(r"(?P<before>!?\[[^\]]*\]\(|\b(?:src|srcset|href)=\")(?!https?://|#|mailto:)(?P<path>[^)\"\s]+)")
"""A link or picture to a file of the project, in Markdown or in HTML; the text of a link may hold no brackets."""


class IndexReadme(MetadataHookInterface):
    """Hatch finds this class by its base."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Fill in `readme`; `urls` and `version` are there already."""
        text = (Path(self.root) / "README.md").read_text(encoding="utf-8")
        absolute = with_absolute_links(text, metadata["urls"]["Source"], f"v{metadata['version']}")
        metadata["readme"] = {"content-type": "text/markdown", "text": absolute}


def with_absolute_links(text: str, source: str, tag: str) -> str:
    """The text with links to the page of each file at this tag, and pictures as their bytes there."""

    def absolute(link: re.Match[str]) -> str:
        page = link["before"].startswith(("[", "href"))
        return f"{link['before']}{source}/{'blob' if page else 'raw'}/{tag}/{link['path']}"

    return "".join(part if FENCE.match(part) else LINK.sub(absolute, part) for part in FENCE.split(text))
