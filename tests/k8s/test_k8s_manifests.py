"""All that `k8s/` makes is built by real kustomize and holds to schemas, to CEL rules, and to what none says."""

import copy
import re
import subprocess
from itertools import product

import pytest
import yaml

from tests.k8s import rules
from tests.k8s.manifests import (
    BIN,
    COMPONENTS,
    K8S,
    OVERLAYS,
    all_templates,
    build,
    build_with,
    of_kind,
    walk,
)
from tests.k8s.schemas import refusals

WAYS = [*product(OVERLAYS, [(), *((one,) for one in COMPONENTS), COMPONENTS])]
EVERYWHERE = (
    rules.generated_names,
    rules.disruption_budget,
    rules.placeholders,
    rules.head_service,
    rules.operator_locked_out,
    rules.as_root,
    rules.tries,
)


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    folder = tmp_path_factory.mktemp("built")
    return {
        (overlay, components): build_with(folder / "-".join((overlay, *components)), overlay, components)
        for overlay, components in WAYS
    }


@pytest.fixture
def pvc(built):
    return copy.deepcopy(built["pvc", ()])


@pytest.fixture
def s3(built):
    return copy.deepcopy(built["s3", ()])


@pytest.fixture
def locked(built):
    return copy.deepcopy(built["pvc", COMPONENTS])


@pytest.mark.parametrize("way", WAYS, ids=str)
def test_each_overlay_with_each_component_holds_to_schemas_and_rules(built, way, tmp_path):
    documents = built[way]
    plain = [one for one in documents if one["kind"] != "RayJob"]
    (tmp_path / "plain.yaml").write_text(yaml.safe_dump_all(plain))
    done = subprocess.run(
        [BIN / "kubernetes-validate", "--strict", tmp_path / "plain.yaml"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert (done.stdout + done.stderr).count("passed for resource") == len(plain)
    assert refusals(of_kind(documents, "RayJob")) == []
    for rule in EVERYWHERE:
        assert list(rule(documents)) == []
    gates = [
        rules.GATED[field] for field in rules.GATED if field in of_kind(documents, "RayJob")["spec"]["rayClusterSpec"]
    ]
    assert list(rules.refused_by_kuberay(documents, gates)) == []


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_what_needs_a_feature_gate_is_in_a_component_alone(built, overlay):
    assert list(rules.refused_by_kuberay(built[overlay, ()])) == []
    for component, field in (("network-policy", "networkPolicy"), ("tls", "tlsOptions")):
        assert list(rules.refused_by_kuberay(built[overlay, (component,)])) == [
            f"{field} needs the feature gate {rules.GATED[field]}, which is off by default"
        ]


# What schemas say -----------------------------------------------------------------------------------------------


def test_a_field_that_is_not_there_or_of_another_type_is_refused(pvc):
    rayjob = of_kind(pvc, "RayJob")
    rayjob["spec"]["backOffLimit"] = 3
    rayjob["spec"]["rayClusterSpec"]["headGroupSpec"]["rayStartParams"]["num-cpus"] = 0
    unknown, of_type = sorted(refusals(rayjob), key=len)
    assert "0 is not of type 'string'" in of_type
    assert "'backOffLimit' was unexpected" in unknown


@pytest.mark.parametrize(
    ("strategy", "said"),
    [
        ({"onSuccess": {"policy": "DeleteCluster"}}, "requires either BOTH onSuccess and onFailure"),
        ({}, "requires either BOTH onSuccess and onFailure"),
        (
            {
                "onSuccess": {"policy": "DeleteNone"},
                "onFailure": {"policy": "DeleteNone"},
                "deletionRules": [{"policy": "DeleteSelf", "condition": {"jobStatus": "FAILED"}}],
            },
            "cannot be used together within the same deletionStrategy",
        ),
        (
            {"deletionRules": [{"policy": "DeleteSelf", "condition": {"ttlSeconds": 5}}]},
            "requires either the JobStatus or the JobDeploymentStatus",
        ),
    ],
)
def test_the_rules_in_cel_are_checked_which_a_schema_skips(pvc, strategy, said):
    rayjob = of_kind(pvc, "RayJob")
    rayjob["spec"]["deletionStrategy"] = strategy
    (found,) = refusals(rayjob)
    assert said in found


def test_a_job_that_nobody_manages_is_refused_by_a_rule_in_cel(pvc):
    rayjob = of_kind(pvc, "RayJob")
    rayjob["spec"]["managedBy"] = "me"
    (found,) = refusals(rayjob)
    assert found.startswith("$.spec.managedBy: the managedBy field value must be either 'ray.io/kuberay-operator' or ")


# What no schema says: each trap in its wrong form ------------------------------------------------------------------


def test_a_name_that_comes_of_a_cluster_is_found(pvc):
    of_kind(pvc, "CronJob", "bank-savepoint")["spec"]["jobTemplate"]["spec"]["template"]["spec"]["containers"][0][
        "args"
    ][3] = "--address=http://bank-abcde-head-svc:8265"
    of_kind(pvc, "Service")["spec"]["selector"] = {"ray.io/cluster": "bank-abcde"}
    del of_kind(pvc, "RayJob")["spec"]["rayClusterSpec"]["authOptions"]["secretName"]
    assert len(list(rules.generated_names(pvc))) == 3


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"maxUnavailable": 0}, "no scale subresource"),
        ({"minAvailable": "100%"}, "minAvailable is '100%'"),
        ({"minAvailable": 1}, "the cluster has 3 pods"),
    ],
)
def test_a_budget_that_holds_nothing_is_found(pvc, wrong, said):
    budget = of_kind(pvc, "PodDisruptionBudget")
    budget["spec"] = {"selector": budget["spec"]["selector"]} | wrong
    (found,) = rules.disruption_budget(pvc)
    assert said in found


def test_a_budget_for_other_pods_is_found(pvc):
    of_kind(pvc, "PodDisruptionBudget")["spec"]["selector"]["matchLabels"] = {"app.kubernetes.io/name": "bank"}
    assert len(list(rules.disruption_budget(pvc))) == 2


def test_kustomize_leaves_names_in_a_rayjob_alone_where_nobody_tells_it_where_to_look(tmp_path):
    for file in (K8S / "base").iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    kustomization = yaml.safe_load((tmp_path / "kustomization.yaml").read_text())
    del kustomization["configurations"]
    (tmp_path / "kustomization.yaml").write_text(yaml.safe_dump(kustomization))
    found = list(rules.placeholders(build(tmp_path)))
    assert len([one for one in found if one.startswith("RayJob") and "names ConfigMap 'bank-" in one]) == 4
    assert len(found) == 4  # those of the CronJobs are right, so nobody notices


def test_an_image_that_nobody_replaced_is_found(pvc):
    for template in all_templates(pvc):
        template["spec"]["containers"][0]["image"] = "rayshot"
    assert len([one for one in rules.placeholders(pvc) if "no image was put in its place" in one]) == 5


def test_an_image_that_an_overlay_sets_reaches_all_pods(tmp_path):
    documents = build_with(
        tmp_path, "pvc", images=[{"name": "registry.example.com/rayshot", "newName": "mine", "newTag": "1"}]
    )
    assert {template["spec"]["containers"][0]["image"] for template in all_templates(documents)} == {"mine:1"}


def test_a_changed_program_is_a_configmap_of_another_name_and_so_another_rayjob(tmp_path):
    before = build(K8S / "base")
    for file in (K8S / "base").iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    with (tmp_path / "main.py").open("a") as program:
        program.write("# changed\n")
    after = build(tmp_path)
    programs = [
        of_kind(documents, "RayJob")["spec"]["rayClusterSpec"]["headGroupSpec"]["template"]["spec"]["volumes"][1][
            "configMap"
        ]["name"]
        for documents in (before, after)
    ]
    assert programs[0] != programs[1]


def test_a_service_that_selects_nothing_or_workers_too_is_found(pvc):
    selector = of_kind(pvc, "Service")["spec"]["selector"]
    del selector["ray.io/node-type"]
    (found,) = rules.head_service(pvc)
    assert "workers have too" in found
    selector["app"] = "other"
    assert len(list(rules.head_service(pvc))) == 1


def test_what_kuberay_refuses_is_found(pvc):
    rayjob = of_kind(pvc, "RayJob")
    rayjob["metadata"]["name"] = "b" * 48
    rayjob["spec"]["shutdownAfterJobFinishes"] = False
    rayjob["spec"]["submitterConfig"] = {"backoffLimit": 3}
    cluster = rayjob["spec"]["rayClusterSpec"]
    cluster["headGroupSpec"]["template"]["spec"]["restartPolicy"] = "Always"
    del cluster["rayVersion"], cluster["workerGroupSpecs"][0]["minReplicas"]
    assert len(list(rules.refused_by_kuberay(pvc))) == 6


def test_a_network_policy_that_locks_the_operator_or_the_cronjob_out_is_found(locked):
    assert list(rules.operator_locked_out(locked)) == []
    head = of_kind(locked, "RayJob")["spec"]["rayClusterSpec"]["networkPolicy"]["head"]
    operator, savepoint = head["ingressRules"]
    head["ingressRules"] = [savepoint]
    (found,) = rules.operator_locked_out(locked)
    assert "the operator cannot ask" in found
    head["ingressRules"] = [operator]
    assert list(rules.operator_locked_out(locked)) == ["CronJob bank-savepoint cannot reach the head"]


def test_a_container_that_may_be_root_is_found(pvc):
    for template in all_templates(pvc):
        template["spec"].pop("securityContext")
    assert len(list(rules.as_root(pvc))) == 5


def test_too_few_tries_for_a_long_life_are_found(pvc):
    of_kind(pvc, "RayJob")["spec"]["backoffLimit"] = 10
    assert len(list(rules.tries(pvc))) == 1


@pytest.mark.parametrize(
    ("words", "wrong"),
    [
        ("ray job stop raysubmit_1", "kills after 3 s"),
        ("ray job submit --address=http://bank-ray:8265 -- rayshot savepoint bank nightly", "nobody learns why"),
        ("ray job submit --address=http://bank-ray:8265 -- rayshot savepoint bank nightly --json", None),
    ],
)
def test_what_is_left_to_ray_s_jobs_is_found(words, wrong):
    found = list(rules.left_to_ray(words))
    assert (wrong in found[0]) if wrong else found == []


def test_neither_script_nor_cronjob_leaves_more_to_ray_s_jobs_than_they_can_do(pvc):
    commands = [
        " ".join(container.get("args", ()))
        for template in all_templates(pvc)
        for container in template["spec"]["containers"]
    ]
    for words in (*commands, (K8S / "upgrade.sh").read_text()):
        assert list(rules.left_to_ray(words)) == []


# Who has which key ---------------------------------------------------------------------------------------------


def secrets_of(template):
    return {
        found
        for path, value in walk(template)
        if isinstance(value, dict)
        for found in (
            value.get("secretName"),
            value.get("name") if path.endswith(("secretRef", "secretKeyRef")) else None,
        )
        if found
    }


@pytest.mark.parametrize("name", ["bank-verify", "bank-drill"])
def test_whoever_proves_has_the_storage_and_the_public_key_and_neither_ray_nor_a_key_that_signs(pvc, s3, name):
    for documents, of_storage in ((pvc, set()), (s3, {"bank-s3-read"})):
        (template,) = all_templates([of_kind(documents, "CronJob", name)])
        assert secrets_of(template) == {"bank-public-key"} | of_storage
        (container,) = template["spec"]["containers"]
        assert container["args"][0] == "rayshot"
        assert container["securityContext"]["readOnlyRootFilesystem"]
        assert not [one for one in container["env"] if one["name"].startswith("RAY_") or "SIGNING" in one["name"]]
    (template,) = all_templates([of_kind(pvc, "CronJob", name)])
    (volume,) = [one for one in template["spec"]["volumes"] if one["name"] == "snapshots"]
    assert volume["persistentVolumeClaim"]["readOnly"] is True


def test_whoever_verifies_runs_no_program_and_whoever_drills_finds_that_of_the_workers(pvc):
    _, worker = all_templates([of_kind(pvc, "RayJob")])
    verify, drill = (all_templates([of_kind(pvc, "CronJob", name)])[0] for name in ("bank-verify", "bank-drill"))
    (program,) = [one for one in worker["spec"]["volumes"] if one["name"] == "program"]
    assert program not in verify["spec"]["volumes"]
    assert program in drill["spec"]["volumes"]
    (container,), (of_worker,) = drill["spec"]["containers"], worker["spec"]["containers"]
    (mount,) = [one for one in container["volumeMounts"] if one["name"] == "program"]
    assert mount in of_worker["volumeMounts"]
    assert {"name": "PYTHONPATH", "value": mount["mountPath"]} in container["env"]
    assert container["resources"]["limits"] == of_worker["resources"]["limits"]


def test_whoever_takes_savepoints_has_the_token_alone(pvc, s3):
    for documents in (pvc, s3):
        (template,) = all_templates([of_kind(documents, "CronJob", "bank-savepoint")])
        assert secrets_of(template) == {"bank-ray-token"}
        modes = [one["value"] for one in template["spec"]["containers"][0]["env"] if one["name"] == "RAY_AUTH_MODE"]
        assert modes == ["token"]  # without it `ray job` sends no token, whatever the cluster wants


def test_head_and_workers_have_the_signing_key_as_a_file_and_no_secret_in_a_manifest(pvc, s3):
    for documents, of_storage in ((pvc, set()), (s3, {"bank-s3"})):
        assert not [one for one in documents if one["kind"] == "Secret"]
        for template in all_templates([of_kind(documents, "RayJob")]):
            assert secrets_of(template) == {"bank-signing-key"} | of_storage
            (container,) = template["spec"]["containers"]
            (key,) = [one["value"] for one in container["env"] if one["name"] == "RAYSHOT_SIGNING_KEY_FILE"]
            (mount,) = [one for one in container["volumeMounts"] if one["name"] == "signing-key"]
            assert key.startswith(f"{mount['mountPath']}/")
            assert mount["readOnly"]


def test_the_head_has_no_processors_for_actors_and_only_it_reads_the_pin(pvc):
    cluster = of_kind(pvc, "RayJob")["spec"]["rayClusterSpec"]
    assert cluster["headGroupSpec"]["rayStartParams"]["num-cpus"] == "0"
    head, worker = all_templates([of_kind(pvc, "RayJob")])
    pins = [
        [one for one in template["spec"]["containers"][0]["env"] if one["name"] == "RAYSHOT_RESTORE_SNAPSHOT"]
        for template in (head, worker)
    ]
    assert pins == [
        [
            {
                "name": "RAYSHOT_RESTORE_SNAPSHOT",
                "valueFrom": {"configMapKeyRef": {"name": "bank-pin", "key": "snapshot", "optional": True}},
            }
        ],
        [],
    ]


def test_head_workers_and_driver_see_one_storage(pvc, s3):
    for documents, address in ((pvc, "/snapshots/bank"), (s3, "s3://my-bucket/bank?region=eu-central-1")):
        settings = [one for one in documents if one["kind"] == "ConfigMap" and "RAYSHOT_STORAGE" in one["data"]]
        assert [one["data"] for one in settings] == [{"RAYSHOT_SYSTEM": "bank", "RAYSHOT_STORAGE": address}]
    for template in all_templates([of_kind(pvc, "RayJob")]):
        (claim,) = [
            one["persistentVolumeClaim"] for one in template["spec"]["volumes"] if "persistentVolumeClaim" in one
        ]
        assert claim == {"claimName": "bank-snapshots"}
    assert of_kind(pvc, "PersistentVolumeClaim")["spec"]["accessModes"] == ["ReadWriteMany"]


def test_what_a_worker_does_before_it_ends_fits_into_its_grace_period(pvc):
    _, worker = all_templates([of_kind(pvc, "RayJob")])
    (within_s,) = re.findall(r"^WITHIN_S = (\d+)$", (K8S / "base" / "leave.py").read_text(), re.MULTILINE)
    assert int(within_s) + 15 <= worker["spec"]["terminationGracePeriodSeconds"]  # Ray's own end takes some of it
    (container,) = worker["spec"]["containers"]
    (mount,) = [one for one in container["volumeMounts"] if one["name"] == "program"]
    assert f"{mount['mountPath']}/leave.py" in container["lifecycle"]["preStop"]["exec"]["command"][-1]
