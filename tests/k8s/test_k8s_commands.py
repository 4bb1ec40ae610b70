"""What the image holds, and what a CronJob runs in it: the very words of the built manifest, in its environment."""

import json
import os
import re
import subprocess
import tomllib

import pytest

import rayshot
from rayshot.keys.signing import PrivateKey
from rayshot.places.local import LocalStore
from tests.cli.test_cli_verify import flip
from tests.k8s.manifests import BIN, K8S, all_templates, build, of_kind
from tests.pods import name_spaces_can_be_made
from tests.processes import ROOT
from tests.snapshots.snapshot_builder import Bank, make_snapshot, open_bank

PAIR, STRANGER = PrivateKey(b"p" * 32), PrivateKey(b"s" * 32)
READ_ONLY = (
    "unshare",
    "--mount",
    "sh",
    "-c",
    'mount --bind -o ro "$0" "$0" && ! touch "$0/x" 2>/dev/null && exec "$@"',
)
ACCOUNT = "class Account:\n    def deposit(self, amount): ...\n"
NO_RAY = 'raise ImportError("there is no Ray in this pod")\n'


@pytest.fixture(scope="module")
def pvc():
    return build(K8S / "overlays" / "pvc")


@pytest.fixture
def shots(tmp_path):
    make_snapshot(open_bank(LocalStore(tmp_path / "shots")), Bank(), key=PAIR)
    return tmp_path / "shots"


@pytest.fixture
def nightly(pvc, shots, tmp_path):
    """Runs what a CronJob runs, on a storage mounted read-only, without Ray; returns exit code and document."""
    if not name_spaces_can_be_made():
        pytest.skip("this user may mount nothing")
    folder, program = tmp_path / "without-ray", tmp_path / "program"
    folder.mkdir()
    program.mkdir()
    (folder / "ray.py").write_text(NO_RAY)

    def run(name, key):
        (container,) = all_templates([of_kind(pvc, "CronJob", name)])[0]["spec"]["containers"]
        (tmp_path / "key.pub").write_text(key.public.text)
        settings = {"RAYSHOT_STORAGE": str(shots), "RAYSHOT_SYSTEM": "bank"}
        command, *arguments = [
            re.sub(r"\$\((\w+)\)", lambda found: settings[found[1]], one) for one in container["args"]
        ]
        here = {"/keys/public/key.pub": tmp_path / "key.pub", "/bank": f"{program}:{folder}:{ROOT}"}
        variables = {one["name"]: str(here[one["value"]]) for one in container["env"]}
        done = subprocess.run(
            [*READ_ONLY, shots, BIN / command, *arguments],
            env={"PATH": os.environ["PATH"], "PYTHONPATH": f"{folder}:{ROOT}", **variables},
            capture_output=True,
            text=True,
            check=False,
            cwd="/",
        )
        return done.returncode, json.loads(done.stdout), done.stderr

    return run


def test_the_verifying_cronjob_proves_a_snapshot_without_ray_and_without_a_key_that_signs(nightly):
    code, document, said = nightly("bank-verify", PAIR)
    assert (code, said) == (0, "")
    assert (document["read"], document["sound"], document["trusted"]) == ("data", True, True)


def test_its_job_fails_where_a_stranger_signed_or_a_byte_is_another_one(nightly, shots):
    code, document, _ = nightly("bank-verify", STRANGER)
    assert (code, document["trusted"]) == (12, False)
    (chunk,) = [path for path in shots.rglob("chunks/*") if path.is_file()] or list(shots.rglob("*chunks*/*/*"))
    flip(chunk)
    code, document, _ = nightly("bank-verify", PAIR)
    assert (code, document["sound"]) == (1, False)


def test_the_drilling_cronjob_loads_all_states_with_the_program_without_ray(nightly, tmp_path):
    (tmp_path / "program" / "bank.py").write_text(ACCOUNT)
    code, document, said = nightly("bank-drill", PAIR)
    assert (code, said) == (0, "")
    assert {row["actor"]: row["word"] for row in document["actors"]} == {"alice": "proved", "bob": "proved"}


def test_its_job_says_apart_what_does_not_come_back_what_is_not_here_and_whom_nobody_trusts(nightly, tmp_path):
    assert nightly("bank-drill", PAIR)[0] == 14  # the program is not there
    assert nightly("bank-drill", STRANGER)[0] == 12
    for raised, code in (("ValueError", 1), ("ConnectionError", 18)):
        (tmp_path / "program" / "bank.py").write_text(f"{ACCOUNT}    def __setstate__(self, state): raise {raised}\n")
        assert nightly("bank-drill", PAIR)[0] == code


# The image --------------------------------------------------------------------------------------------------------


def test_image_rayjob_and_tag_name_one_version_of_ray_and_one_of_rayshot(pvc):
    dockerfile = (K8S / "Dockerfile").read_text()
    (ray,) = re.findall(r"ray\[default\]==([\d.]+)", dockerfile)
    assert of_kind(pvc, "RayJob")["spec"]["rayClusterSpec"]["rayVersion"] == ray
    (image,) = {template["spec"]["containers"][0]["image"] for template in all_templates(pvc)}
    assert image.endswith(f":{rayshot.__version__}-ray{ray}")
    assert f"-t {image} ." in dockerfile


def test_the_image_pins_all_that_rayshot_needs_and_its_base_and_runs_as_nobody_in_particular(pvc):
    dockerfile = (K8S / "Dockerfile").read_text()
    bases = re.findall(r"^FROM (\S+)", dockerfile, re.MULTILINE)
    assert len(set(bases)) == 1
    assert re.fullmatch(r"python:3\.11\.\d+-slim-bookworm", bases[0])
    pinned = set(re.findall(r"^([\w.-]+)==", (K8S / "constraints.txt").read_text(), re.MULTILINE))
    needed = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
    assert {re.match(r"[\w-]+", one)[0] for one in needed} - {"ray"} <= pinned
    (user,) = re.findall(r"^USER (\d+):\d+$", dockerfile, re.MULTILINE)
    assert {template["spec"]["securityContext"]["runAsUser"] for template in all_templates(pvc)} == {int(user)}


def test_what_the_image_copies_is_there_and_is_let_through():
    copied = re.findall(r"^COPY ((?!--from).+) \S+$", (K8S / "Dockerfile").read_text(), re.MULTILINE)
    let_through = re.findall(r"^!(\S+)$", (K8S / "Dockerfile.dockerignore").read_text(), re.MULTILINE)
    assert {source for line in copied for source in line.split()} == set(let_through)
    assert all((ROOT / source).exists() for source in let_through)


@pytest.mark.parametrize("command", [["shellcheck", K8S / "upgrade.sh"], ["hadolint", K8S / "Dockerfile"]], ids=str)
def test_shellcheck_and_hadolint_have_nothing_to_say(command):
    done = subprocess.run([BIN / command[0], command[1]], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
