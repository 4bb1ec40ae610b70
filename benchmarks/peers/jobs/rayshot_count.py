"""rayshot: a source actor and a counter actor, snapshots by themselves to local disk, `rayshot.restore`."""

import time

import ray

import rayshot
from benchmarks.peers.jobs.rayshot_actors import Counter, Source
from benchmarks.peers.measuring import Job, Steady, job_of_command_line, tell
from benchmarks.peers.records import BATCH, check

POLL_S = 0.05
KEPT = 3
STOPS = rayshot.FailureConfig(scope="stop")
RUN_MESSAGES = 64
OBJECT_STORE_BYTES = 256 << 20


def main(batch: int = BATCH, run: int = RUN_MESSAGES) -> None:
    """Run the job to its end: `batch` records in a message, two runs of `run` messages under way."""
    job = job_of_command_line()
    ray.init(
        address="local",
        num_cpus=4,
        object_store_memory=OBJECT_STORE_BYTES,
        include_dashboard=False,
        logging_level="ERROR",
        log_to_driver=False,
        _temp_dir=str(job.folder / "ray"),
    )
    storage = job.folder / "shots"
    rhythm = rayshot.SnapshotConfig(interval_s=job.interval_s or None, num_to_keep=KEPT)
    try:
        if job.restart:
            latest = rayshot.open(storage).systems["count"].latest()
            with rayshot.restore(storage=storage, snapshot=latest.id, snapshots=rhythm, failure=STOPS) as system:
                _work(system, job, resumed_at=latest.states()["counter"]["records"])
        else:
            with rayshot.init("count", storage=storage, snapshots=rhythm, failure=STOPS) as system:
                counter = rayshot.actor(Counter).options(name="counter").remote()
                source = rayshot.actor(Source).options(name="source").remote(counter, job.keys, batch, run, job.records)
                source.begin.tell()
                _work(system, job)
    finally:
        ray.shutdown()


def _work(system: rayshot.System, job: Job, resumed_at: int | None = None) -> None:
    """Watch the counter until all is counted, and check it. `resumed_at` is what the restored snapshot had counted."""
    counter = system.get_actor("counter")
    steady = Steady(job, lambda: _committed(system))
    if resumed_at is not None:
        steady.resumed(resumed_at)
    while True:
        _, records = ray.get(counter.progress.remote())
        steady.see(records)
        if records >= job.records:
            break
        time.sleep(POLL_S)
    steady.finish(records)
    check(ray.get(counter.result.remote()), job.records, job.keys)
    tell("exact")


def _committed(system: rayshot.System) -> int:
    """How many snapshots this life has committed: those that were begun, but for those that were aborted."""
    status = system.status()
    return 0 if status.last_snapshot is None else status.last_snapshot.counter - status.aborted


if __name__ == "__main__":
    main()
