"""What `k8s/` holds, built by the kustomize that is in kubectl."""

import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from tests.processes import ROOT

BIN = Path(sys.executable).parent
K8S = ROOT / "k8s"
OVERLAYS = ("pvc", "s3")
COMPONENTS = ("network-policy", "tls")
Document = dict[str, Any]


def build(folder: Path) -> list[Document]:
    """The objects of a kustomization. Asserts that it can be built and that nothing is warned of."""
    done = subprocess.run([BIN / "kubectl", "kustomize", folder], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    return list(yaml.safe_load_all(done.stdout))


def build_with(folder: Path, overlay: str, components: Sequence[str] = (), **more: Any) -> list[Document]:
    """The objects of an overlay with components, as a reader of README.md puts them together in a folder of theirs."""
    folder.mkdir(parents=True, exist_ok=True)
    kustomization = {
        "apiVersion": "kustomize.config.k8s.io/v1beta1",
        "kind": "Kustomization",
        "resources": [os.path.relpath(K8S / "overlays" / overlay, folder)],
        "components": [os.path.relpath(K8S / "components" / component, folder) for component in components],
        **more,
    }
    (folder / "kustomization.yaml").write_text(yaml.safe_dump(kustomization))
    return build(folder)


def of_kind(documents: Sequence[Document], kind: str, name: str | None = None) -> Document:
    """The one object of a kind, and of a name where several are of that kind."""
    (found,) = [one for one in documents if one["kind"] == kind and (name is None or one["metadata"]["name"] == name)]
    return found


def pod_templates(document: Document) -> Iterator[Document]:
    """The templates of all pods that come of an object."""
    spec = document.get("spec", {})
    match document["kind"]:
        case "RayJob":
            cluster = spec["rayClusterSpec"]
            yield cluster["headGroupSpec"]["template"]
            yield from (group["template"] for group in cluster["workerGroupSpecs"])
        case "CronJob":
            yield spec["jobTemplate"]["spec"]["template"]


def all_templates(documents: Sequence[Document]) -> list[Document]:
    """The templates of the pods of all objects."""
    return [template for document in documents for template in pod_templates(document)]


def walk(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Everything inside of a value, with the way to it."""
    yield path, value
    if isinstance(value, Mapping):
        for key, inner in value.items():
            yield from walk(inner, f"{path}.{key}")
    elif isinstance(value, list):
        for number, inner in enumerate(value):
            yield from walk(inner, f"{path}[{number}]")
