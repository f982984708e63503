"""JSON Schemas of settings classes, which say what a YAML file may hold."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, get_args, get_type_hints

from evenstep.config.fields import docstring, is_record, meaning
from evenstep.config.yaml_file import VERSION


def file_schema(kind: type[Any], title: str) -> dict[str, Any]:
    """The JSON Schema (2020-12) of a YAML file with ``version`` and the fields of `kind`, each with its description."""
    (name,), parts = objects(kind)
    for part in parts.values():
        part.pop("description", None)
    return published(title, parts.pop(name), parts)


def published(title: str, body: dict[str, Any], parts: Mapping[str, Any]) -> dict[str, Any]:
    """A complete JSON Schema: title, the fields of `body`, a required ``version``, and `parts` as its ``$defs``.

    `body` is the schema of a mapping, with its ``properties``. It is changed in place: the version is added.
    """
    body["properties"] = {"version": {"const": VERSION}} | {k: v for k, v in body["properties"].items() if k != "version"}
    body["required"] = ["version", *(name for name in body.get("required", []) if name != "version")]
    definitions = {"$defs": dict(parts)} if parts else {}
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": title, **body, **definitions}


def objects(
    *kinds: type[Any], hook: Callable[[Any], dict[str, Any]] | None = None
) -> tuple[list[str], dict[str, dict[str, Any]]]:
    """JSON schemas of dataclasses and all dataclasses in them: no unknown keys, descriptions from the docstrings' ``Args:``.

    Args:
        hook: gives the schema of a type that is neither a dataclass nor a plain value. Without it such a type is a
            TypeError.

    Returns:
        The schema names of `kinds`, in their order; and the schemas of all these dataclasses by name, for ``$defs``.
    """
    import msgspec

    tops, parts = msgspec.json.schema_components(kinds, schema_hook=hook, ref_template="#/$defs/{name}")
    names = [top["$ref"].rpartition("/")[2] for top in tops]
    reached: list[Any] = [*kinds]
    for kind in reached:  # which grows by the types in each
        inside = (*get_args(kind), *(get_type_hints(kind).values() if is_record(kind) else ()))
        reached += [one for one in inside if one not in reached]
    by_name = {kind.__name__: kind for kind in reached if is_record(kind)} | dict(zip(names, kinds, strict=True))
    for name, part in parts.items():
        if "properties" in part:
            kind = by_name[name]
            part["additionalProperties"] = False
            part.pop("title", None)
            part["description"] = re.sub(r"\s+", " ", docstring(kind).partition("\n\n")[0]).replace("`", "")
            for value in part["properties"].values():
                if value.get("default") == {}:  # told by msgspec from 0.23 on
                    del value["default"]
            for field, text in meaning(kind).items():
                if field in part["properties"]:
                    part["properties"][field]["description"] = text
    return names, parts
