"""However many ask, the data path makes one snapshot at a time."""

from __future__ import annotations

import asyncio

import pytest
from tests.gateway.fake_gateway import FakeGateway

from evenstep.gateway.operate import control
from evenstep.gateway.operate.control import ControlProxy, Snapshots


def test_many_readers_share_one_snapshot():
    async def run() -> None:
        gateway = FakeGateway()
        found = Snapshots(ControlProxy(gateway, asyncio.get_running_loop()), lambda: {"scrapes_total": {"ok": 7}})
        answers = await asyncio.gather(*(found.latest() for _ in range(20)))
        assert gateway.asked == ["snapshot"]
        assert all(answer["gateway"]["connections"] == 2 for answer, _ in answers)
        assert answers[0][0]["gateway"]["scrapes_total"] == {"ok": 7}

    asyncio.run(run())


def test_a_data_path_that_does_not_answer_leaves_the_last_snapshot_with_its_age(monkeypatch):
    async def run() -> None:
        loop = asyncio.get_running_loop()
        found = Snapshots(ControlProxy(FakeGateway(), loop), dict)
        first, _ = await found.latest()
        monkeypatch.setattr(control, "_FRESH_S", -1.0)
        monkeypatch.setattr(control, "_ASK_S", 0.01)
        monkeypatch.setattr(loop, "call_soon_threadsafe", lambda *_: None)
        again, age_s = await found.latest()
        assert again["models"].keys() == first["models"].keys() and age_s > 0.0
        with pytest.raises(TimeoutError):
            await Snapshots(ControlProxy(FakeGateway(), loop), dict).latest()

    asyncio.run(run())
