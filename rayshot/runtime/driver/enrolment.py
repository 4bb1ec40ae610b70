"""How a program attaches under a name: the coordinator lets it in, and says what its earlier processes have told."""

from rayshot.errors import ConfigError
from rayshot.protocol.identity import check_name
from rayshot.runtime.door import door, here
from rayshot.runtime.driver.coordinator_client import CoordinatorClient
from rayshot.runtime.wire.answers import SILENT_S

LABEL_LENGTH_MAX = 100
"""The name of its driver has a mark beside it."""
LOOK_S = 5.0


def check_label(label: str) -> str:
    """Return `label` if this process can attach under it; raise ConfigError if not."""
    if door.is_joined() and here.is_worker() and here.actor_id() is None:
        raise ConfigError(
            f"as_={label!r} in a task: Ray keeps the process of a task for other tasks, and the name would stay "
            "with it. Attach under a name in a program or in a plain actor"
        )
    check_name(label, "a program")
    if len(label) > LABEL_LENGTH_MAX:
        raise ConfigError(f"{label!r} cannot name a program: give at most {LABEL_LENGTH_MAX} characters")
    return label


def enroll(client: CoordinatorClient) -> dict[str, int]:
    """Wait until the coordinator has let this driver in; returns what the program's earlier processes have told.

    Raises NameInUse, NotReady, SnapshotAborted, SystemDown, NoAnswer.
    """
    return client.giving_keys(lambda: _enrolled(client))


def _enrolled(client: CoordinatorClient) -> dict[str, int]:
    """A snapshot may take any time, so only a coordinator that says nothing is given up."""
    answer = client.coordinator.enroll.remote(client.session.name)
    while not door.wait([answer], timeout=LOOK_S)[0]:
        client.ask("state")
    told: dict[str, int] = client.answer(answer, SILENT_S)
    return told
