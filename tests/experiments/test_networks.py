"""What loads say of a network, next to what the simulator says."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from tests.sim.network.networks import EXAMPLES, call, example

from evenstep.errors import InputError
from evenstep.experiments.networks import check, compare, flows, grown, judge, tokens_per_s
from evenstep.measure.comparison import mean_interval
from evenstep.report import network_page
from evenstep.report.network_page import judged_lines
from evenstep.report.numbers import MISSING
from evenstep.request import Trace
from evenstep.sim.network.description import CallSection, EngineSection, Network, TaskSection
from evenstep.sim.network.simulation import simulate_network
from evenstep.workload.synthetic import arrivals, laws
from evenstep.workload.synthetic.arrivals import Constant, Poisson
from evenstep.workload.synthetic.yaml_file import TraceFile


def test_rybko_stolyar_is_unstable_by_its_virtual_station():
    judged = judge(example("rybko-stolyar"))
    assert [round(one.load, 6) for one in judged.engines] == pytest.approx([0.9, 0.9], abs=1e-3)
    assert judged.stations[0].load == pytest.approx(1.6105, abs=2e-3)
    assert judged.verdict == "unstable" and "A.long and B.long" in judged.why


def test_a_figure_that_some_run_lacks_has_no_interval_either():
    assert network_page._cell(mean_interval([math.nan, 1.0]), None) == MISSING


def test_priorities_reversed_leave_no_virtual_station():
    network = example("rybko-stolyar")
    engines = {name: replace(one, priority=one.priority[::-1]) for name, one in network.engines.items()}
    judged = judge(replace(network, engines=engines))
    assert not judged.stations and judged.verdict == "unknown"


@pytest.mark.parametrize(
    ("first", "then"),
    [
        ({"short": 0.05, "long": 0.95}, {"end": 1.0}),  # nearly all tasks go around the short call
        ({"short": 1.0}, {"tool": 0.98, "end": 0.02}),  # nearly all calls come from the tool
    ],
)
def test_priorities_over_calls_that_are_seldom_before_another_are_no_virtual_station(first, then):
    """They were called one of load 1.56, and the network unstable; runs are stable."""

    def task(one: str, two: str, rate: float) -> TaskSection:
        calls = {
            "start": call("zero", 10, 10, then=first),
            "short": call(one, 32, 32, then={"long": 1.0}),
            "long": call(two, 512, 32, then=then),
            "tool": call("zero", 10, 10, then={"long": 1.0}),
        }
        if "tool" not in then:
            del calls["tool"]
        return TaskSection(calls, Poisson(rate))

    rate = 1.1 if "tool" not in then else 0.022
    base = example("rybko-stolyar", until_s=10_000.0)
    engines = {"zero": replace(base.engines["one"], priority=[]), **base.engines}
    network = replace(base, engines=engines, tasks={"A": task("one", "two", rate), "B": task("two", "one", rate)})
    judged = judge(network)
    assert not judged.stations and judged.verdict == "unknown"
    assert simulate_network(network).summary["verdict"] == "stable"


def test_calls_in_sequence_are_beyond_the_theorem_even_in_a_loop_or_a_recording():
    section = EngineSection(engine="token-budget=512,batch-limit=0,first-token=decode", batch_time="unit")
    loop = TaskSection({"act": call("one", 9, 1, then={"act": 0.5, "end": 0.5})}, Poisson(1.0), count=10)
    assert judge(Network({"one": section}, {"task": loop})).verdict == "unknown"
    trace = Trace(np.full(2, 9), np.full(2, 1), np.array([0.0, 1.0]), after=np.array([-1, 0]), session=np.zeros(2, np.int64))
    log = TaskSection(trace=TraceFile("x"), engine="one", arrivals=Poisson(1.0))
    assert judge(Network({"one": section}, {"log": log}), {"log": trace}).verdict == "unknown"
    alone = Trace(np.full(2, 9), np.full(2, 1), np.array([0.0, 1.0]))
    assert judge(Network({"one": section}, {"log": log}), {"log": alone}).verdict == "stable"


def test_a_check_puts_the_growth_of_a_run_next_to_its_load():
    found = check(EXAMPLES / "rybko-stolyar.yaml", until_s=20_000)
    ((fluid, seen),) = found.growth.values()
    assert fluid == pytest.approx(0.6105, abs=2e-3) and seen == pytest.approx(fluid, rel=0.05)
    assert found.run.summary["verdict"] == "unstable"


@pytest.mark.parametrize(
    "name", ["two-types", *(pytest.param(one, marks=pytest.mark.slow) for one in ("k-parallel", "fork-join"))]
)
def test_the_command_that_the_list_of_papers_names_settles_its_verdict(name):
    """A shorter run of these files is undecided at a load of 0.95."""
    found = check(EXAMPLES / f"{name}.yaml")
    assert found.judged.verdict in ("stable", "unknown")
    assert [found.run.stability(e).verdict for e in range(len(found.run.engines))] == ["stable"] * len(found.run.engines)


def test_agent_aware_orders_beat_first_come_first_served_where_short_tasks_share_engines_with_forks():
    """Every task is done, so no order looks fast because it leaves tasks over."""
    orders = ("fcfs", "least-attained", "critical-path")
    first, attained, critical = compare(EXAMPLES / "research-agents.yaml", orders=orders, seeds=10)
    assert {run.summary["unfinished_tasks"] for one in (first, attained, critical) for run in one.runs} == {0}
    assert attained.versus is not None and critical.versus is not None
    for change in (attained.versus["task_mean_s"], critical.versus["task_mean_s"], critical.versus["task_p95_s"]):
        assert change.is_clear and change.value < 0
    assert critical.mean("task_mean_s").value < 0.8 * first.mean("task_mean_s").value
    load = judge(example("research-agents")).engines[0].load
    assert 0.8 < load < 0.95


def test_a_batch_ends_sooner_if_the_longest_paths_start_first():
    """No other order finds them: all tasks arrive together, and no call of a chain has slack."""
    orders = ("fcfs", "oldest-task", "least-attained", "critical-path", "longest-path")
    _, *others, longest = compare(EXAMPLES / "nightly-batch.yaml", orders=orders, seeds=10)
    assert {run.summary["unfinished_tasks"] for one in (*others, longest) for run in one.runs} == {0}
    assert longest.versus is not None and longest.versus["tasks_per_s"].is_clear
    assert longest.versus["tasks_per_s"].value > 0.08
    assert all(one.versus is not None and abs(one.versus["tasks_per_s"].value) < 0.01 for one in others)


def test_one_engine_takes_b_by_t_b():
    section = EngineSection(engine="token-budget=512", batch_time="token-budget:fit=codellama-34b-tp2")
    assert tokens_per_s(section) == pytest.approx(512 / (23.47e-3 + 0.145e-3 * 416))
    assert tokens_per_s(replace(section, batch_time="affine-kv")) != tokens_per_s(replace(section, batch_time="affine-kv"))


@pytest.mark.parametrize(("rate", "verdict"), [(100.0, "stable"), (103.0, "unstable")])
def test_parallel_engines_are_judged_by_their_sum(rate, verdict):
    network = example("k-parallel")
    chat = replace(network.tasks["chat"], arrivals=Poisson(rate))
    assert judge(replace(network, tasks={"chat": chat})).verdict == verdict


@pytest.mark.parametrize(
    "changes",
    [{"policy": "work-conserving:decode-cap=64"}, {"engine": "token-budget=512,batch-limit=64,resident-limit=0"}],
)
def test_an_engine_with_a_limit_is_beyond_the_theorem(changes):
    """At a load of 0.95 it was called stable by Theorem 1, which has no caps; 64 decodes an iteration are too few."""
    network = example("two-types", until_s=1500.0)
    network = replace(network, engines={"one": replace(network.engines["one"], **changes)})
    assert judge(network).verdict == "unknown"
    assert simulate_network(network).summary["verdict"] == "unstable"


def test_a_hot_key_is_named():
    network = example("k-parallel")
    engines = {"pool": replace(network.engines["pool"], routing="consistent-hash:bound=100")}
    hot = replace(network.tasks["chat"], one_key=True, arrivals=Poisson(30.0))
    judged = judge(replace(network, engines=engines, tasks={"hot": hot}))
    assert judged.verdict == "unstable" and "tasks hot share one key" in judged.why
    bounded = {"pool": replace(network.engines["pool"], routing="consistent-hash")}
    assert judge(replace(network, engines=bounded, tasks={"hot": hot})).verdict == "unknown"
    slower = replace(hot, arrivals=Poisson(18.0))
    both = replace(slower, calls={**hot.calls, "again": replace(hot.calls["answer"], after=["answer"])})
    judged = judge(replace(network, engines=engines, tasks={"hot": both}))
    assert judged.verdict != "unstable", "each call has a key of its own, and an engine has room for either"
    twice = judge(replace(network, engines=engines, tasks={"hot": replace(both, arrivals=Poisson(30.0))}))
    assert "calls hot.a" in twice.why and "share one key" in twice.why


def test_loads_of_a_loop_count_its_expected_visits():
    loads = {one.name: one.load for one in flows(example("agent-loop"))}
    per_s = 3 * tokens_per_s(example("agent-loop").engines["pool"])
    assert loads["agent.act"] / (3 * (1 / 0.3)) * per_s == pytest.approx(500 * 2.718 ** (0.36 / 2) + 79, rel=0.03)


def test_loads_count_the_tail_of_a_heavy_law():
    """A mean over the law's even quantiles was 5 % too low: the engine is overloaded, and was called stable."""
    section = EngineSection(engine="token-budget=512,batch-limit=0,first-token=decode", batch_time="unit")
    call = CallSection("one", laws.Constant(1), laws.Pareto(1.5, mean=100))
    task = TaskSection({"answer": call}, Poisson(512 / 99), count=10)
    judged = judge(Network({"one": section}, {"chat": task}))
    assert judged.engines[0].load == pytest.approx(101 / 99, abs=0.005) and judged.verdict == "unstable"


@pytest.mark.parametrize(
    ("process", "rate"),
    [
        (arrivals.OnOff(30.0, 3600.0, 7200.0, 3.0), 12.0),
        (arrivals.LikeTrace(np.array([0.1, 0.4, 1.0])), 2.0),
        (arrivals.Diurnal(5.0), 5.0),
    ],
)
def test_the_load_is_of_the_mean_rate_of_a_process_that_changes(process, rate):
    section = EngineSection(engine="token-budget=512,batch-limit=0,first-token=decode", batch_time="unit")
    task = TaskSection({"answer": CallSection("one", laws.Constant(9), laws.Constant(1))}, process, count=10)
    (flow,) = flows(Network({"one": section}, {"chat": task}))
    assert flow.load == pytest.approx(10 * rate / 512)


def test_orders_see_the_same_tasks():
    found = compare(EXAMPLES / "agent-loop.yaml", orders=("fcfs", "least-attained"), seeds=2, until_s=60)
    assert [one.order for one in found] == ["fcfs", "least-attained"]
    arrivals = [[run.tasks.arrival_s.tolist() for run in one.runs] for one in found]
    assert arrivals[0] == arrivals[1] and arrivals[0][0] != arrivals[0][1]
    assert found[0].versus is None and found[1].versus is not None
    assert found[1].versus["task_mean_s"].low is not None


@pytest.mark.slow
def test_in_the_bundled_loop_tasks_end_earlier_with_least_attained_than_with_call_level_fcfs():
    """With 256 seats no call of it waits, and every order is the same."""
    fcfs, least, longest = compare(EXAMPLES / "agent-loop.yaml", orders=("fcfs", "least-attained", "longest-path"), seeds=3)
    assert least.versus is not None and longest.versus is not None
    better, worse = least.versus["task_mean_s"], longest.versus["task_mean_s"]
    assert better.high is not None and better.high < 0
    assert worse.low is not None and worse.low > 0
    assert "unstable" not in [run.summary["verdict"] for run in (*fcfs.runs, *least.runs)]


def test_replicates_that_are_copies_are_refused(tmp_path):
    path = tmp_path / "even.yaml"
    path.write_text(
        "version: 1\nengines: {one: {policy: sarathi}}\ntasks: {chat: {arrivals: {process: constant, requests_per_s: 1},"
        " count: 9, calls: {answer: {engine: one, prompt: {law: constant, tokens: 9}, output: {law: constant, tokens: 2}}}}}\n"
    )
    assert len(compare(path)[0].runs) == 1 and len(compare(path, seeds=1)[0].runs) == 1
    with pytest.raises(InputError, match="replicates that differ, and only 1 do"):
        compare(path, seeds=3)


def test_an_unknown_order_is_refused_with_the_nearest():
    with pytest.raises(InputError, match="--orders is 'least-attend'.*least-attained"):
        compare(EXAMPLES / "agent-loop.yaml", orders=("least-attend",), until_s=1)


def test_a_recorded_task_loads_its_engine_at_the_rate_of_its_arrivals():
    """Sessions of 1,998 tokens, two seconds apart; or four where tasks come so. Each prefill gives an output token."""
    trace = Trace(
        np.array([900, 900, 900, 900]),
        np.full(4, 100),
        np.array([0.0, 0.5, 2.0, 2.5]),
        session=np.array([0, 0, 1, 1]),
        after=np.array([-1, 0, -1, 2]),
    )
    section = EngineSection(engine="token-budget=512", batch_time="token-budget:fit=codellama-34b-tp2")
    task = TaskSection(trace=TraceFile("x"), engine="one")
    (own,) = flows(Network({"one": section}, {"log": task}), {"log": trace})
    assert own.load == pytest.approx(1998 / 2.0 / tokens_per_s(section))
    (paced,) = flows(Network({"one": section}, {"log": replace(task, arrivals=Constant(0.25))}), {"log": trace})
    assert paced.load == pytest.approx(own.load / 2)


def test_tasks_that_all_come_at_once_have_no_rate_and_no_verdict():
    trace = Trace(np.array([90, 90]), np.full(2, 10), np.zeros(2))
    network = Network({"one": EngineSection()}, {"log": TaskSection(trace=TraceFile("x"), engine="one")})
    assert judge(network, {"log": trace}).verdict == "unknown"
    for until_s in (None, 4000.0):
        run = simulate_network(replace(network, until_s=until_s), traces={"log": trace})
        assert run.summary["verdict"] is None and run.summary["engines"]["one"]["verdict"] is None


def test_drawn_tasks_that_all_come_at_once_have_no_load_and_leave_the_verdict_open():
    """Their load was 0, and the nightly batch was called stable without its limits and chains."""
    night = example("nightly-batch")
    judged = judge(night)
    assert math.isnan(judged.engines[0].load) and judged.verdict == "unknown"
    assert judged.why == "summary.answer has no load: its tasks all arrive at once, so they have no rate"
    assert judged_lines(judged)[1].split()[1:] == [MISSING, MISSING]
    busy = replace(night.tasks["summary"], arrivals=Poisson(1000.0))
    assert judge(replace(night, tasks={**night.tasks, "day": busy})).verdict == "unstable"


def test_an_engine_whose_full_batches_run_fewer_tokens_a_second_is_judged_by_its_busiest(tmp_path):
    """The rate of full batches said unstable at 17 tasks a second, and runs kept up with 31."""
    path = tmp_path / "times.csv"
    path.write_text("tokens,seconds\n1,0.01\n64,0.01\n512,0.5\n")
    limits = "token-budget=512,batch-limit=0,resident-limit=0,first-token=decode"
    section = EngineSection(engine=limits, policy="sarathi", batch_time=f"batch-table:path={path}")
    assert tokens_per_s(section) == pytest.approx(6400)
    task = TaskSection({"answer": call("one", 10, 50)}, Poisson(25.0), count=10)
    judged = judge(Network({"one": section}, {"chat": task}))
    assert judged.engines[0].load == pytest.approx(25 * 60 / 6400) and judged.verdict == "unknown"
    assert "full batches of one run fewer tokens a second than smaller ones" in judged.why


def test_a_load_of_exactly_1_is_decided_by_no_theorem():
    section = EngineSection(engine="token-budget=512,batch-limit=0,first-token=decode", batch_time="unit")
    task = TaskSection({"answer": CallSection("one", laws.Constant(511), laws.Constant(1))}, Poisson(1.0), count=10)
    judged = judge(Network({"one": section}, {"chat": task}))
    assert judged.engines[0].load == 1 and judged.verdict == "unknown" and "the load of one is 1" in judged.why
    assert judged_lines(judged)[1].split() == ["one", "1.000", "exactly", "1"]
    assert "below 1" in judged_lines(judge(Network({"one": section}, {"chat": replace(task, arrivals=Poisson(0.9))})))[1]


def test_a_recorded_task_next_to_one_that_has_a_priority_is_judged():
    """The load of the recorded task was taken in a network in which the priority named an unknown call."""
    trace = Trace(np.array([90, 90]), np.full(2, 10), np.array([0.0, 1.0]))
    engine = EngineSection(engine="token-budget=512,batch-limit=0", priority=["chat.answer", "log.call"])
    chat = TaskSection({"answer": call("one")}, Poisson(1.0), count=5)
    tasks = {"log": TaskSection(trace=TraceFile("x"), engine="one"), "chat": chat}
    judged = judge(Network({"one": engine}, tasks, until_s=0.5), {"log": trace})
    assert judged.verdict == "stable" and judged.engines[0].load > 0


@pytest.mark.parametrize(
    ("policy", "verdict", "grows"),
    [
        *((one, "unstable", 0.6) for one in ("sarathi", "sjf", "vllm", "work-conserving")),
        ("best", "unknown", 0.0),
    ],
)
def test_priorities_form_a_virtual_station_only_where_the_policy_serves_by_them(policy, verdict, grows):
    """With `best`, which looks for short calls, the network was called unstable, and runs are stable."""
    network = example("rybko-stolyar", until_s=5000.0)
    network = replace(network, engines={name: replace(one, policy=policy) for name, one in network.engines.items()})
    judged = judge(network)
    assert judged.verdict == verdict and bool(judged.stations) == (verdict == "unstable")
    assert ("no theorem covers priorities with best, the policy of one" in judged.why) == (policy == "best")
    assert grown(network, simulate_network(network), ("A.long", "B.long")) == pytest.approx(grows, abs=0.1)


def test_a_hot_key_is_not_loaded_by_tasks_whose_names_begin_like_its_own():
    network = example("k-parallel")
    engines = {"pool": replace(network.engines["pool"], routing="consistent-hash:bound=100")}
    chat = network.tasks["chat"]
    tasks = {"gpt-4": replace(chat, one_key=True, arrivals=Poisson(1.0)), "gpt-4.1": replace(chat, arrivals=Poisson(80.0))}
    assert judge(replace(network, engines=engines, tasks=tasks)).verdict == "unknown"
