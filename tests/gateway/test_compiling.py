"""Compiling for the first start happens beside the gateway."""

from __future__ import annotations

import asyncio
import sys

import pytest

from evenstep import compiled
from evenstep.errors import InputError
from evenstep.gateway import compiling


def test_a_cold_start_compiles_in_a_process_of_its_own_and_the_loop_goes_on(monkeypatch, tmp_path):
    made = tmp_path / "made"
    monkeypatch.setattr(compiling, "is_compiled", lambda policy: False)
    monkeypatch.setattr(
        compiling, "_CODE", f"import sys; open({str(made)!r}, 'w').write(' '.join(sys.argv[1:]))"
    )
    asyncio.run(compiling.compile_and_warm("jsq", "bounded"))
    assert made.read_text() == "jsq bounded"


def test_a_start_that_is_given_up_leaves_no_process_behind(monkeypatch):
    monkeypatch.setattr(compiling, "is_compiled", lambda policy: False)
    monkeypatch.setattr(compiling, "_CODE", "import time; time.sleep(100)")

    async def story():
        begun = []
        start = asyncio.create_subprocess_exec

        async def noted(*words, **options):
            begun.append(await start(*words, **options))
            return begun[0]

        monkeypatch.setattr(asyncio, "create_subprocess_exec", noted)
        task = asyncio.create_task(compiling.compile_and_warm("jsq", ""))
        while not begun:
            await asyncio.sleep(0.001)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert await begun[0].wait() != 0

    asyncio.run(story())


@pytest.mark.skipif(compiled.numba is None, reason="nothing is compiled")
def test_what_is_on_disk_is_seen(tmp_path, monkeypatch):
    from evenstep.dispatch.warming import warm

    warm("jsq", "")
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "mine_policy.py").write_text("class Mine:\n    def route(self, view): ...\n")
    (tmp_path / "mine_policy_kernel.py").write_text("")
    assert not compiling.is_compiled("mine_policy:Mine")
    (tmp_path / "__pycache__").mkdir(exist_ok=True)
    (tmp_path / "__pycache__" / "mine_policy_kernel.route_into-3.py311.nbi").write_bytes(b"")
    monkeypatch.setattr(compiling.dispatch, "__path__", [str(tmp_path)])
    assert compiling.is_compiled("mine_policy:Mine")
    sys.modules.pop("mine_policy", None)


def test_a_policy_that_is_none_is_told():
    with pytest.raises(InputError, match="jsk"):
        asyncio.run(compiling.compile_and_warm("jsk", ""))
