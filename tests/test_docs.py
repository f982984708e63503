"""The documentation runs: its Python, its commands, its examples; and what is generated is up to date."""

from __future__ import annotations

import json
import re
import runpy
import shlex
import shutil
from pathlib import Path

import jsonschema
import pytest
import yaml

from evenstep.cli.main import main
from evenstep.config import read_yaml

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
BLOCK = re.compile(r"^( *)```(\w+)([^\n]*)\n(.*?)^\1```", re.M | re.S)
RUN = {"python", "sh", "bash", "console", "yaml"}
PAGES = [p for p in [ROOT / "README.md", *sorted(DOCS.rglob("*.md"))] if p != DOCS / "reference" / "cli.md"]


def blocks(page: Path) -> list[tuple[str, str, str]]:
    """Language, title and text of every block of a page that can be run."""
    found = []
    for indent, language, rest, text in BLOCK.findall(page.read_text(encoding="utf-8")):
        if language in RUN:
            title = re.search(r'title="([^"]+)"', rest)
            lines = [line[len(indent) :] for line in text.splitlines()]
            found.append((language, title[1] if title else "", "\n".join(lines) + "\n"))
    return found


@pytest.mark.parametrize(
    "page",
    [
        pytest.param(p, marks=pytest.mark.slow if p.parent.name == "tutorial" else ())
        for p in PAGES
        if blocks(p)
    ],
    ids=lambda p: str(p.relative_to(ROOT)),
)
def test_every_block_of_a_page_runs_in_order(page, tmp_path, monkeypatch, capsys):
    """A block with a title is a file of that name; the others are run in one folder, one after the other."""
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {"__name__": "__docs__"}
    for language, title, text in blocks(page):
        if title:
            (tmp_path / title).write_text(text)
        elif language == "python":
            exec(compile(text, str(page), "exec"), names)
        elif language == "yaml":
            assert yaml.safe_load(text)["version"] == 1
        else:
            for line in text.replace("\\\n", " ").splitlines():
                words = shlex.split(line.removeprefix("$ "), comments=True)
                if words and words[0] == "evenstep":
                    assert main(words[1:]) == 0, f"{line}\n{capsys.readouterr().err}"


def test_generated_pages_are_what_the_code_says():
    pages = runpy.run_path(str(DOCS / "make_reference.py"))["pages"]()
    stale = [
        str(path)
        for path, text in pages.items()
        if not path.exists() or path.read_text(encoding="utf-8") != text
    ]
    assert not stale, f"run make reference: {stale}"


SETTINGS = [
    ("compare", "compare.yaml"), ("compare", "fleet.yaml"), ("compare-engine", "engine.yaml"), ("simulate", "simulate.yaml"),
]  # fmt: skip


def test_the_example_of_a_gateway_fits_its_schema_and_is_taken(capsys, monkeypatch):
    monkeypatch.chdir(ROOT / "examples")
    published = json.loads((DOCS / "reference" / "schemas" / "gateway.json").read_text())
    jsonschema.validate({"version": 1, **read_yaml("gateway.yaml").values}, published)
    assert main(["config", "print", "--config", "gateway.yaml"]) == 0
    assert "gateway.yaml line" in capsys.readouterr().out


@pytest.mark.parametrize(("schema", "example"), SETTINGS)
def test_an_example_of_settings_fits_its_schema_and_runs(schema, example, capsys, monkeypatch):
    monkeypatch.chdir(ROOT / "examples")
    published = json.loads((DOCS / "reference" / "schemas" / f"{schema}.json").read_text())
    jsonschema.validate({"version": 1, **read_yaml(example).values}, published)
    assert main([schema.partition("-")[0], "--config", example, "--format", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["version"] == 1


@pytest.mark.parametrize(
    "example", sorted((ROOT / "examples" / "workloads").glob("*.yaml")), ids=lambda p: p.name
)
def test_an_example_of_a_workload_fits_its_schema_and_runs(example, capsys):
    published = json.loads((DOCS / "reference" / "schemas" / "workload.json").read_text())
    jsonschema.validate({"version": 1, **read_yaml(example).values}, published)
    assert (
        main(
            ["compare", str(example), "--limit", "200", "--seeds", "1", "--policy", "jsq", "--format", "json"]
        )
        == 0
    )
    assert json.loads(capsys.readouterr().out)["policies"][0]["requests"] == 200


@pytest.mark.parametrize(
    "example", sorted((ROOT / "examples" / "sweeps").glob("*.yaml")), ids=lambda p: p.name
)
def test_an_example_of_a_sweep_fits_its_schema_and_runs(example, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    published = json.loads((DOCS / "reference" / "schemas" / "sweep.json").read_text())
    jsonschema.validate({"version": 1, **read_yaml(example).values}, published)
    assert main(["sweep", str(example), "--report", "sweep.html", "--format", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["rows"]
    assert (tmp_path / f"{example.stem}.parquet").exists() and (tmp_path / "sweep.html").exists()


@pytest.mark.parametrize("example", sorted((ROOT / "examples").glob("*.py")), ids=lambda p: p.name)
def test_an_example_program_runs(example, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    copy = tmp_path / example.name
    shutil.copy(example, copy)
    runpy.run_path(str(copy), run_name="__main__")
    assert capsys.readouterr().out
