"""Jobs of other barrier-synchronised machines."""

from __future__ import annotations

import numpy as np
import pytest

from evenstep import names
from evenstep.cost.linear import Linear
from evenstep.errors import InputError
from evenstep.predict.oracle import Oracle
from evenstep.sim.cluster import Cluster, simulate
from evenstep.sim.other_domains import adaptive_mesh, tiled_factorisation


def test_a_factorisation_falls_from_its_triangle_to_one_tile():
    trace, drift = tiled_factorisation(50, tiles=9, seed=3)
    assert drift.profiles is not None
    for i in range(len(trace)):
        loads = drift.profiles.values[drift.profiles.offsets[i] : drift.profiles.offsets[i + 1]]
        n = int(trace.output_tokens[i])
        assert loads[0] == n * (n + 1) / 2 == trace.prompt_tokens[i] and loads[-1] == 1
        assert 3 <= n <= 9 and (np.diff(loads) < 0).all()


def test_a_region_of_a_mesh_doubles_and_halves():
    trace, drift = adaptive_mesh(80, seed=1)
    assert drift.profiles is not None
    assert (
        np.isin(drift.profiles.values[1:] / drift.profiles.values[:-1], 2.0 ** np.arange(-3, 4)).mean() > 0.98
    )
    assert drift.profiles.values.max() == pytest.approx(8 * 768, rel=0.2)
    again, _ = adaptive_mesh(80, seed=1)
    assert np.array_equal(again.prompt_tokens, trace.prompt_tokens)


@pytest.mark.parametrize(
    ("make", "horizon", "at_most"), [(adaptive_mesh, 16, 0.85), (tiled_factorisation, 0, 0.7)]
)
def test_balancing_pays_where_loads_rise_and_fall(make, horizon, at_most):
    trace, drift = make(1500)
    cluster = Cluster(8, 8, pool=64, drift=drift)
    step_time = Linear(overhead_s=0.001, per_token_s=1e-6)
    idle = {}
    for name, predictor in (("fcfs", None), ("bf-io", Oracle())):
        options = {"horizon": horizon} if name == "bf-io" else {}
        policy = names.build("routing", {"name": name, **options})
        run = simulate(trace, policy, cluster=cluster, step_time=step_time, predictor=predictor)
        assert drift.profiles is not None and run.totals.load_steps == drift.profiles.values.sum()
        idle[name] = run.summary["idle_share"]
    assert idle["bf-io"] < at_most * idle["fcfs"]


def test_nonsense_sizes_are_named():
    with pytest.raises(InputError, match=r"adaptive_mesh: regions is 0"):
        adaptive_mesh(0)
    with pytest.raises(InputError, match=r"tiled_factorisation: tiles is 0"):
        tiled_factorisation(3, tiles=0)
