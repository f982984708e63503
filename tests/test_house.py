"""The house: every module has its test, every name its line in the docs, every room its place."""

from __future__ import annotations

import re
import subprocess
import tomllib
from pathlib import Path

import pytest

from evenstep import names

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src" / "evenstep"
MODULES = sorted(p.relative_to(SOURCE) for p in SOURCE.rglob("*.py") if p.name != "__init__.py")
PAGES = {
    "routing": "routing.md",
    "scheduling": "scheduling.md",
    "batch": "laws.md",
    "predict": "predictors.md",
    "workload": "traces.md",
    "cost": "laws.md",
    "cli": "cli.md",
    "experiments": "papers.md",
    "engines": "engines.md",
}


def homes(module: Path) -> list[Path]:
    """Where a module's tests may be: its own file, or that of the plain module it is a part, kernel or reference of."""
    stem = module.stem.lstrip("_")
    stems = [stem]
    if stem != module.stem or stem.endswith(("_kernel", "_reference")):
        words = stem.split("_")[:-1]
        stems += ["_".join(words[:n]) for n in range(len(words), 0, -1)]
    return [ROOT / "tests" / module.parent / f"test_{name}.py" for name in stems]


def test_every_module_has_a_test_file():
    missing = [str(module) for module in MODULES if not any(path.exists() for path in homes(module))]
    assert not missing, f"without a test file: {missing}"


def test_every_module_says_what_it_is():
    text = {str(module): (SOURCE / module).read_text(encoding="utf-8") for module in MODULES}
    silent = [name for name, body in text.items() if not re.match(r'(#[^\n]*\n|\s)*r?"""', body)]
    assert not silent, f"no docstring at the top: {silent}"


@pytest.mark.parametrize(("room", "page"), PAGES.items())
def test_every_name_has_a_line_in_the_docs(room, page):
    text = (ROOT / "docs" / "reference" / page).read_text(encoding="utf-8")
    missing = [
        name
        for name in names.members(room)
        if f"`{name}`" not in text and f"evenstep {name}" not in text and f"reproduce {name}`" not in text
    ]
    assert not missing, f"docs/reference/{page} has no line for {missing}"


def test_every_room_is_listed_in_the_import_contract():
    layers = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"][0][
        "layers"
    ]
    listed = {word for layer in layers for word in re.split(r"[|:\s]+", layer)}
    rooms = {p.name for p in SOURCE.iterdir() if p.is_dir() and p.name != "__pycache__"}
    assert rooms <= listed, rooms - listed


def test_only_one_file_imports_numba():
    importing = [
        str(m) for m in MODULES if re.search(r"^\s*(import|from) numba", (SOURCE / m).read_text(), re.M)
    ]
    assert importing == ["compiled.py"]


def test_every_dependency_has_a_reason_in_the_docs():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    wanted = [re.split(r"[<>=\[ ]", line)[0] for line in project["dependencies"]]
    reasons = (ROOT / "docs" / "explanation" / "dependencies.md").read_text(encoding="utf-8")
    assert [name for name in wanted if f"| {name} |" not in reasons] == []


def test_everything_in_the_navigation_exists_and_every_page_is_in_it():
    text = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    listed = set(re.findall(r"([\w./-]+\.md)", text))
    there = {str(p.relative_to(ROOT / "docs")) for p in (ROOT / "docs").rglob("*.md")}
    assert listed == there


def test_no_tracked_file_names_the_folder_this_checkout_lies_in():
    listed = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=False
    ).stdout
    found = []
    for name in filter(None, listed.split("\0")):
        path = ROOT / name
        if path.suffix in {".py", ".md", ".toml", ".yml", ".yaml", ".json", ".css", ""} and path.is_file():
            text = path.read_text(encoding="utf-8", errors="replace")
            found += [name] if f"{ROOT}/" in text else []
    assert found == []


def test_the_lock_file_covers_every_requirement():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    groups = project["dependency-groups"].values()
    wanted = project["project"]["dependencies"] + [
        line for group in groups for line in group if isinstance(line, str)
    ]
    locked = {
        re.split(r"==", line)[0] for line in (ROOT / "requirements" / "dev.lock").read_text().splitlines()
    }
    missing = {re.split(r"[<>=\[ ]", line)[0].lower() for line in wanted} - locked
    assert not missing, f"run make lock: {missing}"
