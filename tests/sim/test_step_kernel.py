"""One decode step of the compiled cluster: its times, its energy, its samples."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.sim.kernels import put, state

from evenstep.compiled import as_plain, column, cut
from evenstep.cost.power import Power
from evenstep.cost.view import PiecewiseLinear
from evenstep.sim.cluster import step as step_kernel
from evenstep.sim.cluster.roots import root_table
from evenstep.sim.cluster.state import Options

GAMMA = 0.7


class Lines:
    """A law with two lines for every other worker."""

    def table(self) -> PiecewiseLinear:
        return PiecewiseLinear(np.array([0.0, 10.0, 40.0]), np.array([[0.0, 1.0, 9.0], [1.0, 2.0, 5.0]]))

    def overhead_seconds(self, workers: int) -> float:
        return 0.0


@given(st.lists(st.integers(0, 60), min_size=4, max_size=4))
def test_local_times_are_those_of_the_law_and_leave_others_alone(load):
    run = state(step_time=Lines(), workers=4, slots=1, groups=(1, 3)).run
    run.fixed.unit = 0.5
    run.fleet.units[:], run.law.local_s[:] = load, -1.0
    largest, total = as_plain(step_kernel.local_times)(run, 1)
    wanted = Lines().table().local_seconds(np.array(load) * 0.5)
    assert run.law.local_s[0] == -1.0
    assert run.law.local_s[1:] == pytest.approx(wanted[1:])
    assert (largest, total) == (pytest.approx(wanted[1:].max()), pytest.approx(wanted[1:].sum()))


@pytest.mark.parametrize(
    "running", [[1, 2, 0], [1, 1, 1], [3, 3, 3], [2, 3, 3]], ids=["some", "alike", "full power", "partly"]
)
def test_energy_is_busy_time_at_full_power_and_a_power_law_below(running):
    run = state(options=Options(power=Power(), decisions=True)).run
    full_power_s = 0.9
    token_power = (np.arange(4) * full_power_s) ** GAMMA
    put(run.fixed, slope=0.05, full_power_s=full_power_s)
    law = run.law._replace(token_power=token_power, roots=root_table(1.0 - GAMMA))
    running, load = np.array(running), np.array([20, 40, 0])
    overhead, duration = 0.5, 2.5
    busy, average = as_plain(step_kernel.energy)(run.fixed, law, running, load, 0, overhead, 0.05 * 60, np.float64(duration))
    seconds = overhead + 0.05 * load
    powers = token_power[running]
    assert busy == pytest.approx(np.minimum(seconds, powers * seconds ** (1 - GAMMA)).sum(), rel=1e-6)
    assert average == pytest.approx(np.minimum(duration, powers * duration ** (1 - GAMMA)).sum(), rel=1e-6)


def test_a_full_table_of_samples_keeps_every_other_row_and_goes_on_half_as_often():
    run = state(workers=2, slots=9, options=Options(samples=4, decisions=True)).run
    now, samples = run.now, run.samples._replace(longest=np.zeros((4, 2)))
    for step in range(10):
        now.now_s = step / 4
        run.fleet.units[:], run.fleet.running[:] = (step, 10 * step), step
        if step % now.stride == 0 and as_plain(step_kernel.sample)(run.fixed, now, run.fleet, samples, 0, step):
            samples.longest[now.samples - 1] = step + 100
    assert (now.stride, now.samples) == (4, 3)
    kept = cut(samples.rows, 0, 3)
    assert column(kept, "step").tolist() == [0, 4, 8]
    assert column(kept, "group").tolist() == [0, 0, 0]
    assert column(kept, "start_s").tolist() == [0.0, 1.0, 2.0]
    assert samples.load[:3].tolist() == [[0, 0], [4, 40], [8, 80]]
    assert samples.running[:3].tolist() == [[0, 0], [4, 4], [8, 8]]
    assert samples.longest[:3, 0].tolist() == [100, 104, 108]
