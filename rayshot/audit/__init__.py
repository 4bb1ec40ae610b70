"""The independent proof of a snapshot: from its bytes, by code that shares nothing with the code that made it.

The protocol and the runtime, which numbers, counts and writes, make a snapshot. A defect there can write a wrong
snapshot, and a check by the same code can share the defect. So this package imports no protocol code and no writer. It
reads the stored bytes by their documented layout, with msgpack, zstandard and BLAKE3 and nothing else of rayshot, and
counts for itself.

    document      the manifest and the bytes it names
    equation      on each channel exactly the messages sent and not received are there (Chandy and Lamport 1985, 3.1)
    segment       what a traced actor wrote down about its own actions
    history       segments of several snapshots joined: what each actor did since a common cut
    computation   one order of all events; vector clocks; Theorem 1 by executing the permuted order
    replay        with messages kept: a deterministic class, run again, reaches the recorded state. Runs user code
    proof         all of this for one snapshot: `prove`

Only `proof` and `replay` need more. `proof` gets bytes and signatures from the store's reading side. `replay` runs user
code in the model's cell, with the module that unpickles.
"""

from rayshot.audit.findings import Finding, Findings
from rayshot.audit.proof import prove

__all__ = ["Finding", "Findings", "prove"]
