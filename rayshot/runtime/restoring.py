"""Every actor of a snapshot made and loaded: what a restore does when all that it needs is known to be there."""

import logging
import time
from collections.abc import Mapping, Sequence
from typing import Any

import ray

from rayshot.errors import RestoreFailed
from rayshot.model.dead_letter import DeadLetter
from rayshot.model.resolution import Fit
from rayshot.runtime.answers import get_answer, the_coordinator
from rayshot.runtime.identity import HostIdentity
from rayshot.runtime.initiation import some_names
from rayshot.runtime.loading import LoadPlan
from rayshot.runtime.progress import wait_with_progress
from rayshot.runtime.spawning import spawn_host

log = logging.getLogger("rayshot")
START_S = 300.0
"""So long nobody may get ready before processes that have not started, or hang, are given up."""
HANG_S = 60.0
"""A process that loads answers meanwhile; unpickling one large value may keep it from that for some seconds."""


def load_all(identity: HostIdentity, storage: str, folder: str, fit: Fit, dead_letters: Sequence[DeadLetter]) -> None:
    """Make every actor, load it, and let all go when the last is ready.

    The chunks lie in `folder` of `storage`, which may be another one than the system's. `dead_letters` come from those
    left out.
    """
    _report(fit)
    plans = _plans(storage, folder, fit, _by_host(fit, dead_letters))
    hosts = {name: spawn_host(identity, fit.specifications[name], name, loading=True) for name in plans}
    try:
        loads = {name: hosts[name].load.remote(plan) for name, plan in plans.items()}
        _load(loads, hosts, identity.coordinator)
        get_answer(identity.coordinator.resume.remote(), the_coordinator(identity.system))
    except BaseException:
        for host in hosts.values():
            ray.kill(host)  # also one that is not up yet, of which the coordinator does not know
        raise


def _load(loads: Mapping[str, Any], hosts: Mapping[str, Any], coordinator: Any) -> None:
    """Wait until all are loaded: as long as one after the other is, or those that load answer.

    Raises RestoreFailed where processes do not start, or hang.
    """
    names = {load: name for name, load in loads.items()}
    waiting = list(loads.values())
    due = time.monotonic() + START_S

    def all_are_loaded(timeout_s: float) -> bool:
        nonlocal waiting, due
        loaded, waiting = ray.wait(waiting, num_returns=1, timeout=min(timeout_s, START_S))
        ray.get(loaded)  # raises what went wrong there
        if loaded:
            due = time.monotonic() + START_S
        elif time.monotonic() >= due:
            _check_loading([names[load] for load in waiting], hosts, coordinator)
            due = time.monotonic() + START_S
        return not waiting

    if waiting:
        wait_with_progress(
            all_are_loaded,
            lambda: (
                f"restoring: {len(loads) - len(waiting)}/{len(loads)} loaded, waiting for "
                f"{some_names([names[load] for load in waiting])}"
            ),
        )


def _check_loading(names: list[str], hosts: Mapping[str, Any], coordinator: Any) -> None:
    """Raise RestoreFailed for actors whose processes are not there, or do not answer while they load."""
    started = get_answer(coordinator.actors.remote(), "the coordinator")
    if absent := [name for name in names if name not in started]:
        raise RestoreFailed(
            f"nothing was restored: {some_names(absent)} did not start within {START_S:g} s: has the cluster the "
            f"resources?",
            actors=absent,
        )
    answers = {name: hosts[name].status.remote() for name in names}
    ready, _ = ray.wait(list(answers.values()), num_returns=len(answers), timeout=HANG_S)
    if hung := [name for name, answer in answers.items() if answer not in ready]:
        raise RestoreFailed(
            f"nothing was restored: {some_names(hung)} has not loaded within {START_S:g} s, and its process does not "
            f"answer: is it stopped?",
            actors=hung,
        )


def _report(fit: Fit) -> None:
    """Say what is not restored: nothing is lost silently."""
    for name, recorded in fit.left_out.items():
        lost = {c.sender: c.sent - c.received for c in fit.undeliverable if c.receiver == name and c.sent > c.received}
        flying = ", ".join(f"{count:,} from {sender}" for sender, count in sorted(lost.items()))
        log.warning(
            "%s of class %s is left out of the restore of %s; its state stays in the snapshot. Dead letters: %s",
            name, recorded, fit.manifest.snapshot, flying or "none",
        )  # fmt: skip


def _by_host(fit: Fit, dead_letters: Sequence[DeadLetter]) -> dict[str, list[DeadLetter]]:
    """Dead letters lie with who sent them; those of drivers and of actors that are no more with the first actor."""
    by_host: dict[str, list[DeadLetter]] = {name: [] for name in fit.specifications}
    for letter in dead_letters:
        by_host[letter.sender if letter.sender in by_host else min(by_host)].append(letter)
    return by_host


def _plans(
    storage: str, folder: str, fit: Fit, dead_letters: Mapping[str, Sequence[DeadLetter]]
) -> dict[str, LoadPlan]:
    manifest, specifications = fit.manifest, fit.specifications
    chunks = {chunk.digest: chunk for chunk in manifest.chunks}
    sent: dict[str, dict[str, int]] = {name: {} for name in specifications}
    arrived: dict[str, dict[str, int]] = {name: {} for name in specifications}
    received: dict[str, dict[str, int]] = {name: {} for name in specifications}
    mailbox: dict[str, dict[str, Any]] = {name: {} for name in specifications}
    for channel in manifest.channels:
        if channel.sender in sent:
            sent[channel.sender][channel.receiver] = channel.sent
        if channel.receiver in specifications:
            arrived[channel.receiver][channel.sender] = channel.sent
            received[channel.receiver][channel.sender] = channel.received
            if blobs := channel.blobs():
                mailbox[channel.receiver][channel.sender] = blobs
    plans = {}
    for actor in manifest.actors:
        needed = [blob for parts in mailbox[actor.name].values() for blob in parts]
        if actor.state is not None:
            needed += [actor.state.stream, *actor.state.buffers]
        plans[actor.name] = LoadPlan(
            storage,
            folder,
            manifest.system,
            manifest.snapshot,
            specifications[actor.name],
            actor.state,
            {span.chunk: chunks[span.chunk] for blob in needed for span in blob.spans},
            sent[actor.name],
            arrived[actor.name],
            received[actor.name],
            mailbox[actor.name],
            frozenset(manifest.ended) & arrived[actor.name].keys(),
            actor.version,
            fit.names,
            tuple(dead_letters[actor.name]),
        )
    return plans
