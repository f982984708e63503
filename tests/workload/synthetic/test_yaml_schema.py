from __future__ import annotations

import copy
import json
from pathlib import Path

import pytest
import yaml

from evenstep.workload.synthetic.yaml_schema import schema

ROOT = Path(__file__).parents[3]
PUBLISHED = ROOT / "docs" / "reference" / "schemas" / "workload.json"


def test_the_published_schema_is_the_one_the_code_makes():
    assert json.loads(PUBLISHED.read_text()) == schema(), "run: python -m evenstep.workload.synthetic.yaml_schema > " + str(
        PUBLISHED
    )


def accepts(content: object) -> bool:
    from jsonschema import Draft202012Validator

    return Draft202012Validator(schema()).is_valid(content)


@pytest.mark.parametrize("path", sorted((ROOT / "examples" / "workloads").glob("*.yaml")), ids=lambda p: p.stem)
def test_every_example_keeps_the_schema(path):
    assert accepts(yaml.safe_load(path.read_text()))


GOOD = {
    "version": 1,
    "synthetic": {
        "requests": 5,
        "prompt": {"law": "constant", "tokens": 3},
        "output": {"law": "geometric", "mean": 9},
    },
}


@pytest.mark.parametrize(
    "change",
    [
        {"version": 2},
        {"trace": {"file": "x"}},
        {"extra": 1},
        {"requests_per_s": 1, "load": 1},
        {"synthetic": {**GOOD["synthetic"], "prompt": {"law": "constnt", "tokens": 3}}},
        {"synthetic": {**GOOD["synthetic"], "prompt": {"law": "constant", "tokens": 3, "more": 1}}},
        {"synthetic": {**GOOD["synthetic"], "arrivals": "poisson"}},
    ],
)
def test_the_schema_refuses_what_the_reader_refuses(change):
    assert accepts(GOOD)
    assert not accepts({**copy.deepcopy(GOOD), **change})


def test_a_process_without_parameters_may_be_its_name_alone():
    assert accepts({**GOOD, "synthetic": {**GOOD["synthetic"], "arrivals": "at-once"}})
