"""Compiling for the first start happens beside the gateway."""

from __future__ import annotations

import asyncio

import pytest
from tests.gateway.running import until

from evenstep.errors import InputError
from evenstep.gateway.operate import compiling


def test_a_cold_start_compiles_in_a_process_of_its_own_and_the_loop_goes_on(monkeypatch, tmp_path):
    made = tmp_path / "made"
    monkeypatch.setattr(compiling, "is_compiled", lambda policy, predictor: False)
    monkeypatch.setattr(compiling, "_is_on_disk", lambda policy: False)
    monkeypatch.setattr(compiling, "COMPILE", f"import sys; open({str(made)!r}, 'w').write(' '.join(sys.argv[1:]))")
    asyncio.run(compiling.compile_and_warm("jsq", "bounded"))
    assert made.read_text() == "jsq bounded"


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
        task = asyncio.create_task(compiling.compile_and_warm("jsq", ""))
        await until(lambda: begun)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert await begun[0].wait() != 0

    asyncio.run(story())


def test_a_policy_that_is_none_is_told():
    with pytest.raises(InputError, match="jsk"):
        asyncio.run(compiling.compile_and_warm("jsk", ""))
