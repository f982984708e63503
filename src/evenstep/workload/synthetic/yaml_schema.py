"""The JSON Schema of WORKLOAD.yaml, made from its dataclasses.

``python -m evenstep.workload.synthetic.yaml_schema`` prints it; a test holds ``docs/reference/schemas/workload.json`` to it.
"""

from __future__ import annotations

import json
from typing import Any

from evenstep import config
from evenstep.workload.synthetic import laws, yaml_file

TITLE = "evenstep WORKLOAD.yaml"
#: What is chosen by name: the key that names it, and the classes.
_CHOICES = {"law": yaml_file.LAWS, "process": yaml_file.PROCESSES}


def schema() -> dict[str, Any]:
    """The schema as plain values."""
    tagged = [(tag, name, kind) for tag, known in _CHOICES.items() for name, kind in known.items()]
    (top, *names), parts = config.objects(yaml_file.Document, *(kind for *_, kind in tagged), hook=_choice)
    definitions: dict[str, Any] = {tag: {"oneOf": []} for tag in _CHOICES}
    for (tag, name, _), part in zip(tagged, names, strict=True):
        one = parts.pop(part)
        one["properties"] = {tag: {"const": name}, **one["properties"]}
        definitions[f"{tag}-{name}"] = one
        definitions[tag]["oneOf"].append({"$ref": f"#/$defs/{tag}-{name}"})
        if not one["required"]:
            definitions[tag]["oneOf"].append({"const": name})  # one without parameters may be its name alone
        one["required"] = [tag, *one["required"]]
    document = parts.pop(top)
    rules = {
        "oneOf": [{"required": ["synthetic"]}, {"required": ["trace"]}],
        "not": {"required": ["requests_per_s", "load"]},
    }
    return json.loads(json.dumps(config.published(TITLE, document | rules, parts | definitions)))


def _choice(kind: Any) -> dict[str, Any]:
    """A reference to what is chosen by name."""
    return {"$ref": "#/$defs/law" if kind is laws.Law else "#/$defs/process"}


if __name__ == "__main__":
    print(json.dumps(schema(), indent=2))
