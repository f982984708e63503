"""Every law of steps and of batches is one law: the seconds it tells itself, and its table, which compiled loops read."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.strategies import batches, examples

from evenstep import names
from evenstep.cost.batch import BatchTime, check_law
from evenstep.cost.batch_seconds import seconds_by_table
from evenstep.cost.view import PiecewiseLinear, StepTime

#: Laws with options, also those that are not built without.
STEPS = (
    "linear:overhead-s=1,per-token-s=0.5",
    "per-worker:speed=1/0.5/0.3",
    "piecewise:knots=0:0/5000:0.003/9000:0.01",
    "table:path=measured.csv",
    "unequal:share=1",
    "unequal:knots=0:0/5000:0.003/9000:0.01",
)
BATCHES = (
    "batch-table:path=measured.csv",
    "long-context:alpha-s=1e-8,beta-s=2e-7,gamma-s=3e-8",
    "regression:token-s=1e-5,request-s=1e-4,kv-s=1e-7,square-s=1e-8,crossed-s=2e-8,decode-s=3e-7",
    "token-budget:c-s=1,a-s=0.5,b0=0",
    "token-budget:fit=llama-70b-tp4",
)


def every(room, options):
    """Each member of a room, by its name alone unless it stands in `options`, then these."""
    given = {text.partition(":")[0] for text in options}
    return [*(name for name in names.members(room) if name not in given), *options]


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """Builds a law once."""
    folder, found = tmp_path_factory.mktemp("laws"), {}
    (folder / "measured.csv").write_text("load,tokens,seconds\n100,100,2\n200,200,4\n400,400,5\n1000,1000,9\n")
    (folder / "steps.csv").write_text("load,seconds\n100,2\n200,4\n400,5\n1000,9\n")

    def build(room, text):
        if text not in found:
            file = "steps.csv" if room == "cost" else "measured.csv"
            found[text] = names.build(room, names.parse(text.replace("measured.csv", str(folder / file))))
        return found[text]

    return build


workers = st.tuples(st.floats(0, 20_000), st.integers(0, 50), st.floats(0, 5_000))


@pytest.mark.parametrize("text", every("cost", STEPS))
@examples(60)
@given(fleet=st.lists(workers, min_size=1, max_size=9))
def test_the_table_of_a_step_time_law_says_the_same_as_the_law(built, text, fleet):
    law = built("cost", text)
    load, longest = (np.array([one[part] for one in fleet], np.float64) for part in (0, 2))
    running = np.array([one[1] for one in fleet], np.int64)
    table, own = law.table(), law.local_seconds(load, running, longest)
    assert isinstance(law, StepTime) and isinstance(table, PiecewiseLinear)
    assert own.shape == load.shape and own.dtype == np.float64 and (own >= 0).all()
    assert table.local_seconds(table.effective_load(load, running, longest)) == pytest.approx(own, rel=1e-12)


@pytest.mark.parametrize("text", every("batch", BATCHES))
@examples(60)
@given(batch=batches())
def test_the_table_of_a_batch_time_law_says_the_same_as_the_law(built, text, batch):
    law = built("batch", text)
    check_law("batch_time", law)
    assert isinstance(law, BatchTime) and law.seconds(batch) >= 0
    assert seconds_by_table(law.table(), batch) == pytest.approx(law.seconds(batch), rel=1e-12)
