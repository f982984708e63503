"""Compiling for the first start happens beside the gateway."""

from __future__ import annotations

import asyncio
import mmap
import sys
import threading
from types import SimpleNamespace

import pytest
from tests.gateway.running import until

from evenstep import compiled
from evenstep.errors import InputError, PolicyError
from evenstep.gateway.operate import compiling


def test_a_cold_start_compiles_in_a_process_of_its_own_and_the_loop_goes_on(monkeypatch, tmp_path):
    made, said = tmp_path / "made", list[str]()
    monkeypatch.setattr(compiling._log, "info", said.append)
    monkeypatch.setattr(compiling, "is_compiled", lambda policy, predictor: False)
    monkeypatch.setattr(compiling, "_is_on_disk", lambda policy: False)
    monkeypatch.setattr(compiling, "COMPILE", f"import sys; open({str(made)!r}, 'w').write(' '.join(sys.argv[1:]))")
    asyncio.run(compiling.compile_and_warm(lambda: ("jsq", "bounded")))
    assert made.read_text() == "jsq bounded"
    assert said == ["compiling what decisions need, up to a minute"]  # true of a reloaded policy, too


def test_a_start_that_is_given_up_leaves_no_process_behind(monkeypatch):
    monkeypatch.setattr(compiling, "is_compiled", lambda policy, predictor: False)
    monkeypatch.setattr(compiling, "_is_on_disk", lambda policy: False)
    monkeypatch.setattr(compiling, "COMPILE", "import time; time.sleep(100)")

    async def story():
        begun = []
        start = asyncio.create_subprocess_exec

        async def noted(*words, **options):
            begun.append(await start(*words, **options))
            return begun[0]

        monkeypatch.setattr(asyncio, "create_subprocess_exec", noted)
        task = asyncio.create_task(compiling.compile_and_warm(lambda: ("jsq", "")))
        await until(lambda: begun)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert await begun[0].wait() != 0

    asyncio.run(story())


def test_a_policy_that_is_none_is_told():
    with pytest.raises(InputError, match="jsk"):
        asyncio.run(compiling.compile_and_warm(lambda: ("jsk", "")))


@pytest.fixture
def plain_first(monkeypatch):
    """A process that began in plain Python; the rules that were compiled and loaded, and a list of rules that cannot be."""
    made, bad = [], []

    async def compiled_elsewhere(*rules):
        await asyncio.sleep(0)

    def load(*rules):
        made.append(rules)
        if rules in bad:
            raise ValueError("no such type")

    monkeypatch.setattr(compiling, "_compile_elsewhere", compiled_elsewhere)
    monkeypatch.setattr(compiling, "_load", load)
    monkeypatch.setattr(compiling.late, "change", compiling.late.Change())
    monkeypatch.setattr(compiling, "_LOOK_S", 0.0)

    def change_over():
        compiling.late.change.is_compiled = True

    monkeypatch.setattr(compiling.late, "change_over", change_over)
    return made, bad


def test_rules_that_a_reload_brings_meanwhile_are_compiled_before_the_process_changes_over(plain_first):
    made, _ = plain_first
    now = [("jsq", ""), ("br-0", "")]
    asyncio.run(compiling.compile_and_warm(lambda: now.pop(0) if len(now) > 1 else now[0]))
    assert made == [("jsq", ""), ("br-0", "")] and not compiling.begins_plain()


def test_reloaded_rules_that_cannot_be_compiled_leave_plain_python_until_others_come(plain_first, monkeypatch, caplog):
    monkeypatch.setattr(compiling, "_LOOK_S", 0.001)
    made, bad = plain_first
    bad.append(("bad", ""))
    asked, others = [], []

    def rules():
        asked.append(None)
        assert len(asked) < 1000, "the loop does not go on"
        return others[0] if others else ("bad", "") if made else ("jsq", "")

    async def story():
        task = asyncio.create_task(compiling.compile_and_warm(rules))
        await until(lambda: len(asked) > 5)
        assert made[-1] == ("bad", "") and compiling.begins_plain()
        others.append(("br-0", ""))
        await task

    asyncio.run(story())
    assert made == [("jsq", ""), ("bad", ""), ("br-0", "")] and not compiling.begins_plain()
    assert "plain Python decides until another is set" in caplog.text


def test_rules_of_the_start_that_cannot_be_compiled_end_it(plain_first):
    plain_first[1].append(("jsq", ""))
    with pytest.raises(ValueError, match="no such type"):
        asyncio.run(compiling.compile_and_warm(lambda: ("jsq", "")))


def test_rules_that_exit_python_end_the_start(plain_first, monkeypatch):
    monkeypatch.setattr(compiling, "_load", lambda *rules: sys.exit(3))
    with pytest.raises(PolicyError, match="exits Python with 3"):
        asyncio.run(compiling.compile_and_warm(lambda: ("jsq", "")))


def test_a_start_that_is_given_up_lets_its_thread_end_as_it_would(monkeypatch):
    begun, goes_on, failed = threading.Event(), threading.Event(), []
    monkeypatch.setattr(threading, "excepthook", failed.append)

    def loads(*rules):
        begun.set()
        goes_on.wait(10)

    async def story():
        task = asyncio.create_task(compiling._in_thread(loads, "jsq", ""))
        await until(begun.is_set)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(story())
    (thread,) = [one for one in threading.enumerate() if one.name == "evenstep-warming"]
    goes_on.set()
    thread.join(10)
    assert not failed


@pytest.mark.skipif(compiled.numba is None, reason="there are no kernels")
@pytest.mark.parametrize("missing", ["", "routing/policies/jsq.py", "dispatch/rounds/slots.py"])
def test_nothing_is_compiled_where_every_kernel_is_on_disk(missing, monkeypatch):
    begun = []

    async def elsewhere(*rules):
        begun.append(rules)

    place = SimpleNamespace(has=lambda file: not missing or not str(file).endswith(missing))
    monkeypatch.setattr(compiling.kernel_cache, "place", lambda: place)
    monkeypatch.setattr(compiling, "is_compiled", lambda policy, predictor: False)
    monkeypatch.setattr(compiling, "_compile_elsewhere", elsewhere)
    asyncio.run(compiling.compile_beside("jsq", ""))
    assert begun == ([("jsq", "")] if missing else [])


@pytest.fixture
def heard(monkeypatch):
    """What compiles, loads, notes and unloads, in the order in which it is called."""
    names = []
    for name in ("warm_quick", "warm", "note_compiled", "unload_compiler"):
        monkeypatch.setattr(compiling, name, lambda *rules, name=name: names.append(name))
    return names


@pytest.mark.skipif(compiled.numba is None, reason="there are no kernels")
@pytest.mark.parametrize("is_plain", [False, True])
def test_a_reloaded_policy_is_loaded_and_noted_only_where_compiled_code_decides(is_plain, heard, monkeypatch):
    monkeypatch.setattr(compiling, "begins_plain", lambda: is_plain)
    compiling.build_or_warm("jsq", "")
    assert heard == ([] if is_plain else ["warm", "note_compiled"])
    if is_plain:
        with pytest.raises(InputError, match="jsk"):
            compiling.build_or_warm("jsk", "")


@pytest.mark.skipif(compiled.numba is None, reason="there are no kernels")
def test_the_compiler_leaves_memory_once_all_kernels_are_loaded_and_noted(heard):
    compiling._load("jsq", "")
    assert heard[-2:] == ["note_compiled", "unload_compiler"] and sorted(heard[:-2]) == ["warm", "warm_quick"]


def test_without_numba_nothing_is_loaded_and_a_wrong_policy_is_told(heard, monkeypatch):
    monkeypatch.setattr(compiled, "numba", None)
    compiling._load("jsq", "")
    compiling.build_or_warm("jsq", "")
    assert heard == ["warm"], "it builds a dispatcher, and has nothing to note"
    with pytest.raises(InputError, match="jsk"):
        compiling._load("jsk", "")


@pytest.mark.skipif(not hasattr(mmap, "MADV_DONTNEED"), reason="this system has no such advice")
@pytest.mark.parametrize(("refused", "shed"), [((), 0x3000), ((0x1000,), 0x1000)])
def test_only_code_of_the_compiler_is_released(refused, shed, monkeypatch, tmp_path):
    maps, advised = tmp_path / "maps", []
    rest = "00000000 08:01 1"
    maps.write_text(
        f"1000-3000 r-xp {rest} /lib/llvmlite/libllvmlite.so\n3000-4000 rw-p {rest} /lib/llvmlite/libllvmlite.so\n"
        f"4000-5000 r-xp {rest} /lib/libc.so\n5000-6000 r-xp {rest} /a folder/llvmlite/libllvmlite.so\n6000-7000 r-xp 0 0:0 0\n"
    )

    def madvise(begin, size, advice):
        advised.append((begin, size, advice))
        return -1 if begin in refused else 0

    monkeypatch.setattr(compiling, "_MAPS", maps)
    monkeypatch.setattr(compiling.ctypes, "CDLL", lambda name: SimpleNamespace(madvise=madvise))
    assert compiling.unload_compiler() == shed
    assert advised == [(0x1000, 0x2000, mmap.MADV_DONTNEED), (0x5000, 0x1000, mmap.MADV_DONTNEED)]
    maps.unlink()
    assert compiling.unload_compiler() == 0
