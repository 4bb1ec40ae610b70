"""Pages that tests make, and that are kept in the tree so that people can read them."""

import os
from pathlib import Path


def check_written(page: Path, made: str) -> None:
    """Assert that a page is what is made now; with RAYSHOT_REWRITE_PAGES it is written anew."""
    if os.environ.get("RAYSHOT_REWRITE_PAGES"):
        page.write_text(made)
    assert page.read_text() == made
