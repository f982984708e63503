"""Counts the shape of the house: what in `src` is too long, too wide, too deep or goes in circles.

``python -m tests.house`` prints each figure with its ceiling; ``--all`` lists every offender. `test_house` fails where a
figure is above its ceiling. Ceilings may only fall: whoever lowers a figure lowers its ceiling in the same commit.
"""

from __future__ import annotations

import ast
import re
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from functools import cached_property
from pathlib import Path

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src" / "evenstep"

#: The most of each that there may be today. The goals: 10 wide and 12 long functions, 15 basic files, 60 skips, 8 kernel
#: twins, and none of the rest.
CEILINGS = {
    "functions of more than 8 parameters": 8,
    "functions of more than 60 lines": 7,
    "files with `pyright: basic`": 1,
    "lines with `fmt: skip`": 0,
    "files named *_layout.py": 0,
    "lines with `import *`": 0,
    "files named *_kernel.py": 1,
    "folders of more than 25 files": 0,
    "circles of files": 0,
    "classes with more than 2 ancestors": 0,
    "modules that nothing uses": 1,
}


class House:
    """All sources of the package, parsed once.

    Args:
        root: the package's folder.
    """

    def __init__(self, root: Path = SOURCE) -> None:
        files = sorted(root.rglob("*.py"))
        self.root, self.text = root, {file: file.read_text(encoding="utf-8") for file in files}
        self.nodes = {file: [*_counted(ast.parse(text))] for file, text in self.text.items()}
        self.file_of = {self.module(file): file for file in files}

    def module(self, file: Path) -> str:
        """The full name of the module in a file."""
        parts = file.relative_to(self.root.parent).with_suffix("").parts
        return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)

    def offenders(self) -> dict[str, list[str]]:
        """For each figure of `CEILINGS` what is counted."""
        return {
            "functions of more than 8 parameters": [*self._wide()],
            "functions of more than 60 lines": [*self._long()],
            "files with `pyright: basic`": self._lines("# pyright: " + "basic"),
            "lines with `fmt: skip`": self._lines("# fmt: " + "skip"),
            "files named *_layout.py": self._named("_layout.py"),
            "lines with `import *`": self._lines("import " + "*"),
            "files named *_kernel.py": self._named("_kernel.py"),
            "folders of more than 25 files": self._crowded(),
            "circles of files": [" ".join(circle) for circle in circles(self.imports)],
            "classes with more than 2 ancestors": self._tall(),
            "modules that nothing uses": self._unused(),
        }

    @cached_property
    def imports(self) -> dict[str, set[str]]:
        """For each module the modules of ours it imports, also those for type checking only."""
        return {module: set(self._imported(file)) - {module} for module, file in self.file_of.items()}

    def _imported(self, file: Path) -> Iterator[str]:
        for node in self.nodes[file]:
            if isinstance(node, ast.ImportFrom) and node.module and not node.level:
                found = [node.module, *(f"{node.module}.{name.name}" for name in node.names)]
            elif isinstance(node, ast.Import):
                found = [name.name for name in node.names]
            else:
                continue
            yield from (m for m in found if m in self.file_of and self.file_of[m].name != "__init__.py")

    def _functions(self) -> Iterator[tuple[str, ast.FunctionDef | ast.AsyncFunctionDef]]:
        for file, nodes in self.nodes.items():
            for node in nodes:
                if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                    yield f"{file.relative_to(self.root)}:{node.lineno} {node.name}", node

    def _wide(self) -> Iterator[str]:
        for place, function in self._functions():
            taken = function.args
            names = [a.arg for a in (*taken.posonlyargs, *taken.args, *taken.kwonlyargs)]
            count = len(names) - (names[:1] in (["self"], ["cls"]))
            if count > 8:
                yield f"{place} ({count})"

    def _long(self) -> Iterator[str]:
        for place, function in self._functions():
            count = (function.end_lineno or function.lineno) - function.lineno + 1
            if count > 60:
                yield f"{place} ({count})"

    def _lines(self, text: str) -> list[str]:
        return [
            f"{file.relative_to(self.root)}:{number}"
            for file, body in self.text.items()
            for number, line in enumerate(body.splitlines(), 1)
            if text in line
        ]

    def _named(self, end: str) -> list[str]:
        return [str(file.relative_to(self.root)) for file in self.text if file.name.endswith(end)]

    def _crowded(self) -> list[str]:
        found = Counter(file.parent for file in self.text if file.name != "__init__.py")
        return [f"{folder.relative_to(self.root)} ({count})" for folder, count in found.items() if count > 25]

    def _tall(self) -> list[str]:
        """Classes with a line of more than two ancestors of ours."""
        bases: dict[str, list[str]] = {}
        for nodes in self.nodes.values():
            for node in nodes:
                if isinstance(node, ast.ClassDef):
                    bases.setdefault(node.name, [ast.unparse(base).partition("[")[0] for base in node.bases])

        def depth(name: str, below: frozenset[str] = frozenset()) -> int:
            above = [base for base in bases[name] if base in bases and base not in below | {name}]
            return max((1 + depth(base, below | {name}) for base in above), default=0)

        return [f"{name} ({depth(name)})" for name in sorted(bases) if depth(name) > 2]

    def _unused(self) -> list[str]:
        """Modules that no other module imports or names in a text or a template, and that are found by no name."""
        from evenstep import names

        imported = set[str]().union(*self.imports.values())
        templates = [file.read_text(encoding="utf-8") for file in self.root.rglob("*.py.txt")]
        named = set(re.findall(r"evenstep(?:\.\w+)+", " ".join([*self.text.values(), *templates, _project()])))
        members = {
            file.stem for room, word in names.BINDINGS.items() for file in names._files(room) if names._binds(file, word)
        }
        return [
            str(file.relative_to(self.root))
            for module, file in self.file_of.items()
            if file.name not in {"__init__.py", "__main__.py"}
            and module not in imported | named
            and file.stem.removesuffix("_kernel") not in members
        ]


def _counted(tree: ast.AST) -> Iterator[ast.AST]:
    """Every function, class and import below a node. No expression holds one: the many nodes of those are not looked at."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.stmt | ast.excepthandler | ast.match_case):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Import | ast.ImportFrom):
                yield node
            yield from _counted(node)


def _project() -> str:
    return (ROOT / "pyproject.toml").read_text(encoding="utf-8")


def circles(edges: Mapping[str, set[str]]) -> list[list[str]]:
    """Groups of modules that import each other, directly or through others (Tarjan's algorithm)."""
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    path: list[str] = []
    found: list[list[str]] = []

    def visit(module: str) -> None:
        index[module] = low[module] = len(index)
        path.append(module)
        for other in sorted(edges[module]):
            if other not in index:
                visit(other)
                low[module] = min(low[module], low[other])
            elif other in path:
                low[module] = min(low[module], index[other])
        if low[module] == index[module]:
            place = path.index(module)
            found.append(sorted(path[place:]))
            del path[place:]

    for module in edges:
        if module not in index:
            visit(module)
    return [circle for circle in found if len(circle) > 1]


def main() -> None:
    found = House().offenders()
    for name, offenders in found.items():
        print(f"{name:<40} {len(offenders):>5}  at most {CEILINGS[name]}")
    if "--all" in sys.argv:
        for name, offenders in found.items():
            print(f"\n{name}:", *offenders, sep="\n  ")


if __name__ == "__main__":
    main()
