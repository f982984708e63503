"""SWEEP.yaml."""

from __future__ import annotations

import re

import jsonschema
import pytest
from tests.experiments.sweeps import tiny

from evenstep.errors import InputError
from evenstep.experiments.sweep.file import read_sweep, sampling, schema


def test_a_file_and_a_mapping_with_its_keys_are_the_same(tmp_path):
    path = tmp_path / "s.yaml"
    path.write_text(
        "version: 1\nsource: sample:azure-conv\nfixed: {limit: 60, slots: 4, seeds: 2}\n"
        "over:\n  workers: [2, 4]\npolicies: [jsq, br-0]\n"
    )
    assert read_sweep(path)[0] == read_sweep({"version": 1, **tiny()})[0]


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (
            "over: {workers: [2]}\nsource: x\nmetric: [a]",
            "line 4: key is 'metric'; expected a known key. Did you mean metrics",
        ),
        (
            "source: x\nover:\n  wrokers: [2]",
            "line 4: key is 'over.wrokers'; expected a known setting. Did you mean workers",
        ),
        (
            "source: x\nover: {workers: [2]}\nfixed: {pol: 3}",
            "line 4: key is 'fixed.pol'; expected a known setting. Did you mean pool",
        ),
        ("source: x\nover: {workers: [2]}\nfixed: {workers: 3}", "line 3: over.workers is 'also under fixed'"),
        (
            "source: x\nover: {policies: [jsq]}",
            "line 3: key is 'over.policies'; expected another setting. Policies are listed",
        ),
        ("source: x\nover: {seed: [2]}", "key is 'over.seed'; expected another setting"),
        ("source: x\nover: {seeds: [2]}", "Replicates stand under `fixed`."),
        ("source: x\nover: {workers: [2]}\nfixed: {processes: 3}", "on the command line"),
        ("source: x\nover: {workers: [2]}\nfixed: {source: y}", "several under `over.source`"),
        ("source: x\nover: {}", "line 3: over is 'empty'"),
        ("source: x", "over is 'missing'"),
        ("over: {workers: [2]}", "source is 'missing'; expected a workload here or under over.source"),
        ("source: x\nover: {source: [y]}", "line 2: source is 'both'"),
        ("source: x\nover: {workers: [2]}\nmetrics: []", "line 4: metrics is 'empty'"),
        ("source: x\nover: {workers: [2]}\nmost_seeds: 1", "line 4: most_seeds is 1"),
        ("source: x\nover: [workers]", "over is ['workers']; expected a mapping"),
    ],
)
def test_a_bad_file_is_refused_with_line_and_field(tmp_path, lines, message):
    path = tmp_path / "s.yaml"
    path.write_text(f"version: 1\n{lines}\n")
    with pytest.raises(InputError, match=re.escape(message)) as caught:
        read_sweep(path)
    assert str(caught.value).startswith(str(path))


def test_points_are_a_grid_or_a_hypercube():
    def of(sample):
        return sampling(*read_sweep(tiny(sample=sample)))

    assert of("grid") is None
    assert of({"latin-hypercube": 64, "seed": 1}) == (64, 1)
    for bad, message in (
        ("gird", "sample is 'gird'; expected grid, or"),
        ({"latin-hypercub": 3}, "expected grid, or"),
        ({"latin-hypercube": 0}, "sample.latin-hypercube is 0; expected an integer >= 1"),
        ({"latin-hypercube": 3, "sed": 1}, "sample.sed is 1; expected a known key. Did you mean seed?"),
    ):
        with pytest.raises(InputError, match=re.escape(message)):
            of(bad)


def test_the_schema_takes_what_the_reader_takes_and_refuses_what_it_refuses():
    jsonschema.validate({"version": 1, **tiny()}, schema())
    span = {"from": 32, "to": 512, "points": 5, "scale": "log"}
    jsonschema.validate({"version": 1, **tiny(over={"pool": span, "policy.horizon": [0, 10]})}, schema())
    for over in (
        {},
        {"wrokers": [1]},
        {"workers": []},
        {"workers": ["two"]},
        {"pool": {"from": 1}},
        {"seeds": [1]},
    ):
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate({"version": 1, **tiny(over=over)}, schema())
