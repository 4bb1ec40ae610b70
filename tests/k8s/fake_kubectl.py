"""A `kubectl` for the tests of upgrade.sh: a cluster in a file, which does what a scenario says, and records calls.

The scenario holds `lives` of each version, one for each time somebody asks whether it runs (null: it does not), and
`failing`: beginnings of commands that fail, with the exit code and what is said.
"""

import json
import os
import sys
from pathlib import Path

FOLDER = Path(os.environ["FAKE_KUBECTL"])
STATE = FOLDER / "state.json"


def main(arguments):
    with (FOLDER / "calls").open("a") as calls:
        calls.write(json.dumps(arguments) + "\n")
    if arguments[0] == "--namespace":
        arguments = arguments[2:]
    state = json.loads(STATE.read_text())
    code, said = answer(" ".join(arguments), arguments, state)
    STATE.write_text(json.dumps(state))
    print(said)
    return code


def answer(line, arguments, state):
    for beginning, (code, said) in state["failing"].items():
        if line.startswith(beginning):
            return code, said
    match arguments:
        case ["kustomize", _]:
            return 0, "new"
        case ["apply", "--dry-run=server", *_]:
            return 0, ""
        case ["apply", "view-last-applied", *_]:
            return (0, state["job"]) if state["job"] else (1, "")
        case ["apply", "--filename", file]:
            state["job"] = Path(file).read_text().strip()
            state["started"].append([state["job"], state["pin"]])
            return 0, "applied"
        case ["delete", "rayjob", *_]:
            state["job"] = None
            return 0, "deleted"
        case ["get", "configmap", *_]:
            return (0, "") if state["pin"] else (1, "")
        case ["create", "configmap", _, "--from-literal", literal]:
            state["pin"] = literal.removeprefix("snapshot=")
            return 0, "created"
        case ["delete", "configmap", *_]:
            state["pin"] = None
            return 0, "deleted"
        case ["get", "pods", *_]:
            return (0, "bank-abcde-head") if state["job"] else (1, "")
        case ["get", "rayjob", *_]:
            return 0, state["deployment"].get(state["job"], "Running")
        case ["exec", "bank-abcde-head", "--container", "ray-head", "--", "rayshot", "status", *_]:
            lives = state["lives"][state["job"]]
            life = lives.pop(0) if len(lives) > 1 else lives[0]
            if life is None:
                return 22, json.dumps({"error": {"kind": "recovering", "message": "not yet"}})
            return 0, json.dumps({"system": "bank", "state": "running", "life": life})
        case ["exec", "bank-abcde-head", "--container", "ray-head", "--", "rayshot", "stop", *_]:
            return 0, json.dumps({"system": "bank", "life": 3, "snapshot": "3-stopped-1", "position": 95})
    raise AssertionError(arguments)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
