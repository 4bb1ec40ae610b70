"""Every test of the model may ask for a world in memory."""

from tests.model.world import world

__all__ = ["world"]
