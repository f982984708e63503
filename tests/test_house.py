"""The house: its shape, a line in the docs for every name, a place for every room."""

from __future__ import annotations

import ast
import re
import subprocess
import tomllib
from pathlib import Path

import pytest
from tests.house import CEILINGS, House, circles

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


@pytest.fixture(scope="module")
def offenders() -> dict[str, list[str]]:
    return House().offenders()


@pytest.mark.parametrize(("figure", "most"), CEILINGS.items())
def test_no_figure_of_the_house_rises(offenders, figure, most):
    found = offenders[figure]
    assert len(found) <= most, f"{figure}: {len(found)}, at most {most}: {found}"


def test_circles_are_found_of_any_length():
    edges = {"a": {"b"}, "b": {"c"}, "c": {"a", "d"}, "d": {"e"}, "e": {"d"}, "f": {"a"}}
    assert sorted(circles(edges)) == [["a", "b", "c"], ["d", "e"]]


def test_a_wide_or_long_function_and_a_tall_class_are_counted(tmp_path):
    names = ", ".join(f"a{n}" for n in range(9))
    lines = "\n".join("    x = 1" for _ in range(60))
    (tmp_path / "one.py").write_text(
        f"class A:\n  def few(self, {names[:-4]}): ...\nclass B(A): ...\nclass C(B): ...\nclass D(C): ...\n"
        f"def wide({names}): ...\ndef long():\n{lines}\n"
    )
    found = House(tmp_path).offenders()
    assert [len(found[name]) for name in CEILINGS if name.startswith(("functions", "classes"))] == [1, 1, 1]


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
    how = {"cli": " Run make reference.", "experiments": " Add rows to papers.yaml; then make papers ONLY=<name>."}
    assert not missing, f"docs/reference/{page} has no line for {missing}.{how.get(room, '')}"


def test_every_room_is_listed_in_the_import_contract():
    layers = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"][0]["layers"]
    listed = {word for layer in layers for word in re.split(r"[|:\s]+", layer)}
    rooms = {p.name for p in SOURCE.iterdir() if p.is_dir() and p.name != "__pycache__"}
    assert rooms <= listed, rooms - listed


def test_only_two_files_import_numba():
    importing = [str(m) for m in MODULES if re.search(r"^\s*(import|from) numba", (SOURCE / m).read_text(), re.M)]
    assert importing == ["compiled.py", "numba_internals.py"]


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
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=False).stdout
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
    wanted = project["project"]["dependencies"] + [line for group in groups for line in group if isinstance(line, str)]
    locked = {re.split(r"==", line)[0] for line in (ROOT / "requirements" / "dev.lock").read_text().splitlines()}
    missing = {re.split(r"[<>=\[ ]", line)[0].lower() for line in wanted} - locked
    assert not missing, f"run make lock: {missing}"


def writes_of(tree: ast.AST, column: str) -> list[int]:
    """Lines that write into a column of a table, by its field's name or by a name or attribute that stands for it."""
    assigned: list[tuple[int, ast.expr, ast.expr | None]] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign):
            for target in node.targets:
                several = isinstance(target, ast.Tuple) and isinstance(node.value, ast.Tuple)
                pairs = zip(target.elts, node.value.elts, strict=False) if several else [(target, node.value)]
                assigned += [(node.lineno, *pair) for pair in pairs]
        elif isinstance(node, ast.AugAssign | ast.AnnAssign):
            assigned.append((node.lineno, node.target, node.value))
    names = {column}
    while more := {_name_of(to) for _, to, value in assigned if _name_of(value) in names} - names - {None}:
        names |= more
    return [line for line, to, _ in assigned if isinstance(to, ast.Subscript) and _name_of(to.value) in names]


def _name_of(node: ast.expr | None) -> str | None:
    """The last name of ``a.b.name`` or ``name``; None for anything else."""
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else None


def test_only_the_table_of_transitions_changes_the_state_of_a_request():
    found = {
        path.name: lines
        for path in sorted((SOURCE / "dispatch").rglob("*.py"))
        if (
            lines := [line for column in ("state", "ints") for line in writes_of(ast.parse(path.read_text("utf-8")), column)]
        )
    }
    assert found.keys() == {"rows.py"}, f"lines that write the state of a request: {found}"


@pytest.mark.parametrize(
    "text",
    [
        "rows.at.state[row] = 3",
        "rows.state[row] = 3",
        "at.request[row], at.state[row] = 1, 2",
        "states = rows.at.state\nstates[row] = 2",
        "a, states = at.worker, at.state\nstates[row] += 1",
        "self._states = self.at.state\nstates = self._states\nstates[row] = 2",
    ],
)
def test_a_write_of_the_state_of_a_request_is_found(text):
    assert writes_of(ast.parse(text), "state")
    assert not writes_of(ast.parse(text.replace("state", "leg")), "state")
