"""The JSON Schema of WORKLOAD.yaml, made from its dataclasses.

``python -m evenstep.workload.synthetic.yaml_schema`` prints it, for ``docs/reference/schemas/workload.json``.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from evenstep.config.schema import objects, published
from evenstep.workload.synthetic import laws, yaml_file

TITLE = "evenstep WORKLOAD.yaml"
#: Key that chooses a class by its name, and the classes by name.
_CHOICES = {"law": yaml_file.LAWS, "process": yaml_file.PROCESSES}


#: Rules between fields: exactly one of `synthetic` and `trace`, at most one of `requests_per_s` and `load`.
_RULES = {"oneOf": [{"required": ["synthetic"]}, {"required": ["trace"]}], "not": {"required": ["requests_per_s", "load"]}}


def schema() -> dict[str, Any]:
    """The JSON Schema of WORKLOAD.yaml as dicts, lists and text, ready for `json.dumps`."""
    return schema_of(yaml_file.Document, TITLE, _RULES)


def schema_of(kind: type[Any], title: str, rules: Mapping[str, Any]) -> dict[str, Any]:
    """The JSON Schema, ready for `json.dumps`, of a YAML file that holds this dataclass, with laws and processes by name.

    `rules` are further JSON Schema keywords for the top object, which win over its own.
    """
    tagged = [(tag, name, kind) for tag, known in _CHOICES.items() for name, kind in known.items()]
    (top, *names), parts = objects(kind, *(kind for *_, kind in tagged), hook=_choice)
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
    return json.loads(json.dumps(published(title, document | dict(rules), parts | definitions)))


def _choice(kind: Any) -> dict[str, Any]:
    """A reference to the schema of all laws, if `kind` is `Law`, or else to that of all arrival processes."""
    return {"$ref": "#/$defs/law" if kind is laws.Law else "#/$defs/process"}


if __name__ == "__main__":
    print(json.dumps(schema(), indent=2))
