"""As `inert_record`."""

from rayshot.inert.times import Zone, ZonedTime  # noqa: F401 - for their names
