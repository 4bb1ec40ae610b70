"""The system on Ray: hosts that run actors, the transport between them, capture, vaults, the coordinator, restore.

Four kinds of Ray actors, all in the namespace NAMESPACE:

- a *host* per rayshot actor drives one `protocol.Participant` and one `model.Cell`;
- the *coordinator*, detached and named, one a system, drives the `protocol.Collector` and owns the commit log;
- a *vault* per node writes the bytes of records as chunks into the storage;
- drivers are not actors of ours: each holds a `DriverPort`.
"""

from rayshot.runtime.door.class_tables import share_class_tables
from rayshot.runtime.door.functions import guard_functions

share_class_tables()  # before anything is unpickled by this process
guard_functions()
