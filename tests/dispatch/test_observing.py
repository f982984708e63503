"""What a decision log shows of the run it was written in."""

from __future__ import annotations

import numpy as np
import pytest
from tests.dispatch.recorded_run import record
from tests.dispatch.told import Story

from evenstep.dispatch.log.file import LogFile
from evenstep.dispatch.log.records import Header
from evenstep.dispatch.observing import Law, observe
from evenstep.errors import InputError
from evenstep.measure import metrics
from evenstep.measure.metrics import Slo
from evenstep.workload.reading import read_trace


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    path = tmp_path_factory.mktemp("log") / "log.evlog"
    barrier, arrived = record(path)
    return path, barrier, arrived


def test_the_fleet_and_its_policy_are_those_of_the_log(run):
    found = observe(run[0])
    assert (found.policy, found.predictor) == ("jsq", "")
    assert [(w.name, w.slots) for w in found.workers] == [(f"w{g}", 16) for g in range(4)]
    assert found.group_sizes == (4,) and found.kv_tokens == (np.inf,) * 4
    assert not found.fleet_changed and found.prefillers == 0
    assert found.replayed.difference is None


def test_the_law_is_the_one_by_which_the_engines_stepped(run):
    law = observe(run[0]).law
    assert law is not None and law.steps > 200
    assert law.overhead_s == pytest.approx(0.0049, rel=0.02)
    assert law.seconds_per_token == pytest.approx(1.1e-7, rel=0.05)
    assert law.r_squared > 0.95


def test_prompts_that_steps_compute_do_not_tilt_the_law(run):
    """A tenth of a second more for each step in which a request waits for its first token."""
    found = observe(run[0])
    waits = list(zip(found.requests.admitted_s.tolist(), found.requests.first_token_s.tolist(), strict=True))

    def computes_prompts(step):
        return any(sent < step[5] and first > step[5] - step[4] for sent, first in waits)

    found.steps = [(*step[:4], step[4] + 0.1 * computes_prompts(step), step[5]) for step in found.steps]
    assert any(step[4] > 0.1 for step in found.steps)
    assert found.law is not None and found.law.seconds_per_token == pytest.approx(1.1e-7, rel=0.1)


def test_times_of_requests_are_those_they_had(run):
    _, barrier, arrived = run
    table = observe(run[0]).requests
    assert table.rows == 300
    assert table.visible_s.tolist() == pytest.approx([at - arrived[0] for at in arrived])
    assert table.worker.tolist() == [barrier.finished[request][0] for request in range(300)]
    assert bool((table.visible_s <= table.admitted_s).all())
    assert bool((table.admitted_s < table.first_token_s).all())
    assert bool((table.first_token_s <= table.finished_s).all())
    assert int(table.output_tokens.sum()) == int(np.sum(barrier.outputs))


def test_its_figures_have_the_names_of_a_simulated_run_and_none_that_a_log_cannot_know(run):
    _, barrier, arrived = run
    summary = observe(run[0]).summary(Slo(ttft_s=0.0055))
    assert summary["makespan_s"] == pytest.approx(barrier.now_s - arrived[0], rel=0.01)
    assert summary["tokens_per_s"] == pytest.approx(np.sum(barrier.outputs) / summary["makespan_s"])
    loads = np.array([load for load in barrier.loads if sum(load)], np.float64)
    idle = 1 - loads.mean(axis=1) / loads.max(axis=1)
    assert summary["idle_share"] == pytest.approx(idle.mean(), rel=0.02)
    assert 0 < summary["slo_share"] < 1
    assert all(summary[name] is None for name in ("energy_busy_idle_j", "full_slot_tokens_per_s", "restarts"))


def test_steps_whose_length_does_not_grow_with_load_have_a_law_without_a_slope(run):
    found = observe(run[0])
    found.steps = [(*step[:4], 0.02, step[5]) for step in found.steps]
    assert found.law == Law(pytest.approx(0.02), 0.0, 0.0, len(found.steps))
    assert found.summary()["idle_time_share"] is None, "loads are known, but not what they cost"
    found.steps = found.steps[:20]
    assert found.law is None and found.summary()["makespan_s"] > 0
    assert found.summary()["idle_time_share"] is None
    found.steps = []
    assert found.summary()["idle_share"] is None


def test_a_request_for_several_answers_is_one_row_for_each(tmp_path):
    """Two answers of 5 tokens, one token of each in a step of 0.25 s; then 3 tokens for 4 answers asked for."""
    file = LogFile(tmp_path / "log.evlog")
    story = Story(log=file)
    story.worker("a", slots=4)
    for request, copies, chunks in ((1, 2, [2] * 5), (2, 1, [1]), (3, 4, [3])):
        command = story.sent(request, prompt_tokens=7, copies=copies)
        for tokens in chunks:
            story.now_s += 0.25
            story.chunk(command.row, tokens)
        story.finishes(command)
    file.close()
    found = observe(tmp_path / "log.evlog")
    assert found.requests.output_tokens.tolist() == [5, 5, 1, 1, 1, 1]
    assert found.requests.prompt_tokens.tolist() == [4, 3, 7, 3, 2, 2]
    assert found.requests.worker.tolist() == [0] * 6 and found.requests.request_id.tolist() == [*range(6)]
    assert metrics.tpot(found.requests).tolist()[:2] == [0.25, 0.25]
    trace = read_trace(tmp_path / "log.evlog")
    assert trace.output_tokens.tolist() == found.requests.output_tokens.tolist()
    assert trace.prompt_tokens.tolist() == found.requests.prompt_tokens.tolist()
    assert trace.arrival_s.tolist() == found.requests.visible_s.tolist()
    assert trace.notes == (
        "2 requests for several answers: one row for each answer, with equal parts of prompt and output.",
    )


def test_a_log_without_workers_or_requests_is_one_clear_error(tmp_path):
    file = LogFile(tmp_path / "empty.jsonl")
    file(Header(policy="jsq"))
    file.close()
    with pytest.raises(InputError, match=r"empty\.jsonl: workers is 0; expected a log that shows"):
        observe(tmp_path / "empty.jsonl")
    record(tmp_path / "log.jsonl", requests=20)
    lines = (tmp_path / "log.jsonl").read_text().splitlines(keepends=True)
    cut = next(i for i, line in enumerate(lines) if '"done"' in line)
    (tmp_path / "log.jsonl").write_text("".join(lines[:cut]))
    with pytest.raises(InputError, match="expected at least one request that arrived, ran and finished"):
        observe(tmp_path / "log.jsonl")


def test_a_worker_that_joins_a_barrier_group_adds_no_step_without_a_time(tmp_path):
    """The count of steps begins anew when it comes."""
    file = LogFile(tmp_path / "log.evlog")
    story = Story(log=file)
    for name in "ab":
        story.worker(name, group="g")
    command = story.sent(1)
    for number in range(6):
        if number == 3:
            story.worker("c", group="g")
        story.now_s += 0.25
        story.chunk(command.row)
    story.finishes(command)
    file.close()
    steps = observe(tmp_path / "log.evlog").steps
    assert [step[4] for step in steps] == [0.25] * 3


def test_each_token_of_a_chunk_is_a_step_of_the_run(tmp_path):
    """Two tokens each half second, as with speculative decoding: steps of a quarter of a second, without gaps."""
    file = LogFile(tmp_path / "log.evlog")
    story = Story(log=file)
    story.worker("a")
    command = story.sent(1)
    for _ in range(20):
        story.now_s += 0.5
        story.chunk(command.row, tokens=2)
    story.finishes(command)
    file.close()
    steps = observe(tmp_path / "log.evlog").steps
    assert len(steps) > 35 and {step[4] for step in steps} == {0.25}
    assert np.diff([step[5] for step in steps]).tolist() == [0.25] * (len(steps) - 1)
