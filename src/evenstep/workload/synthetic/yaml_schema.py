"""The JSON Schema of WORKLOAD.yaml, made from its dataclasses.

``python -m evenstep.workload.synthetic.yaml_schema`` prints it; a test holds ``docs/reference/schemas/workload.json`` to it.
"""

from __future__ import annotations

import dataclasses
import inspect
import json
import typing
from typing import Any

from evenstep.workload.synthetic import arrivals, laws, yaml_file

TITLE = "evenstep WORKLOAD.yaml"


def schema() -> dict[str, Any]:
    """The schema as plain values."""
    definitions: dict[str, Any] = {}
    for tag, known in (("law", yaml_file.LAWS), ("process", yaml_file.PROCESSES)):
        for name, kind in known.items():
            definitions[f"{tag}-{name}"] = _object(kind, tag, name)
        plain = [
            name for name, kind in known.items() if not any(_required(f) for f in dataclasses.fields(kind))
        ]
        choices: list[dict[str, Any]] = [{"$ref": f"#/$defs/{tag}-{name}"} for name in known]
        definitions[tag] = {"oneOf": [*choices, {"enum": plain}] if plain else choices}
    document = _object(yaml_file.Document)
    document["properties"]["version"] = {"const": yaml_file.VERSION}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema", "title": TITLE, **document,
        "oneOf": [{"required": ["synthetic"]}, {"required": ["trace"]}],
        "not": {"required": ["requests_per_s", "load"]}, "$defs": definitions,
    }  # fmt: skip


def _object(kind: Any, tag: str = "", name: str = "") -> dict[str, Any]:
    hints = typing.get_type_hints(kind)
    fields = dataclasses.fields(kind)
    properties: dict[str, Any] = {tag: {"const": name}} if tag else {}
    for one in fields:
        properties[one.name] = _type(hints[one.name])
        if isinstance(one.default, bool | int | float | str):
            properties[one.name] = {**properties[one.name], "default": one.default}
    required = [*([tag] if tag else []), *(f.name for f in fields if _required(f))]
    described = (inspect.getdoc(kind) or "").partition("\n\n")[0].replace("\n", " ").replace("`", "")
    return {
        "type": "object", "description": described, "properties": properties, "required": required,
        "additionalProperties": False,
    }  # fmt: skip


def _type(kind: Any) -> dict[str, Any]:
    import msgspec

    options = typing.get_args(kind)
    if type(None) in options:
        inner = _type(next(o for o in options if o is not type(None)))
        return {"anyOf": [inner, {"type": "null"}]}
    if kind is laws.Law:
        return {"$ref": "#/$defs/law"}
    if kind is arrivals.Arrivals:
        return {"$ref": "#/$defs/process"}
    if dataclasses.is_dataclass(kind):
        return _object(kind)
    if typing.get_origin(kind) is list and dataclasses.is_dataclass(options[0]):
        return {"type": "array", "items": _object(options[0])}
    return dict(msgspec.json.schema(kind))


def _required(one: dataclasses.Field[Any]) -> bool:
    return one.default is dataclasses.MISSING and one.default_factory is dataclasses.MISSING


if __name__ == "__main__":
    print(json.dumps(schema(), indent=2))
