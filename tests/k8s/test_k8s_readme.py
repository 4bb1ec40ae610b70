"""`k8s/README.md` leads somewhere: its commands make what the manifests ask for, its files and links are there."""

import os
import re
import subprocess

import pytest
import yaml

from tests.k8s.manifests import BIN, K8S, OVERLAYS, all_templates, build, of_kind, walk

TEXT = (K8S / "README.md").read_text()
COMMANDS = [
    line.removeprefix("$ ").partition("     #")[0]
    for block in re.findall(r"```console\n(.*?)```", TEXT, re.DOTALL)
    for line in block.splitlines()
    if line.startswith("$ ")
]
MAKING = [one for one in COMMANDS if re.match(r"kubectl create (secret|configmap|namespace) ", one)]


def shell(command, folder):
    environment = {"PATH": f"{BIN}:{os.environ['PATH']}", "HOME": str(folder)}
    done = subprocess.run(
        ["bash", "-euc", command], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """What the reader has made, by kind and name: the keys that it holds."""
    folder = tmp_path_factory.mktemp("reader")
    (keygen,) = [one for one in COMMANDS if one.startswith("rayshot keygen")]
    shell(keygen, folder)
    documents = [yaml.safe_load(shell(f"{one} --dry-run=client --output yaml", folder)) for one in MAKING]
    return {(one["kind"], one["metadata"]["name"]): {*one.get("data", ())} for one in documents}


def files_of(template):
    """For each Secret that is mounted the files that a variable names in it."""
    if "volumes" not in template["spec"]:
        return
    (container,) = template["spec"]["containers"]
    folders = {one["mountPath"]: one["name"] for one in container["volumeMounts"]}
    secrets = {one["name"]: one["secret"]["secretName"] for one in template["spec"]["volumes"] if "secret" in one}
    for variable in container["env"]:
        folder, _, file = variable.get("value", "").rpartition("/")
        if folder in folders:
            yield secrets[folders[folder]], file


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_the_reader_makes_each_secret_that_the_manifests_name_with_the_keys_that_they_read(made, overlay):
    documents = build(K8S / "overlays" / overlay)
    named = set()
    for _, value in walk([*all_templates(documents), of_kind(documents, "RayJob")]):
        if isinstance(value, dict):
            named |= {value["secretName"]} if "secretName" in value else set()
            for way in ("secretRef", "secretKeyRef"):
                named |= {value[way]["name"]} if way in value else set()
            if "secretKeyRef" in value:
                assert value["secretKeyRef"]["key"] in made["Secret", value["secretKeyRef"]["name"]]
            if "configMapKeyRef" in value:
                assert made["ConfigMap", value["configMapKeyRef"]["name"]] == {value["configMapKeyRef"]["key"]}
    assert named <= {name for kind, name in made if kind == "Secret"}
    mounted = [pair for template in all_templates(documents) for pair in files_of(template)]
    assert len(mounted) == 4  # head, worker, verify, drill
    assert all(file in made["Secret", secret] for secret, file in mounted)


def test_the_secret_with_the_private_key_holds_no_other_and_the_public_one_neither(made):
    assert made["Secret", "bank-signing-key"] == {"key"}
    assert made["Secret", "bank-public-key"] == {"key.pub"}


def test_the_kustomization_that_it_shows_is_one(tmp_path_factory):
    (shown,) = re.findall(r"```yaml\n(.*?)```", TEXT, re.DOTALL)
    folder = tmp_path_factory.mktemp("mine")
    (folder / "kustomization.yaml").write_text(shown.replace("../", f"{os.path.relpath(K8S, folder)}/"))
    documents = build(folder)
    assert {one["metadata"]["namespace"] for one in documents} == {"bank"}
    assert {"networkPolicy", "tlsOptions"} <= of_kind(documents, "RayJob")["spec"]["rayClusterSpec"].keys()


def test_its_links_lead_somewhere():
    for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", TEXT):
        assert (K8S / target).exists(), target
    headings = {
        re.sub(r"[^\w -]", "", one).lower().replace(" ", "-") for one in re.findall(r"^## (.+)$", TEXT, re.MULTILINE)
    }
    assert set(re.findall(r"\]\(#([^)]+)\)", TEXT)) <= headings


def test_files_that_it_names_are_there_and_all_that_lies_there_is_named():
    folders = {path.relative_to(K8S).as_posix() for path in K8S.glob("*/*") if path.is_dir()}
    beside = {path.name for path in K8S.iterdir() if path.is_file() and path.suffix != ".dockerignore"} - {"README.md"}
    table = TEXT.partition("## ")[0]
    assert all(f"`{one}`" in table for one in {"base/", *folders - {"base"}, *beside})


def test_its_exit_codes_are_those_of_the_script():
    section = TEXT.partition("## Upgrade")[2].partition("## ")[0]
    told = set(re.findall(r"^\| (\d) \|", section, re.MULTILINE))
    assert told == {"0", *re.findall(r"\bleave (\d)\b", (K8S / "upgrade.sh").read_text())}
