"""One SHA-256 over all inputs of a sweep's run; two runs share it if and only if their inputs are equal.

Inputs are requests, fleet, step-time and power laws, objective, seed, and policy and predictor with all their options. The
sources of evenstep that decide results count, too, as do those of classes outside it (`content`), and the versions of
evenstep and NumPy. Text that names a file stands for the file's content.
"""

from __future__ import annotations

import ast
import dataclasses
import hashlib
import importlib.util
import os
import sys
import sysconfig
import uuid
from collections.abc import Mapping
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any, cast

import numpy as np
import orjson

import evenstep
from evenstep.experiments.contenders import Contender
from evenstep.experiments.jobs import Plan
from evenstep.names import USER_MODULE

#: Packages and files of evenstep whose sources affect the result of a run.
_DECIDING = (
    *(f"{room}/**/*.py" for room in ("routing", "predict", "cost", "sim", "measure")),
    "compiled.py",
    "request.py",
    "streams.py",
    "draws.py",
    "experiments/jobs.py",
    "experiments/sweep/task.py",
)


_INSTALLED = {"site-packages", "dist-packages"}
_STDLIB = sysconfig.get_path("stdlib")


def key_of(plan: Plan, asked: Contender, trace: str, index: int) -> str:
    """The key of one run: SHA-256 in hex. Policy and predictor are built if this process has not done so.

    `trace`, the SHA-256 of the replicate's requests (`jobs.fingerprint`), stands for the plan's source. `index` is the
    replicate; the plan's seed plus `index` is the run's seed.
    """
    parts = {
        "evenstep": evenstep.__version__,
        "numpy": np.__version__,
        "code": code_digest(),
        "trace": trace,
        "cluster": content(plan.cluster),
        "step_time": content(plan.step_time),
        "power": content(plan.power),
        "slo": content(plan.slo),
        "contender": _contender(asked),
        "seed": plan.seed + index,
    }
    return hashlib.sha256(orjson.dumps(parts, option=orjson.OPT_SORT_KEYS)).hexdigest()


_contenders: dict[str, Any] = {}
_unwritten: dict[type[Any], str] = {}


def _contender(asked: Contender) -> Any:
    """Policy and predictor as JSON; built once in a process, since building may read a file, and again if a file changes."""
    known = repr([(spec, _changed(spec)) for spec in (asked.policy, asked.predictor)])
    if known not in _contenders:
        policy, predictor = asked.build()
        _contenders[known] = [content(policy, asked.policy), content(predictor, asked.predictor)]
    return _contenders[known]


def _changed(spec: object) -> list[int]:
    """Times of change, in ns, of the files that the options of a spec name, as ``steps.csv`` and ``mine.py:Thing`` do."""
    texts = [str(value) for value in spec.values()] if isinstance(spec, Mapping) else []
    files = [path for text in texts for path in (Path(text), Path(text.rpartition(":")[0])) if _is_file(path)]
    return [path.stat().st_mtime_ns for path in files]


@cache
def code_digest() -> str:
    """SHA-256, in hex, over evenstep's own sources that decide results; read once in a process."""
    root = Path(evenstep.__file__).parent
    return _files_digest(tuple(path for pattern in _DECIDING for path in sorted(root.glob(pattern))), root)


def content(value: Any, options: object = None) -> Any:
    """A JSON form of a value, for the key of a run.

    A float is written in hex, an array as type, shape and SHA-256. Text that names a file becomes the SHA-256 of its
    content. An object becomes its class, its `init` fields (else `options`), and the SHA-256 of its source if it is not
    evenstep's.

    Args:
        value: settings, laws, policies, predictors and their parts.
        options: the options that made an object that is not a dataclass; they stand for its state.
    """
    if value is None or isinstance(value, bool | int):
        return value
    if isinstance(value, float):
        return value.hex()
    if isinstance(value, str | Path):
        return _text(str(value))
    if isinstance(value, np.ndarray):
        array = cast("np.ndarray[Any, Any]", value)
        return [str(array.dtype), list(array.shape), hashlib.sha256(array.tobytes()).hexdigest()]
    if isinstance(value, Mapping):
        found = cast("Mapping[Any, Any]", value)
        return {str(key): content(found[key]) for key in sorted(found, key=str)}
    if isinstance(value, list | tuple):
        return [content(item) for item in cast("list[Any]", value)]
    kind: type[Any] = cast("type[Any]", type(value))
    home = "" if kind.__module__.startswith(USER_MODULE) else f"{kind.__module__}."  # a moved file keeps its cached runs
    named = {"class": f"{home}{kind.__qualname__}", "code": _foreign_code(kind)}
    if dataclasses.is_dataclass(value):
        fields = [f for f in dataclasses.fields(value) if f.init]
        return named | {"fields": {f.name: content(getattr(value, f.name)) for f in fields}}
    return named | {"options": content(options) if isinstance(options, Mapping) else None}


def _text(text: str) -> Any:
    """The text itself, or the SHA-256 of the file that it names. Of a bare word, which may mean no file, both."""
    path = Path(text)
    with suppress(OSError, ValueError):
        word = {} if path.suffix or path.name != text else {"word": text}
        return {"file": hashlib.sha256(path.read_bytes()).hexdigest(), **word}
    return text


def _is_file(path: Path) -> bool:
    with suppress(OSError, ValueError):
        return path.is_file()
    return False


def _foreign_code(kind: type[Any]) -> str:
    """SHA-256 over a class's source: its file and the modules of the user's that it imports, or its whole package.

    Only a user's file is loaded again after it has changed (`names.find`), so all others are read once in a process. Empty
    for a class of evenstep. A class without a file, as from a prompt, gets a text that no other class and no other process
    has.
    """
    if kind.__module__.startswith("evenstep."):
        return ""
    home = getattr(sys.modules.get(kind.__module__), "__file__", None)
    if home is None or not _is_file(Path(home)):
        return _unwritten.setdefault(kind, uuid.uuid4().hex)
    path = Path(home)
    return _source_digest(path, kind.__module__, path.stat().st_mtime_ns if kind.__module__.startswith(USER_MODULE) else 0)


@cache
def _source_digest(file: Path, module: str, changed_ns: int) -> str:
    if "." in module:
        folders = [Path(folder) for folder in sys.modules[module.partition(".")[0]].__path__]
        return "".join(_files_digest(tuple(sorted(folder.rglob("*.py"))), folder) for folder in folders)
    kernel = file.with_name(f"{file.stem}_kernel.py")
    own = (file, kernel) if kernel.exists() else (file,)
    is_installed = _INSTALLED & set(file.parts)
    return _files_digest(own if is_installed else _with_imports(*own), file.parent, file if changed_ns else None)


def _with_imports(*files: Path) -> tuple[Path, ...]:
    """Python files, and all modules and packages that they import, directly or not, unless installed; sorted by place."""
    root, found, left = files[0].parent, set[Path](), [*files]
    while left:
        file = left.pop()
        if file in found:
            continue
        found.add(file)
        tree = ast.Module([], [])
        with suppress(SyntaxError, ValueError):  # a file beside it that nothing imports may be no Python of today
            tree = ast.parse(file.read_bytes())
        for node in ast.walk(tree):
            names = [one.name for one in node.names] if isinstance(node, ast.Import) else []
            names += [node.module] if isinstance(node, ast.ImportFrom) and node.module else []
            for name in {name.partition(".")[0] for name in names}:
                beside = [path for at in {file.parent, root} for path in (at / f"{name}.py", *(at / name).rglob("*.py"))]
                left += [path for path in (*beside, *_of_path(name)) if path.is_file() and os.access(path, os.R_OK)]
    return tuple(sorted(found, key=lambda path: (_place(path, root), path)))


@cache
def _of_path(name: str) -> list[Path]:
    """The sources of a module or package of the user's that Python finds by this name; [] for an installed one."""
    try:
        spec = importlib.util.find_spec(name)
    except (ImportError, ValueError):
        return []
    if spec is None or name == "evenstep":
        return []
    folders = spec.submodule_search_locations
    places = [Path(place) for place in (folders or [spec.origin or ""])]
    own = [place for place in places if not (_INSTALLED & set(place.parts) or place.is_relative_to(_STDLIB))]
    return [file for place in own for file in (place.rglob("*.py") if folders else [place])]


def _files_digest(files: tuple[Path, ...], root: Path, anew: Path | None = None) -> str:
    """SHA-256, in hex, over the places (`_place`) and contents of files; only `anew` is read again in a process."""
    found = hashlib.sha256()
    for path in files:
        found.update(f"{_place(path, root).as_posix()}\0".encode())
        found.update((_digest.__wrapped__ if path == anew else _digest)(path))
    return found.hexdigest()


def _place(path: Path, root: Path) -> Path:
    """The path relative to the folder `root`, or its name outside it; it stays the same if the folders are moved."""
    return path.relative_to(root) if path.is_relative_to(root) else Path(path.name)


@cache
def _digest(path: Path) -> bytes:
    """SHA-256 of a file as it was at the first call; a later change does not count, since the process has loaded it."""
    return hashlib.sha256(path.read_bytes()).digest()
