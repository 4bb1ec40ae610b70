"""Names of Ray actors. They hold the incarnation, so that the next life of a system meets no orphan of the last."""

NAMESPACE = "rayshot"


def coordinator_name(system: str) -> str:
    """The Ray name of a system's coordinator."""
    return f"rayshot/{system}"


def actor_name(system: str, incarnation: int, name: str) -> str:
    """The Ray name of the actor `name` in one life of the system."""
    return f"rayshot/{system}/{incarnation}/actor/{name}"


def vault_name(system: str, incarnation: int, node: str) -> str:
    """The Ray name of the vault on one node."""
    return f"rayshot/{system}/{incarnation}/vault/{node}"


def prefix(system: str, incarnation: int | None = None) -> str:
    """What the Ray names of all hosts and vaults of a system begin with, or those of one life of it."""
    return f"rayshot/{system}/" if incarnation is None else f"rayshot/{system}/{incarnation}/"
