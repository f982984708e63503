"""JSON Schemas of settings classes."""

from __future__ import annotations

import jsonschema
from tests.config.kinds import Fleet

from evenstep.config.schema import file_schema


def test_the_schema_accepts_what_load_accepts_and_refuses_what_it_refuses():
    published = file_schema(Fleet, "fleet")
    check = jsonschema.Draft202012Validator(published)
    check.check_schema(published)
    assert check.is_valid({"version": 1, "workers": 3, "pool": {"limit": 2}})
    for bad in (
        {"workers": 3},
        {"version": 1, "workres": 3},
        {"version": 1, "pool": {"limt": 2}},
        {"version": 2},
    ):
        assert not check.is_valid(bad), bad


def test_the_schema_says_what_the_docstring_says():
    properties = file_schema(Fleet, "fleet")["properties"]
    assert properties["workers"]["description"] == "workers of the fleet."
    assert properties["overhead_s"]["description"] == properties["per_token_s"]["description"] == "seconds."
    assert file_schema(Fleet, "fleet")["$defs"]["Pool"]["properties"]["limit"]["description"]
