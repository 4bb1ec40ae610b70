"""The fake in place of the door: what rayshot's modules have of Ray, of threads and of time is the cluster's.

The functions here ask the present cluster, so they are put into the modules in one go, and out again.
"""

import gc
import importlib
import logging
import os
import pkgutil
import queue
import sys
import threading
import time
import uuid
import warnings
from concurrent.futures import Future
from contextlib import contextmanager
from functools import cache
from itertools import count

import rayshot.log
import rayshot.places
import rayshot.runtime
import rayshot.snapshots
from rayshot.format.references import provide_references
from rayshot.model import current, port
from rayshot.model.event_loop import Coroutines
from rayshot.proving.proofs import ProofTask
from rayshot.proving.trial import TrialAnswer
from rayshot.runtime.actor.incarnation import Incarnation
from rayshot.runtime.coordinator.requests import PendingRequest
from rayshot.runtime.door import (
    class_tables,
    cluster,
    door,
    failpoints,
    functions,
    here,
    metrics,
    references,
    shared_memory,
    sigterm,
    state,
)
from rayshot.runtime.door.failure_detector import FailureDetector
from rayshot.runtime.node.proofs import NodeProofs
from tests.fake import threads
from tests.fake.cluster import Cluster
from tests.fake.globals import Globals
from tests.fake.loop import FakeLoop
from tests.fake.process import Handle
from tests.fake.reference import Reference
from tests.fake.threads import Present

log = logging.getLogger("rayshot")
_ASKED = {
    door: (
        "get put wait when_answered when_there known_size make kill find names write_note read_note note_keys "
        "remove_note remove_notes"
    ),
    state: "actor_id actors_in_the_making was_just_away runs_here gone",
    failpoints: "failpoint",
}
_WITHOUT_EFFECT = {
    door: "leave when_joined",
    functions: "be_actor name_in_logs guard_functions",
    shared_memory: "note_buffers",
    sigterm: "die_at_sigterm",
    cluster: "join_or_start",
    class_tables: "share_class_tables",
}
_WITH_THREADS = ("rayshot.runtime.", "rayshot.snapshots.leases", "rayshot.proving.proofs")
_WITH_TIME = ("rayshot.runtime.", "rayshot.snapshots.", "rayshot.log.", "rayshot.places.", "rayshot.proving.proofs")


def _asking(name):
    return lambda *args, **options: getattr(Present.cluster, name)(*args, **options)  # noqa: PLW0108 - of the present one


class _Metric:
    """One that nobody reads."""

    def __getattr__(self, _name):
        return lambda *_args, **_options: None


def _know_references():
    provide_references(Reference, Present.cluster.get, Present.cluster.put)


def _here():
    return Present.cluster.here


def _place():
    return f"{_here().worker}/{_here().node}".encode()


_numbers = count(1)


def _stand_ins():
    """By the id of a function, what stands in for it wherever rayshot's modules have it."""
    found = {}
    for module, names in _ASKED.items():
        found |= {id(getattr(module, name)): _asking(name) for name in names.split()}
    for module, names in _WITHOUT_EFFECT.items():
        found |= {id(getattr(module, name)): lambda *_args, **_options: None for name in names.split()}
    own = {
        door.is_joined: lambda: True,
        door.restart: lambda handle: Present.cluster.kill(handle, no_restart=False),
        here.node: lambda: _here().node,
        here.address: lambda: f"at {_here().node[-4:]}",
        here.place: _place,
        here.is_worker: lambda: _here().process.is_worker,
        here.actor_id: lambda: None if _here().process.kind is None else Handle(_here().process.number)._actor_id.hex(),
        here.actor_name: lambda: _here().process.name,
        here.was_restarted: lambda: _here().number > 0,
        state.draining_nodes: lambda: dict(Present.cluster.draining),
        references.know_references: _know_references,
        metrics.make_metric: lambda *_args, **_options: _Metric(),
        metrics.takes_metrics_here: lambda: False,
        cluster.connected_to: lambda: "the fake",
    }
    return found | {id(function): stand_in for function, stand_in in own.items()}


@cache
def _replaced():
    """All that is put in place: who has it, under which name, and what it is."""
    for package in (rayshot.runtime, rayshot.log, rayshot.places, rayshot.snapshots):
        for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            importlib.import_module(module.name)
    stand_ins = _stand_ins()
    of_threads = {
        id(threading): threads.stand_in_for(threading),
        id(queue): threads.QUEUE,
        id(queue.SimpleQueue): threads.SimpleQueue,
        id(Future): threads.Future,
        id(uuid): threads.StandIn(uuid, uuid4=lambda: uuid.UUID(int=next(_numbers) << 96)),
        id(gc): threads.StandIn(gc, freeze=lambda: None, collect=lambda: 0),
        id(warnings): threads.StandIn(warnings, simplefilter=lambda *_: None),
    }
    found = []
    for name, module in list(sys.modules.items()):
        if not name.startswith("rayshot."):
            continue
        known = dict(stand_ins)
        known |= of_threads if name.startswith(_WITH_THREADS) else {}
        known |= {id(time): threads.TIME} if name.startswith(_WITH_TIME) else {}
        found += [(module, key, known[id(value)]) for key, value in vars(module).items() if id(value) in known]
    found += [(current, "_running", threads.Local()), (port, "_held", threads.Local())]
    for kind in (PendingRequest, ProofTask):  # dataclasses keep there how they make their events
        cells = [cell for cell in kind.__init__.__closure__ if cell.cell_contents is threading.Event]
        found += [(cell, "cell_contents", threads.Event) for cell in cells]
    for function in (Incarnation.begin, Incarnation.leave):
        assert function.__defaults__ == (os._exit,)
        found.append((function, "__defaults__", (lambda _code: Present.cluster.end_here(),)))
    found.append((FailureDetector.__init__, "__defaults__", (None, _asking("kill"))))
    found.append((Coroutines.__init__, "__defaults__", (FakeLoop,)))
    found.append((Coroutines, "enter", lambda _self: None))  # a loop has three open files
    found.append((NodeProofs, "_try", lambda *_: TrialAnswer("unproved", "nothing is tried on the fake")))
    return found


@contextmanager
def fake(choices=(), **settings):
    """A cluster of the fake, on which rayshot's code runs meanwhile."""
    replaced = _replaced()
    before = [(owner, name, getattr(owner, name)) for owner, name, _ in replaced]
    provided = _provided()
    for owner, name, value in replaced:
        setattr(owner, name, value)
    made, watch = None, _Defects(logging.ERROR)
    log.addHandler(watch)
    try:
        made = Cluster(choices, **settings)
        _know_references()
        yield made
    finally:
        log.removeHandler(watch)
        if made is not None:
            made.close()
        Globals.installed = None
        patched = [name for owner, name, value in replaced if getattr(owner, name) is not value]
        for owner, name, value in before:
            setattr(owner, name, value)
        provide_references(*provided)
        assert not patched, f"the test has to put {patched} back first: else its patch stays for all tests behind it"


class _Defects(logging.Handler):
    """What rayshot itself calls a defect ends the test."""

    def emit(self, record):
        if "a defect of rayshot" in (said := record.getMessage()):
            error = AssertionError(said)
            error.__cause__ = record.exc_info and record.exc_info[1]
            Present.cluster.schedule.failures.append(error)


def _provided():
    from rayshot.format.references import references as known

    return known.kind, getattr(known, "get", None), getattr(known, "put", None)
