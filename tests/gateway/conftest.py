"""What every test of the gateway has in common."""

from __future__ import annotations

import functools

import pytest


@functools.cache
def _warm_once(policy: str, predictor: str) -> None:
    from evenstep.dispatch.warming import warm

    warm(policy, predictor)


@functools.cache
def _source_time() -> float:
    from evenstep import kernel_cache

    return max(source.stat().st_mtime for source in kernel_cache.ROOT.rglob("*.py"))


@pytest.fixture(autouse=True)
def one_warming(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process warms a built-in policy at its first start of a gateway, and looks at the age of all sources once.

    Hundreds of tests start a gateway; both together take 60 ms of a start, more than all else.
    """
    from evenstep import kernel_cache
    from evenstep.gateway.operate import compiling

    warm = compiling.warm
    monkeypatch.setattr(
        compiling, "warm", lambda policy, predictor: (warm if ".py" in policy else _warm_once)(policy, predictor)
    )
    monkeypatch.setattr(kernel_cache, "_newest_source", _source_time)
