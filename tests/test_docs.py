"""The documentation runs: its Python, its commands, its examples; and what is generated is up to date."""

from __future__ import annotations

import contextlib
import importlib
import json
import re
import runpy
import shlex
import shutil
import signal
import subprocess
import sys
import threading
import urllib.request
from pathlib import Path

import jsonschema
import pytest
import yaml

from evenstep import names
from evenstep.cli.main import main, parser_of
from evenstep.config.yaml_file import read_yaml
from evenstep.load.processes import free_ports

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
BLOCK = re.compile(r"^( *)```(\w+)([^\n]*)\n(.*?)^\1```", re.M | re.S)
RUN = {"python", "sh", "bash", "console", "yaml", "csv"}
PAGES = [p for p in [ROOT / "README.md", *sorted(DOCS.rglob("*.md"))] if p != DOCS / "reference" / "cli.md"]
#: Pages whose commands take seconds: `make test-all` runs them.
LONG = {
    "explanation/unequal-contexts.md",
    "how-to/find-the-largest-rate.md",
    "how-to/plan-a-fleet.md",
    "how-to/reproduce-a-paper.md",
    "how-to/write-your-own-policy.md",
    *(f"tutorial/{page.name}" for page in (DOCS / "tutorial").glob("*.md")),
}
#: Commands of half a minute, which a page of `LONG` runs: no other page runs them again.
LONG_COMMANDS = {"evenstep plan sample:azure-conv --rate 1000 --slo ttft=2s,tpot=50ms"}
#: Pages that need servers; they have a test of their own.
RECORDED = (DOCS / "how-to" / "from-log-to-comparison.md",)


def blocks(page: Path) -> list[tuple[str, str, str]]:
    """Language, title and text of every block of a page that can be run."""
    found = []
    for indent, language, rest, text in BLOCK.findall(page.read_text(encoding="utf-8")):
        if language in RUN:
            title = re.search(r'title="([^"]+)"', rest)
            lines = [line[len(indent) :] for line in text.splitlines()]
            found.append((language, title[1] if title else "", "\n".join(lines) + "\n"))
    return found


def is_long(page: Path) -> bool:
    return page.is_relative_to(DOCS) and page.relative_to(DOCS).as_posix() in LONG


def lines_of(text: str) -> list[str]:
    """The commands of a block, each on one line, without the prompt."""
    return [line.removeprefix("$ ") for line in text.replace("\\\n", " ").splitlines()]


@pytest.mark.parametrize(
    "page",
    [pytest.param(p, marks=pytest.mark.slow if is_long(p) else ()) for p in PAGES if blocks(p) and p not in RECORDED],
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
            for line in lines_of(text):
                words = shlex.split(line, comments=True)
                if words and words[0] == "evenstep" and (is_long(page) or line not in LONG_COMMANDS):
                    assert main(words[1:]) == 0, f"{line}\n{capsys.readouterr().err}"


def test_a_command_that_other_pages_leave_out_is_run_by_a_long_page():
    assert {line for p in PAGES if is_long(p) for *_, text in blocks(p) for line in lines_of(text)} >= LONG_COMMANDS


def commands_of(page: Path) -> list[list[str]]:
    """Words of every evenstep command in a block of a page, in blocks that are run and in those that are not."""
    text = page.read_text(encoding="utf-8").replace("\\\n", " ")
    blocks_of_any_kind = re.findall(r"^ *```[^\n]*\n(.*?)^ *```", text, re.M | re.S)
    lines = [line.strip().removeprefix("$ ") for block in blocks_of_any_kind for line in block.splitlines()]
    lines = [line.removeprefix(".venv/bin/") for line in lines if "..." not in line]
    return [shlex.split(line, comments=True)[1:] for line in lines if line.startswith("evenstep ")]


@pytest.mark.parametrize("page", [p for p in PAGES if commands_of(p)], ids=lambda p: str(p.relative_to(ROOT)))
def test_every_command_of_a_page_is_understood(page):
    for words in commands_of(page):
        args = parser_of(words[0]).parse_args(words[1:])
        room = "scheduling" if getattr(args, "engine", None) is not None or words[0] == "stability" else "routing"
        policies = getattr(args, "policies", None) or ()
        for policy in [
            one for one in policies if words[0] in ("compare", "stability") and ".py" not in one and one != "NAME"
        ]:
            names.build(room, {k: v for k, v in names.parse(policy).items() if not k.startswith("predictor")})


def is_ready(url: str) -> bool:
    with contextlib.suppress(OSError), urllib.request.urlopen(url, timeout=5) as answer:
        return answer.status == 200
    return False


@pytest.mark.slow
def test_the_page_on_recorded_traffic_runs_from_its_first_command_to_its_last(tmp_path, monkeypatch, capsys):
    """Its servers run as processes of their own, at free ports in place of the page's."""
    monkeypatch.chdir(tmp_path)
    page = DOCS / "how-to" / "from-log-to-comparison.md"
    text = page.read_text(encoding="utf-8")
    for port in ("8100", "8000"):
        text = text.replace(port, str(*free_ports(1)))
    emulate, serve, load = (
        shlex.split(block.splitlines()[0])[1:] for block in re.findall(r"^```text\n(.*?)^```", text, re.M | re.S)
    )
    start = [sys.executable, "-m", "evenstep"]
    more = ([], ["--admin-port", "0"])
    servers: list[subprocess.Popen[bytes]] = []
    try:
        for words, rest, place in zip((emulate, serve), more, ("health", "readyz"), strict=True):
            servers.append(subprocess.Popen([*start, *words, *rest], stdout=subprocess.DEVNULL))
            url = f"http://127.0.0.1:{words[words.index('--port') + 1]}/{place}"
            for _ in range(1200):
                if is_ready(url) or servers[-1].poll() is not None:
                    break
                threading.Event().wait(0.1)
            assert is_ready(url), url
        assert main(load) == 0
        servers[1].send_signal(signal.SIGINT)
        assert servers[1].wait(60) == 0
    finally:
        for server in servers:
            server.kill()
            server.wait()
    commands = [line for block in re.findall(r"^```sh\n(.*?)^```", text, re.M | re.S) for line in block.splitlines()]
    capsys.readouterr()
    said = []
    for line in commands:
        assert main(shlex.split(line)[1:]) == 0, line
        said.append(capsys.readouterr().out)
    replayed, changed, shown, compared, larger = said
    assert "every decision is the same" in replayed and "first difference" in changed
    assert json.loads(shown)["seen"]["workers"]
    assert "observed: jsq" in compared and "Error of the simulator (simulated jsq" in compared
    assert "From the log: 4 workers, 16 slots each" in compared and Path("comparison.html").exists()
    assert "Overridden: --workers" in larger and "SLO met" in larger


def test_the_map_of_the_house_names_every_room_and_every_folder_inside_one():
    source = ROOT / "src" / "evenstep"
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    found = [p for p in source.rglob("*") if p.suffix == ".py" or (p / "__init__.py").exists()]
    rooms = [p for p in found if p.parent == source and p.stem != "__init__"]
    folders = [p for p in found if p.parent.parent == source and p.is_dir()]
    missing = [str(p.relative_to(source)) for p in (*rooms, *folders) if f"`{p.stem}`" not in text]
    assert not missing, f"CONTRIBUTING.md does not name {missing}"


def test_names_of_the_package_on_the_page_on_python_exist():
    """`write_sweep` went, and the page still told to call it."""
    found = re.findall(r"`(evenstep\.[\w.]+)\.(\w+)\(", (DOCS / "reference" / "python.md").read_text())
    assert len(found) >= 3
    for module, name in found:
        assert callable(getattr(importlib.import_module(module), name, None)), f"{module}.{name}"


def test_generated_pages_are_what_the_code_says():
    pages = runpy.run_path(str(DOCS / "make_reference.py"))["pages"]()
    stale = [str(path) for path, text in pages.items() if not path.exists() or path.read_text(encoding="utf-8") != text]
    assert not stale, f"run make reference: {stale}"


def test_no_meaning_of_a_setting_of_the_gateway_is_cut_off():
    text = (DOCS / "reference" / "gateway.md").read_text(encoding="utf-8").partition("## Headers of a request")[0]
    rows = re.findall(r"^\| `[^`]+` \| [^|]*\| (.*) \|$", text, re.M)
    assert len(rows) > 100
    assert [row for row in rows if not row.endswith(".")] == []


SETTINGS = [
    ("compare", "compare.yaml"),
    ("compare", "fleet.yaml"),
    ("compare-engine", "engine.yaml"),
    ("simulate", "simulate.yaml"),
]


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


@pytest.mark.slow
@pytest.mark.parametrize("example", sorted((ROOT / "examples" / "workloads").glob("*.yaml")), ids=lambda p: p.name)
def test_an_example_of_a_workload_fits_its_schema_and_runs(example, capsys):
    published = json.loads((DOCS / "reference" / "schemas" / "workload.json").read_text())
    jsonschema.validate({"version": 1, **read_yaml(example).values}, published)
    assert main(["compare", str(example), "--limit", "200", "--seeds", "1", "--policy", "jsq", "--format", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["policies"][0]["requests"] == 200


@pytest.mark.slow
@pytest.mark.parametrize("example", sorted((ROOT / "examples" / "sweeps").glob("*.yaml")), ids=lambda p: p.name)
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
