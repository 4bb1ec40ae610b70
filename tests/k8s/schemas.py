"""What an API server would say of a RayJob: the schema of its definition, and the CEL rules that schemas skip."""

from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import cel
import jsonschema
import yaml

CRD = Path(__file__).parent / "crds" / "ray.io_rayjobs.yaml"
OF_UPDATES = "oldSelf"
"""A rule with this word compares what is with what was: it says nothing of a new object."""


@cache
def schema() -> dict[str, Any]:
    """The schema of RayJob v1; what it does not name is refused, as `kubectl apply` does with strict validation."""
    definition = yaml.load(CRD.read_text(), Loader=yaml.CSafeLoader)
    (version,) = [one for one in definition["spec"]["versions"] if one["name"] == "v1"]
    found = version["schema"]["openAPIV3Schema"]
    _close(found, top=True)
    return found


def _close(schema: Any, *, top: bool = False) -> None:
    """Refuse unknown fields wherever fields are named, and take numbers and texts where Kubernetes takes both."""
    if isinstance(schema, list):
        for one in schema:
            _close(one)
    if not isinstance(schema, dict):
        return
    if schema.get("x-kubernetes-int-or-string"):
        schema["type"] = ["integer", "string"]
        schema.pop("anyOf", None)
    if isinstance(schema.get("properties"), dict):
        schema.setdefault("additionalProperties", False)
        if top:
            schema["properties"]["metadata"] = {"type": "object"}
        for one in schema["properties"].values():
            _close(one)
    for inside in ("items", "additionalProperties"):
        _close(schema.get(inside))


def refusals(rayjob: dict[str, Any]) -> list[str]:
    """Why an API server would not take this new RayJob: by its schema, then by its CEL rules."""
    validator = jsonschema.Draft202012Validator(schema())
    return [f"{error.json_path}: {error.message}" for error in validator.iter_errors(rayjob)] + list(
        _broken_rules(schema(), rayjob, "$")
    )


def _broken_rules(schema: dict[str, Any], value: Any, path: str) -> Iterator[str]:
    for rule in schema.get("x-kubernetes-validations", ()):
        if OF_UPDATES not in rule["rule"] and not cel.evaluate(rule["rule"], {"self": value}):
            yield f"{path}: {rule['message']}"
    if isinstance(value, dict):
        for key, inner in value.items():
            of_key = schema.get("properties", {}).get(key) or schema.get("additionalProperties")
            if isinstance(of_key, dict):
                yield from _broken_rules(of_key, inner, f"{path}.{key}")
    elif isinstance(value, list) and isinstance(schema.get("items"), dict):
        for number, inner in enumerate(value):
            yield from _broken_rules(schema["items"], inner, f"{path}[{number}]")
