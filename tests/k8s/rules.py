"""What no schema says: manifests that Kubernetes takes, and that do not work. Each rule tells what is wrong, in words.

What KubeRay itself refuses, or does with a RayJob, was read in the source of its v1.7.0.
"""

import re
from collections.abc import Iterator, Sequence
from typing import Any

from tests.k8s.manifests import Document, all_templates, of_kind, walk

GATED = {"networkPolicy": "RayClusterNetworkPolicy", "tlsOptions": "RayClusterMTLS"}
"""Fields for which a feature gate of the operator must be on, and all of these are off by default."""
NAME_LENGTH_MAX = 47
HEADS = "-head-svc"
TRIES_MIN = 50
CLUSTER_LABEL = "ray.io/cluster"


def generated_names(documents: Sequence[Document]) -> Iterator[str]:
    """A RayJob names its cluster anew at each try, so nothing may refer to a name that comes of the cluster's."""
    for document in documents:
        for path, value in walk(document):
            if path.endswith(f".{CLUSTER_LABEL}"):
                yield f"{path} selects a cluster by its name, which is another one at each try"
            if isinstance(value, str) and HEADS in value:
                yield f"{path} is {value!r}: that Service has the name of a cluster, which is another one at each try"
    options = of_kind(documents, "RayJob")["spec"]["rayClusterSpec"].get("authOptions", {})
    if options.get("mode") == "token" and not options.get("secretName"):
        yield "authOptions has no secretName: the token would lie in a Secret with the name of a cluster"


def disruption_budget(documents: Sequence[Document]) -> Iterator[str]:
    """The pods of a RayCluster have a controller without a scale: only minAvailable as a whole number holds them."""
    budget = of_kind(documents, "PodDisruptionBudget")["spec"]
    if "maxUnavailable" in budget:
        yield "maxUnavailable: a RayCluster has no scale subresource, so Kubernetes cannot compute it"
        return
    cluster = of_kind(documents, "RayJob")["spec"]["rayClusterSpec"]
    pods = 1 + sum(group["minReplicas"] for group in cluster["workerGroupSpecs"])
    if budget["minAvailable"] != pods:
        yield f"minAvailable is {budget['minAvailable']!r}: the cluster has {pods} pods, and none may go"
    by_kuberay = {"ray.io/is-ray-node": "yes"}
    for template in all_templates([of_kind(documents, "RayJob")]):
        labels = template["metadata"]["labels"] | by_kuberay
        if not budget["selector"]["matchLabels"].items() <= labels.items():
            yield f"the budget selects {budget['selector']['matchLabels']}, and not the pods with {labels}"


def placeholders(documents: Sequence[Document]) -> Iterator[str]:
    """Kustomize replaces no ConfigMap's name inside a RayJob where nobody tells it where these are."""
    generated = {one["metadata"]["name"] for one in documents if one["kind"] == "ConfigMap"}
    for document in documents:
        for path, value in walk(document):
            if path.endswith(".image") and ":" not in str(value):
                yield f"{document['kind']}{path} is {value!r}: no image was put in its place"
            named = (
                value.get("name") if isinstance(value, dict) and path.endswith((".configMapRef", ".configMap")) else ""
            )
            if named and named not in generated:
                yield f"{document['kind']}{path} names ConfigMap {named!r}: there are {sorted(generated)}"


def head_service(documents: Sequence[Document]) -> Iterator[str]:
    """The Service selects the head by labels that it has, of a port that it names."""
    spec = of_kind(documents, "Service")["spec"]
    head, *workers = all_templates([of_kind(documents, "RayJob")])
    by_kuberay = {"ray.io/node-type": "head"}
    if not spec["selector"].items() <= (head["metadata"]["labels"] | by_kuberay).items():
        yield f"the Service selects {spec['selector']}, which the head has not"
    if any(spec["selector"].items() <= worker["metadata"]["labels"].items() for worker in workers):
        yield f"the Service selects {spec['selector']}, which workers have too"
    named = {port["name"] for port in head["spec"]["containers"][0]["ports"]}
    yield from (
        f"the head has no port {port['targetPort']!r}" for port in spec["ports"] if port["targetPort"] not in named
    )


def refused_by_kuberay(documents: Sequence[Document], gates: Sequence[str] = ()) -> Iterator[str]:
    """What the operator answers with ValidationFailed though the API server took it."""
    rayjob = of_kind(documents, "RayJob")
    spec, cluster = rayjob["spec"], rayjob["spec"]["rayClusterSpec"]
    if len(rayjob["metadata"]["name"]) > NAME_LENGTH_MAX:
        yield f"the name is longer than {NAME_LENGTH_MAX} characters"
    for field, gate in GATED.items():
        if field in cluster and gate not in gates:
            yield f"{field} needs the feature gate {gate}, which is off by default"
    if cluster.get("authOptions", {}).get("mode") == "token" and not cluster.get("rayVersion"):
        yield "a token needs rayVersion"
    if spec.get("ttlSecondsAfterFinished") and not spec.get("shutdownAfterJobFinishes"):
        yield "ttlSecondsAfterFinished needs shutdownAfterJobFinishes"
    if spec.get("submissionMode") == "SidecarMode":
        head = cluster["headGroupSpec"]["template"]["spec"]
        yield from (f"SidecarMode takes no {one}" for one in ("submitterPodTemplate", "submitterConfig") if one in spec)
        if head.get("restartPolicy", "Never") != "Never":
            yield "SidecarMode: the head's restartPolicy is Never"
    for group in cluster["workerGroupSpecs"]:
        if not {"minReplicas", "maxReplicas"} <= group.keys():
            yield f"group {group['groupName']} says not how many workers it has"
    policy = cluster.get("networkPolicy", {})
    if policy.get("mode") == "DenyAllIngress" and "egressRules" in policy.get("head", {}):
        yield "networkPolicy: rules for what is not denied"


def operator_locked_out(documents: Sequence[Document]) -> Iterator[str]:
    """Under a networkPolicy KubeRay lets the operator in by itself no more than anybody else."""
    policy = of_kind(documents, "RayJob")["spec"]["rayClusterSpec"].get("networkPolicy")
    if policy is None:
        return
    peers = [peer for rule in policy.get("head", {}).get("ingressRules", ()) for peer in rule["from"]]
    if not any("namespaceSelector" in peer for peer in peers):
        yield "the operator cannot ask the head how the job is: after 300 s the RayJob has failed for good"
    for cron in (one for one in documents if one["kind"] == "CronJob"):
        (template,) = all_templates([cron])
        asks = any("8265" in argument for argument in template["spec"]["containers"][0]["args"])
        selected = [
            peer for peer in peers
            if "namespaceSelector" not in peer
            and peer["podSelector"]["matchLabels"].items() <= template["metadata"]["labels"].items()
        ]  # fmt: skip
        if asks and not selected:
            yield f"CronJob {cron['metadata']['name']} cannot reach the head"


def as_root(documents: Sequence[Document]) -> Iterator[str]:
    """No container may be root, gain rights, or have a token for the API server."""
    for template in all_templates(documents):
        spec = template["spec"]
        names = ", ".join(container["name"] for container in spec["containers"])
        if not spec.get("securityContext", {}).get("runAsNonRoot"):
            yield f"{names} may run as root"
        if spec.get("automountServiceAccountToken", True):
            yield f"{names} has a token for the API server"
        for container in spec["containers"]:
            context: dict[str, Any] = container.get("securityContext", {})
            if context.get("allowPrivilegeEscalation", True) or context.get("capabilities", {}).get("drop") != ["ALL"]:
                yield f"{container['name']} may gain rights"


def left_to_ray(words: str) -> Iterator[str]:
    """`ray job stop` gives 3 s, then SIGKILL; `ray job submit` ends with 1 whatever the program ended with."""
    if re.search(r"\bray job stop\b", words):
        yield "`ray job stop` kills after 3 s: `rayshot stop --savepoint` ends a system"
    if re.search(r"\bray job submit\b(?!.* --json)", words):
        yield "`ray job submit` makes every exit code a 1: without --json nobody learns why"


def tries(documents: Sequence[Document]) -> Iterator[str]:
    """`backoffLimit` counts all failures in the life of a RayJob, and nothing sets it back."""
    limit = of_kind(documents, "RayJob")["spec"].get("backoffLimit", 0)
    if limit < TRIES_MIN:
        yield f"backoffLimit is {limit}: so many failures, over months, and the system stays down"
