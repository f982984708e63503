"""Where compiled kernels are kept, on machines on which little can be written."""

from __future__ import annotations

import importlib
import os
import shutil
import subprocess
import sys
from array import array
from pathlib import Path
from types import FunctionType

import numpy as np
import pytest

from evenstep import kernel_cache
from evenstep.kernel_cache import ROOT, Announcer, Place, fingerprint, place


@pytest.fixture
def machine(tmp_path, monkeypatch):
    """A machine on which nothing can be written but what a test names, and a user without a home."""
    free: set[Path] = set()
    real = kernel_cache._is_writable

    def is_writable(folder):
        return any(folder.is_relative_to(one) for one in free) and real(folder)

    for name in ("NUMBA_CACHE_DIR", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "nonexistent"))
    monkeypatch.setattr(kernel_cache, "_is_writable", is_writable)
    monkeypatch.setattr(kernel_cache, "_are_shipped", lambda: False)
    monkeypatch.setattr(kernel_cache.tempfile, "gettempdir", lambda: str(tmp_path / "no" / "tmp"))
    place.cache_clear()
    yield free
    place.cache_clear()


def test_kernels_are_beside_their_sources_where_these_can_be_written(machine):
    machine.add(ROOT)
    assert place() == Place(True) and place().said() == ""
    assert place().folder_of(ROOT / "sim" / "x_kernel.py") == ROOT / "sim" / "__pycache__"
    assert place().folder_of(Path("/home/me/mine_kernel.py")) is None  # numba has its own place for it


@pytest.mark.parametrize("variable", ["NUMBA_CACHE_DIR", "XDG_CACHE_HOME", "HOME"])
def test_else_they_are_in_the_folder_that_the_user_has(machine, tmp_path, monkeypatch, variable):
    machine.add(tmp_path)
    monkeypatch.setenv(variable, str(tmp_path / "mine"))
    found = place()
    assert not found.is_beside and found.folder is not None and found.folder.is_relative_to(tmp_path / "mine")
    assert found.folder.name == f"kernels-{fingerprint()}"
    assert found.said() == f"kept in {found.folder}"
    inside, other = found.folder_of(ROOT / "sim" / "a.py"), found.folder_of(tmp_path / "mine.py")
    assert inside == found.folder / "evenstep.sim" and other.parent == found.folder and other != inside


def test_the_folder_for_temporary_files_is_taken_only_where_nobody_else_can_write_to_it(machine, tmp_path, monkeypatch):
    machine.add(tmp_path / "shared")
    (tmp_path / "shared").mkdir()
    monkeypatch.setattr(kernel_cache.tempfile, "gettempdir", lambda: str(tmp_path / "shared"))
    mine = tmp_path / "shared" / f"evenstep-{os.getuid()}"
    assert place().folder.parent == mine and mine.stat().st_mode & 0o777 == 0o700
    place.cache_clear()
    mine.chmod(0o777)
    assert place() == Place(False)
    place.cache_clear()
    mine.rename(tmp_path / "theirs")
    mine.symlink_to(tmp_path / "theirs")
    assert place() == Place(False)


def test_with_nothing_that_can_be_written_nothing_is_kept_and_it_says_what_to_do(machine):
    assert place() == Place(False) and place().folder_of(ROOT / "sim" / "a.py") is None
    assert not place().has(ROOT / "compiled.py")
    assert "every start compiles; give XDG_CACHE_HOME" in place().said()


def test_a_source_has_kernels_when_their_index_is_not_older(tmp_path):
    elsewhere = Place(False, tmp_path)
    source = ROOT / "draws.py"
    assert not elsewhere.has(source)
    (tmp_path / "evenstep").mkdir()
    index = tmp_path / "evenstep" / "draws.uniform-7.py311.nbi"
    index.write_bytes(b"")
    os.utime(index, (1, 1))
    assert elsewhere.has(source)  # the folder is named after the sources' contents
    beside = Place(True)
    newest = max((path.stat().st_mtime for path in beside.folder_of(source).glob("draws.*.nbi")), default=0)
    assert beside.has(source) == (newest >= source.stat().st_mtime)


def test_kernels_next_to_sources_that_cannot_be_written_count_if_no_source_is_newer(tmp_path, monkeypatch):
    source, index = tmp_path / "sim" / "loop.py", tmp_path / "sim" / "__pycache__" / "loop.run-1.py311.nbi"
    index.parent.mkdir(parents=True)
    (tmp_path / "__pycache__").mkdir()
    monkeypatch.setattr(kernel_cache, "ROOT", tmp_path)
    assert not kernel_cache._are_shipped()
    for path, written in ((source, 1000), (index, 1000)):
        path.touch()
        os.utime(path, (written, written))
    Place(True).note("br-0")
    assert kernel_cache._are_shipped()
    where = Place(False, tmp_path / "mine", reads_beside=True)
    assert where.shipped_folder(source) == index.parent and where.shipped_folder(Path("/home/me/loop.py")) is None
    assert where.has(source) and where.is_noted("br-0") and not where.is_noted("jsq")
    assert not Place(False, tmp_path / "mine").has(source) and not Place(False, tmp_path / "mine").is_noted("br-0")
    os.utime(source, (1001, 1001))
    assert not kernel_cache._are_shipped()
    newer = index.stat().st_mtime + 1e6
    for path in (source, index):  # a newer version, of which only this kernel was compiled
        os.utime(path, (newer, newer))
    os.utime(Place(True)._note_of("br-0"), (newer - 1, newer - 1))
    assert kernel_cache._are_shipped() and not where.is_noted("br-0")


SHIPPED = """
import sys
from evenstep import kernel_cache
real = kernel_cache._is_writable
kernel_cache._is_writable = lambda folder: not any(folder.is_relative_to(one) for one in sys.argv[1:]) and real(folder)
from evenstep import draws
draws.uniform(7, 1, 3, 1)
print(sum(draws.uniform.stats.cache_hits.values()), sum(draws.uniform.stats.cache_misses.values()))
"""


@pytest.mark.slow
def test_an_image_keeps_its_kernels_where_it_may_only_be_read(tmp_path):
    image, home = tmp_path / "image" / "evenstep", tmp_path / "home"
    shutil.copytree(ROOT, image, ignore=shutil.ignore_patterns("__pycache__"))

    def counted(*read_only):
        environment = {"PYTHONPATH": str(image.parent), "XDG_CACHE_HOME": str(home), "PATH": os.environ["PATH"]}
        command = [sys.executable, "-c", SHIPPED, *map(str, read_only)]
        ran = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        return ran.stdout or ran.stderr

    assert counted() == "0 1\n"  # while the image is built
    assert counted("/") == "1 0\n"
    assert counted(image) == "1 0\n"
    assert not list(home.rglob("*.nbi"))
    (image / "config.py").touch()  # a newer version, on top of the former one's kernels
    assert counted(image) == "0 1\n" and list(home.rglob("draws.*.nbi"))


def test_that_kernels_are_compiled_is_said_once(machine):
    said = []
    announce = Announcer()
    announce()
    assert said == []
    announce.say = said.append
    announce()
    announce()
    assert len(said) == 1 and said[0].startswith("compiling kernels, up to a minute or two; no folder can be written")


KERNEL = """
import sys
from evenstep import kernel_cache
kernel_cache.announce.say = lambda line: print(line, file=sys.stderr, flush=True)
from evenstep import compiled
sys.path.insert(0, {folder!r})
print("before", file=sys.stderr, flush=True)
{limit}
from mine_kernel import three
print(three(1))
"""
LIMIT = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (0, resource.getrlimit(resource.RLIMIT_FSIZE)[1]))"


@pytest.mark.slow
def test_it_is_said_before_the_compiler_runs_and_not_when_the_kernel_is_kept_and_a_full_disk_ends_nothing(
    tmp_path,
):
    (tmp_path / "mine_kernel.py").write_text(
        "from evenstep import compiled\n\n\n@compiled.jit\ndef three(x):\n    return x + 2\n"
    )
    said = []
    for limit in (LIMIT, "", ""):
        code = KERNEL.format(folder=str(tmp_path), limit=limit)
        ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
        assert ended.stdout == "3\n", ended.stderr
        said.append(ended.stderr.splitlines())
    full, cold, warm = said
    assert full[0] == cold[0] == "before" and full[1].startswith("compiling kernels, up to a minute")
    assert len(full) == len(cold) == 2 and warm == ["before"]


@pytest.mark.parametrize(
    ("name", "before", "after"),
    [
        ("called", "return x + WEIGHT", "return x - WEIGHT"),
        ("called", "WEIGHT = 2", "WEIGHT = 3"),
        ("named", "return 2 * x", "return 4 * x"),
        ("packed/deep", "return 3 * x", "return 5 * x"),  # called as packed.deep.triple
        ("packed/deep", "STEP = np.int64(1)", "STEP = np.int64(2)"),
        ("tables", "[1.0, 2.0]", "[1.0, 3.0]"),  # an array; the next is one in a tuple
        ("tables", "[4, 5]", "[5, 4]"),
        ("tables", "FAST = 1", "FAST = 2"),
        ("tables", "first: int; last: int", "last: int; first: int"),
        ("kernel", "called(x)", "called(x) + 1"),
        ("other", "return 0", "return 1"),  # nothing calls it
    ],
)
def test_a_users_kernel_is_made_anew_when_what_it_calls_has_changed(tmp_path, monkeypatch, name, before, after):
    files = {
        "called": "from evenstep.compiled import part\nWEIGHT = 2\n@part\ndef called(x: int) -> int:\n    return x + WEIGHT\n",
        "named": "def double(x):\n    return 2 * x\n",
        "packed/__init__": "",
        "packed/deep": "import numpy as np\nSTEP = np.int64(1)\ndef triple(x):\n    return 3 * x\n",
        "tables": "import enum, typing, numpy as np\nTABLE = np.array([1.0, 2.0])\nBOTH = (1, np.array([4, 5]))\n"
        "class Mode(enum.Enum):\n    FAST = 1\nclass Pair(typing.NamedTuple):\n    first: int; last: int\n",
        "other": "def unused(x):\n    return 0\n",
        "kernel": "import named, packed.deep\nfrom called import called\nfrom tables import BOTH, Mode, Pair, TABLE\n\n"
        "def kernel(x):\n    def inner():\n        return packed.deep.triple(x) + TABLE[1] + packed.deep.STEP\n\n"
        "    return called(x) + named.double(x) + inner() + BOTH[1][0] + Pair(x, 1).first + (Mode.FAST is Mode.FAST)\n",
    }
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "packed").mkdir()
    found = []
    for changed in (None, None, name):
        for stem, text in files.items():
            (tmp_path / f"{stem}.py").write_text(text.replace(before, after) if stem == changed else text)
            module = stem.replace("/", ".").removesuffix(".__init__")
            monkeypatch.delitem(sys.modules, module, raising=False)
        importlib.invalidate_caches()
        found.append(kernel_cache.text_of(importlib.import_module("kernel").kernel))
    assert found[0] == found[1]
    assert (found[0] == found[2]) is (name == "other")


@pytest.mark.parametrize("name", ["load", "str"])
@pytest.mark.parametrize("module", [np, np.linalg])
@pytest.mark.filterwarnings("error")
def test_of_numpy_only_the_version_counts(monkeypatch, name, module):
    kernel = FunctionType(compile(f"module.norm(view.{name})", "rule", "eval"), {"module": module})
    before = kernel_cache.text_of(kernel)
    monkeypatch.setattr(np, "__version__", "0")
    assert kernel_cache.text_of(kernel) != before


def test_a_constant_that_numba_refuses_is_left_to_its_error():
    scope = {"TABLE": array("d", [1.0]), "VIEW": memoryview(b"1")}
    kernel = FunctionType(compile("TABLE[0] + VIEW[0]", "rule", "eval"), scope)
    assert kernel_cache.text_of(kernel)


def test_a_kernel_is_compiled_anew_when_a_module_of_another_room_changes_that_it_is_made_of(tmp_path):
    sources = {
        "compiled.py": "",
        "numba_internals.py": "",
        "far/limits.py": "MOST = 3\n",
        "far/step_kernel.py": "from evenstep.far.limits import MOST\n",
        "near/by/relay_kernel.py": "from evenstep.far.step_kernel import (\n    step,\n)\n",
        "near/by/other.py": "",
    }
    for name, text in sources.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        os.utime(path, (1000, 1000))
    index = tmp_path / "near" / "by" / "__pycache__" / "relay_kernel.nbi"
    index.parent.mkdir()
    for changed, stays in (("near/by/other.py", True), ("far/limits.py", False)):
        index.write_text("")
        os.utime(index, (2000, 2000))
        os.utime(tmp_path / changed, (3000, 3000))
        kernel_cache.drop_stale(tmp_path)
        assert index.exists() is stays
