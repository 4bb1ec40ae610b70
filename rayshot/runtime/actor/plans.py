"""What each actor of a snapshot is loaded from."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from rayshot.format.manifest import Manifest
from rayshot.runtime.actor.loading import LoadPlan
from rayshot.runtime.wire.restored_fit import RestoredFit


def make_plans(
    storage: str,
    folder: str,
    manifest: Manifest,
    fitted: RestoredFit,
    drivers: frozenset[str] = frozenset(),
    programs: Mapping[str, str] = MappingProxyType({}),
) -> dict[str, LoadPlan]:
    """The plan of each actor of `manifest`, which lacks those that are left out.

    The chunks are in `folder` of `storage`; the rest is as in LoadPlan.
    """
    specifications = fitted.specifications
    chunks = {chunk.digest: chunk for chunk in manifest.chunks}
    sent: dict[str, dict[str, int]] = {name: {} for name in specifications}
    arrived: dict[str, dict[str, int]] = {name: {} for name in specifications}
    received: dict[str, dict[str, int]] = {name: {} for name in specifications}
    mailbox: dict[str, dict[str, Any]] = {name: {} for name in specifications}
    slots: dict[str, dict[str, Any]] = {name: {} for name in specifications}
    needed: dict[str, list[Any]] = {name: [] for name in specifications}
    for channel in manifest.channels:
        if channel.sender in sent:
            sent[channel.sender][channel.receiver] = channel.sent
        if channel.receiver in specifications:
            arrived[channel.receiver][channel.sender] = channel.sent
            received[channel.receiver][channel.sender] = channel.received
            if blobs := channel.blobs():
                mailbox[channel.receiver][channel.sender] = blobs
            if channel.slots:
                slots[channel.receiver][channel.sender] = channel.slots
            needed[channel.receiver] += channel.all_blobs()
    plans, ended = {}, frozenset(manifest.ended)
    for actor in manifest.actors:
        if actor.state is not None:
            needed[actor.name] += [actor.state.stream, *actor.state.buffers]
        plans[actor.name] = LoadPlan(
            storage,
            folder,
            manifest.system,
            manifest.snapshot,
            specifications[actor.name],
            actor.state,
            {span.chunk: chunks[span.chunk] for blob in needed[actor.name] for span in blob.spans},
            sent[actor.name],
            arrived[actor.name],
            received[actor.name],
            mailbox[actor.name],
            slots[actor.name],
            ended,
            actor.version,
            fitted.names,
            fitted.letters.get(actor.name, ()),
            drivers,
            dict(programs),
            actor.outside,
        )
    return plans
