"""Sees which modules of ``src`` the tests run, for ``pytest --modules-run``: a module that no test runs fails the session.

Each function that is not compiled notes, at its first statement, that its module ran. A module whose functions are all
compiled, or that has none, counts as run when it is imported. What a subprocess runs is not seen.
"""

from __future__ import annotations

import ast
import sys
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from pathlib import Path
from types import CodeType

SRC = Path(__file__).parents[1] / "src"
#: Decorators that leave a function in Python. Any other may hand it to the compiler, which could not read the note.
_PLAIN = {"property", "classmethod", "staticmethod", "cached_property", "contextmanager"}


class Noting(SourceFileLoader):
    """Loads a module whose functions note that it ran.

    Attributes:
        has_run: whether one of them was called, or there is none that could be.
    """

    has_run = False

    def get_code(self, fullname: str) -> CodeType:
        """Compile from the source each time: the files of ordinary imports stay as they are."""
        path = self.get_filename(fullname)
        tree = ast.parse(self.get_data(path), path)
        self.has_run = not note_in(tree)
        return compile(tree, path, "exec", dont_inherit=True)

    def ran(self) -> None:
        """Called by the module's functions."""
        self.has_run = True


class Finder:
    """Finds the modules of evenstep for `Noting`."""

    def find_spec(self, name: str, path: object = None, target: object = None) -> ModuleSpec | None:
        if name.partition(".")[0] != "evenstep":
            return None
        spec = PathFinder.find_spec(name, path)  # type: ignore[arg-type]
        if spec is not None and isinstance(spec.loader, SourceFileLoader):
            spec.loader = Noting(spec.loader.name, spec.loader.path)
        return spec


def note_in(tree: ast.AST) -> int:
    """Add the note to the functions below a node that stay in Python; returns their number."""
    count = 0
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            if not all(isinstance(one, ast.Name) and one.id in _PLAIN for one in node.decorator_list):
                continue
            if not _says_nothing(node):
                first = 1 if ast.get_docstring(node, clean=False) is not None else 0
                (note,) = ast.parse("__spec__.loader.ran()").body
                for part in ast.walk(note):
                    ast.copy_location(part, node.body[min(first, len(node.body) - 1)])
                node.body.insert(first, note)
                count += 1
        elif isinstance(node, ast.ClassDef | ast.If | ast.Try | ast.With):
            count += note_in(node)
    return count


def _says_nothing(node: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """Whether the body is a docstring, `...` or a `NotImplementedError`: a member of a protocol."""
    last = node.body[-1]
    is_constant = isinstance(last, ast.Expr) and isinstance(last.value, ast.Constant)
    return is_constant or (isinstance(last, ast.Raise) and "NotImplementedError" in ast.dump(last))


def install() -> None:
    """Load the modules of evenstep by `Noting` from now on."""
    if "evenstep" in sys.modules:
        raise RuntimeError("evenstep was imported before its modules could be seen")
    sys.meta_path.insert(0, Finder())


def run_here() -> set[str]:
    """The modules that ran in this process."""
    loaded = {name: getattr(getattr(module, "__spec__", None), "loader", None) for name, module in list(sys.modules.items())}
    return {name for name, loader in loaded.items() if isinstance(loader, Noting) and loader.has_run}


def modules() -> set[str]:
    """All modules of ``src``, but those that only mark a package, and ``__main__``, which is never imported by its name."""
    files = [path for path in SRC.rglob("*.py") if path.stat().st_size and path.stem != "__main__"]
    return {".".join(path.relative_to(SRC).with_suffix("").parts).removesuffix(".__init__") for path in files}
