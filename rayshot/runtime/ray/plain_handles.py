"""Older snapshots hold the function `plain_handle` by the name that it has here; see docs/format.md."""

from rayshot.runtime.door.plain_handles import plain_handle  # noqa: F401 - for its name
