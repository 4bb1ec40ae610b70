"""The RayJob `bank` on this machine: its pods are nodes of Ray, and what KubeRay does with it is done to them."""

import secrets
import shlex
import subprocess
import time
import urllib.request
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from tests.k8s.manifests import K8S, Document, all_templates, build, of_kind
from tests.pods import BIN, FOR_JOBS, TRIES, HeadEnded, Pod, kill_children, name_spaces_can_be_made

WHY_NOT = (
    None
    if FOR_JOBS.is_dir() and name_spaces_can_be_made()
    else "it needs what scripts/ensure-metrics installs, and the right to make name spaces of processes"
)
DASHBOARD_S = 120.0


class RayJob:
    """A head and a worker with the settings of the built overlay `pvc`, and its entry point as a job of Ray.

    The storage is a folder of this machine, and the program lies where it lies in this project. `cluster` counts.
    Where there are `certificates`, all pods have these variables, as KubeRay gives them for `tlsOptions`.
    """

    def __init__(self, folder: Path, *, workers: int = 1, certificates: Mapping[str, str] | None = None) -> None:
        self.documents = build(K8S / "overlays" / "pvc")
        self.rayjob = of_kind(self.documents, "RayJob")
        self.folder, self.storage = folder, folder / "shots"
        self.key = folder / "key"
        subprocess.run([BIN / "rayshot", "keygen", "--algorithm", "ed25519", "--output", self.key], check=True)
        self.cluster = 0
        self.token = secrets.token_hex(16)
        self.certificates = certificates or {}
        self.workers: list[Pod] = []
        self._workers_wanted = workers
        self._drivers: list[subprocess.Popen[str]] = []
        self._pods: list[Pod] = []

    def start(self) -> None:
        """Make a cluster and submit the entry point, as KubeRay does at each try: its submitter lives with the head."""
        self.cluster += 1
        for _ in range(TRIES):  # on a busy machine Ray may end a head that has just begun: then KubeRay makes another
            self._start_head()
            with suppress(HeadEnded):
                self.workers = []
                self.start_workers()
                break
        self._await_dashboard()
        self.log = self.folder / f"driver-{self.cluster}.log"
        submit = ["ray", "job", "submit", f"--address=http://{self.head.dashboard}", "--"]
        entrypoint = shlex.split(self.of_this_machine(self.rayjob["spec"]["entrypoint"]))
        self._drivers.append(self.head.start(*submit, *entrypoint, log=self.log))

    def _start_head(self) -> None:
        head, _ = all_templates([self.rayjob])
        cpus = int(self.rayjob["spec"]["rayClusterSpec"]["headGroupSpec"]["rayStartParams"]["num-cpus"])
        self.head = self._keep(Pod(self.token, cpus=cpus, jobs=True, variables=self.variables(head)).wait())

    def start_workers(self) -> None:
        """Make the pods of workers that are not there, as KubeRay does whenever one is gone."""
        _, worker = all_templates([self.rayjob])
        cpus = int(worker["spec"]["containers"][0]["resources"]["requests"]["cpu"])
        variables = self.variables(worker)
        missing = range(self._workers_wanted - len(self.workers))
        for pod in [self._keep(Pod(head=self.head, cpus=cpus, variables=variables)) for _ in missing]:
            self.workers.append(pod.wait())

    def of_this_machine(self, words: str) -> str:
        """What a manifest says, with the program and the Service where they are here."""
        return words.replace("/bank/", f"{K8S / 'base'}/").replace("bank-ray:8265", self.head.dashboard)

    def variables(self, template: Document) -> dict[str, str]:
        """What the environment of a pod of this template holds, but for paths, which are those of this machine."""
        (container,) = template["spec"]["containers"]
        found: dict[str, str] = {}
        for source in container.get("envFrom", ()):
            found |= of_kind(self.documents, "ConfigMap", source["configMapRef"]["name"])["data"]
        found |= {one["name"]: one["value"] for one in container["env"] if "value" in one}
        own = {"RAYSHOT_STORAGE": str(self.storage), "RAYSHOT_SIGNING_KEY_FILE": str(self.key)}
        return found | own | self.certificates

    def end(self) -> None:
        """End all that is left of it."""
        for pod in self._pods:
            pod.end()
        for driver in self._drivers:
            kill_children(driver)

    def _keep(self, pod: Pod) -> Pod:
        self._pods.append(pod)
        return pod

    def _await_dashboard(self) -> None:
        deadline = time.monotonic() + DASHBOARD_S
        healthy = f"http://{self.head.dashboard}/api/gcs_healthz"
        asking = urllib.request.Request(healthy, headers={"Authorization": f"Bearer {self.token}"})
        while True:
            with suppress(OSError), urllib.request.urlopen(asking, timeout=5):  # raises where it is not well
                return
            assert time.monotonic() < deadline, "the dashboard did not start"
            time.sleep(0.5)
