"""What `--modules-run` sees of a module."""

from __future__ import annotations

import ast

import pytest
from tests.modules_run import Noting, modules, note_in


@pytest.mark.parametrize(
    ("text", "notes"),
    [
        ("def plain():\n    'Says.'\n    return 1", 1),
        ("class A:\n    @property\n    def b(self): return 1", 1),
        ("@part\ndef compiled(): return 1", 0),
        ("class A(Protocol):\n    def b(self): ...\n    def c(self):\n        'Says.'", 0),
        ("X = 1", 0),
    ],
)
def test_functions_that_stay_in_python_note_that_they_ran(text, notes):
    tree = ast.parse(text)
    assert note_in(tree) == notes
    assert ast.unparse(tree).count("ran()") == notes


def test_a_module_has_run_when_one_of_its_functions_was_called(tmp_path):
    path = tmp_path / "one.py"
    path.write_text("def f():\n    'Says.'\n    return 7\n")
    loader = Noting("one", str(path))
    found: dict[str, object] = {"__spec__": type("Spec", (), {"loader": loader})}
    exec(loader.get_code("one"), found)
    assert not loader.has_run
    assert found["f"]() == 7  # type: ignore[operator]
    assert found["f"].__doc__ == "Says."
    assert loader.has_run


def test_every_module_with_text_is_asked_for():
    assert {"evenstep", "evenstep.dispatch.core"} <= modules()
