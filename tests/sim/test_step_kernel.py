"""One decode step of the compiled cluster: its times, its energy, its samples."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.sim.kernels import float_scalars, plainly, scalars

from evenstep.cost.view import PiecewiseLinear
from evenstep.routing.view import RUNNING as ON_WORKER
from evenstep.sim import cluster_layout as at
from evenstep.sim import step_kernel

local_times, sample = plainly(step_kernel.local_times), plainly(step_kernel.sample)
GAMMA = 0.7


def one_root(x: float) -> float:
    return float(step_kernel.root(x, at.root_table(1.0 - GAMMA)))


@given(st.floats(1e-9, 1e6))
def test_the_table_of_roots_is_within_a_millionth(x):
    assert plainly(step_kernel.root)(np.float64(x), at.root_table(1.0 - GAMMA)) == pytest.approx(
        x ** (1.0 - GAMMA), rel=1e-6
    )


def test_the_compiled_root_has_the_bits_of_the_plain_one():
    for x in (1e-8, 0.00491, 0.25, 1.0, 3.7, 1000.0):
        assert one_root(x) == plainly(step_kernel.root)(np.float64(x), at.root_table(1.0 - GAMMA))


@given(st.lists(st.integers(0, 60), min_size=4, max_size=4))
def test_local_times_are_those_of_the_law_and_leave_others_alone(load):
    law = PiecewiseLinear(np.array([0.0, 10.0, 40.0]), np.array([[0.0, 1.0, 9.0], [1.0, 2.0, 5.0]]))
    table = np.vstack([law.load[None, :], law.seconds])
    local = np.full(4, -1.0)
    largest, total = local_times(np.array(load), 0.5, table, local, 1, 4)
    wanted = law.local_seconds(np.array(load) * 0.5)
    assert local[0] == -1.0
    assert local[1:] == pytest.approx(wanted[1:])
    assert (largest, total) == (pytest.approx(wanted[1:].max()), pytest.approx(wanted[1:].sum()))


@pytest.mark.parametrize(
    "running", [[1, 2, 0], [1, 1, 1], [3, 3, 3], [2, 3, 3]], ids=["some", "alike", "full power", "partly"]
)
def test_energy_is_busy_time_at_full_power_and_a_power_law_below(running):
    table, full_power_s = at.root_table(1.0 - GAMMA), 0.9
    count_power = (np.arange(4) * full_power_s) ** GAMMA
    running, load, local = np.array(running), np.array([20, 40, 0]), np.zeros(3)
    overhead, slope, duration = 0.5, 0.05, 2.5
    busy, average = plainly(step_kernel.energy)(
        running,
        load,
        local,
        0,
        slope,
        overhead,
        slope * 60,
        np.float64(duration),
        full_power_s,
        count_power,
        table,
    )
    seconds = overhead + slope * load
    powers = count_power[running]
    assert busy == pytest.approx(np.minimum(seconds, powers * seconds ** (1 - GAMMA)).sum(), rel=1e-6)
    assert average == pytest.approx(np.minimum(duration, powers * duration ** (1 - GAMMA)).sum(), rel=1e-6)


def test_a_full_table_of_samples_keeps_every_other_row_and_goes_on_half_as_often():
    sc, sf = scalars(workers=2, stride=1), float_scalars()
    wi, load, group_i = np.zeros((4, 2), np.int64), np.zeros(2, np.int64), np.zeros((9, 1), np.int64)
    steps, times = np.zeros((4, 2), np.int64), np.zeros((4, 2))
    loads, longest, running = np.zeros((4, 2)), np.zeros((4, 2)), np.zeros((4, 2), np.int64)
    for step in range(10):
        group_i[at.STEP, 0], sf[at.NOW] = step, step / 4
        load[:], wi[ON_WORKER] = (step, 10 * step), step
        if step % sc[at.STRIDE] == 0:
            sample(sc, sf, wi, load, group_i, steps, times, loads, longest, running, 0)
            longest[sc[at.SAMPLES] - 1] = step + 100
    assert (sc[at.STRIDE], sc[at.SAMPLES]) == (4, 3)
    assert steps[:3].tolist() == [[0, 0], [4, 0], [8, 0]]
    assert times[:3, 0].tolist() == [0.0, 1.0, 2.0]
    assert loads[:3].tolist() == [[0, 0], [4, 40], [8, 80]]
    assert running[:3].tolist() == [[0, 0], [4, 4], [8, 8]]
    assert longest[:3, 0].tolist() == [100, 104, 108]
