"""Older snapshots may hold the classes of what the inert reader gives by the names that they have here."""

from rayshot.inert.record import HandleRecord, Inert  # noqa: F401 - for their names
