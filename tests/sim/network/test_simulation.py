"""A network of engines by its promises."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
from tests.sim.network.networks import EXAMPLES, UNIT, call, example, one_engine

from evenstep import Trace
from evenstep.cost.token_budget import TokenBudget
from evenstep.errors import InputError, PolicyError
from evenstep.routing.view import QUEUED_LOAD
from evenstep.sim.engine.simulation import simulate_engine
from evenstep.sim.network import simulation
from evenstep.sim.network.description import CallSection, EngineSection, Network, TaskSection
from evenstep.sim.network.simulation import simulate_network
from evenstep.sim.network.state import prepared
from evenstep.sim.network.tasks import draw
from evenstep.workload.reading import read_trace
from evenstep.workload.synthetic import laws
from evenstep.workload.synthetic.arrivals import Constant, Poisson
from evenstep.workload.synthetic.yaml_file import TraceFile

ENGINE = "kv-tokens=9000,block-tokens=16,keeps-evicted=true"
CHAT = read_trace("sample:azure-conv").head(300)


def alone(policy: str, engine: str, until_s: float | None = None) -> tuple[str, str]:
    """The digests of a network of one engine, and of the engine simulator, on one trace."""
    section = EngineSection(policy=policy, engine=engine)
    network = Network({"one": section}, {"chat": TaskSection(trace=TraceFile("chat"), engine="one")}, until_s=until_s)
    single = simulate_engine(
        CHAT,
        section.scheduling,
        engine=section.server,
        batch_time=TokenBudget(),
        until_s=until_s or float("inf"),
        records=False,
    )
    return simulate_network(network, traces={"chat": CHAT}).digest, single.digest


@pytest.mark.parametrize("policy", ["vllm", "sarathi", "srpt", "class-first", "wait", "best"])
@pytest.mark.parametrize("until_s", [None, 40.0])
def test_one_engine_alone_gives_the_run_of_the_engine_simulator(policy, until_s):
    ours, theirs = alone(policy, "kv-tokens=9000,block-tokens=16", until_s)
    assert ours == theirs


@pytest.mark.parametrize("engine", ["kv-tokens=9000,schedules-ahead=true", "kv-tokens=9000,overflow=swap,swap-s=1e-5/1e-3"])
def test_one_engine_alone_gives_the_same_run_whatever_the_engine_does(engine):
    ours, theirs = alone("sarathi", engine)
    assert ours == theirs


@pytest.mark.parametrize("policy", ["sarathi", "sjf"])
def test_an_engine_that_gets_all_calls_of_its_group_runs_as_if_it_were_alone(policy):
    """Its lists had room for twice its equal share, an eighth of them: they are made wider on the way."""
    section = EngineSection(
        policy=policy, engine="kv-tokens=9000,block-tokens=16", count=16, routing="consistent-hash:bound=100"
    )
    task = TaskSection(trace=TraceFile("chat"), engine="many", one_key=True)
    run = simulate_network(Network({"many": section}, {"chat": task}), traces={"chat": CHAT})
    (hot,) = np.unique(run.calls.engine)
    alone = simulate_engine(CHAT, section.scheduling, engine=section.server, batch_time=TokenBudget(), records=False)
    assert run.engines[f"many-{hot}"].digest == alone.digest
    assert run.calls.finished_s.tolist() == alone.requests.finished_s.tolist()


@pytest.mark.parametrize("overflow", ["recompute", "restart", "swap"])
@pytest.mark.parametrize("until_s", [45.0, 60.0, 75.0])
def test_routing_policies_see_the_tokens_of_the_calls_that_wait(overflow, until_s):
    section = EngineSection(
        policy="vllm", engine=f"kv-tokens=6000,block-tokens=16,overflow={overflow}", count=2, routing="least-load"
    )
    task = TaskSection(trace=TraceFile("chat"), engine="pair")
    network = Network({"pair": section}, {"chat": task}, until_s=until_s)
    ready = prepared(network, draw(network, {"chat": CHAT}), 0, 10)
    simulation._run(ready)
    net, waits = ready.net, []
    for e in range(2):
        now, shown = net.now[e], net.requests.shown
        queue = net.lists.waiting[e, now.first : now.first + now.waiting].tolist()
        waits.append(sum(int(shown[row].prompt_tokens + shown[row].produced) for row in queue))
        waits[-1] += sum(int(shown[row].prompt_tokens) for row in net.lists.coming[e, now.coming : now.known].tolist())
    assert min(waits) > 0 and net.now[0].evictions + net.now[1].evictions > 0
    assert net.routing.workers_f[2 * QUEUED_LOAD : 2 * QUEUED_LOAD + 2].tolist() == waits


@pytest.mark.parametrize("order", ["fcfs", "least-attained"])
def test_a_task_has_run_the_tokens_of_its_calls_that_are_done(order):
    section = EngineSection(policy="vllm", engine="kv-tokens=6000,block-tokens=16")
    two = {"first": call("one", 100, 20), "then": call("one", 50, 300, after=["first"])}
    tasks = {"two": TaskSection(calls=two, arrivals=Constant(4.0), count=30)}
    run = simulate_network(Network({"one": section}, tasks, order=order, until_s=5.0))
    done = np.isfinite(run.calls.finished_s)
    work = np.where(run.calls.kind == 0, 100 + 20 - 1, 50 + 300 - 1)
    expected = np.bincount(run.calls.task[done], work[done], run.tasks.tokens.size)
    assert 0 < done.sum() < done.size
    assert run.tasks.tokens.tolist() == expected.astype(int).tolist()
    assert run.calls.engine.tolist() == np.where(np.isfinite(run.calls.released_s), 0, -1).tolist()
    assert -1 in run.calls.engine


@pytest.mark.slow
def test_a_policy_without_a_rule_gives_the_run_of_the_engine_simulator(tmp_path):
    file = tmp_path / "mine.py"
    file.write_text(
        "from dataclasses import dataclass\nfrom evenstep.scheduling.policies.sarathi import Sarathi\n"
        "@dataclass(frozen=True)\nclass Mine:\n    def form_batch(self, view):\n        return Sarathi().form_batch(view)\n"
    )
    ours, theirs = alone(f"{file}:Mine", "kv-tokens=9000")
    assert ours == theirs == alone("sarathi", "kv-tokens=9000")[0]


@pytest.mark.slow
def test_plain_python_gives_the_same_digest():
    text = "from tests.sim.network.networks import example\nfrom evenstep.sim.network.simulation import simulate_network\n"
    text += "from dataclasses import replace\nnetwork = example('agent-loop', until_s=4.0)\n"
    text += (
        f"pool = replace(network.engines['pool'], engine={ENGINE!r})\nnetwork = replace(network, engines=dict(pool=pool))\n"
    )
    text += "print(simulate_network(network).digest)"
    plain = subprocess.run(
        [sys.executable, "-c", text],
        env={"EVENSTEP_PLAIN": "1", "PYTHONPATH": "."},
        capture_output=True,
        text=True,
        check=True,
    )
    network = example("agent-loop", until_s=4.0)
    pool = replace(network.engines["pool"], engine=ENGINE)
    assert plain.stdout.strip() == simulate_network(replace(network, engines={"pool": pool})).digest


def test_a_call_starts_when_its_parents_are_done_and_its_delay_is_over():
    calls = {"plan": call("one"), "left": call("one", after=["plan"]), "right": call("one", 300, after=["plan"])}
    calls["join"] = call("one", after=["left", "right"], delay_s=2.5)
    run = simulate_network(one_engine(calls))
    released, finished = (
        np.array([column[run.calls.kind == k] for k in range(4)]) for column in (run.calls.released_s, run.calls.finished_s)
    )
    assert np.array_equal(released[1], finished[0]) and np.array_equal(released[2], finished[0])
    assert np.array_equal(released[3], np.maximum(finished[1], finished[2]) + 2.5)
    assert np.array_equal(run.tasks.finished_s, finished[3])


def test_a_run_is_named_in_a_line_and_not_with_all_its_rows():
    run = simulate_network(one_engine({"ask": call("one")}, count=3, name="small"))
    assert repr(run) == "<run of small in order fcfs, 3 tasks>"


def test_engines_do_not_wait_for_each_other():
    engines = {
        "fast": EngineSection(engine=UNIT, batch_time="token-budget:c-s=0.1,a-s=0,b0=0"),
        "slow": EngineSection(engine=UNIT, batch_time="unit"),
    }
    tasks = {name: TaskSection(calls={"call": call(name, 100, 20)}, arrivals=Constant(0.1), count=1) for name in engines}
    run = simulate_network(Network(engines, tasks))
    assert run.tasks.finished_s == pytest.approx([2.1, 21.0])


def test_a_task_is_the_same_whatever_else_the_network_runs():
    agents = example("agent-loop", until_s=60.0)
    alone = replace(agents, tasks={"agent": agents.tasks["agent"]})
    both, one = simulate_network(agents), simulate_network(alone)
    calls = both.calls.kind < 3
    assert np.array_equal(both.tasks.arrival_s[both.tasks.task_type == 0], one.tasks.arrival_s)
    assert calls.sum() == one.calls.kind.size


@pytest.mark.parametrize("routing", ["jsq", "least-load", "round-robin", "random", "consistent-hash", "power-of-d", "vllm"])
def test_any_routing_policy_leads_calls_to_the_engines_of_its_group(routing):
    network = example("k-parallel", until_s=20.0)
    pool = replace(network.engines["pool"], routing=routing)
    run = simulate_network(replace(network, engines={"pool": pool}))
    shares = np.bincount(run.calls.engine[run.calls.engine >= 0], minlength=4) / (run.calls.engine >= 0).sum()
    assert shares.size == 4 and (shares > 0.15).all() and run.summary["tasks"] > 1200


def test_a_long_queue_does_not_hide_how_full_an_engine_is_from_vllm(tmp_path):
    """A policy of the test's own goes by vLLM's scores, with the share of 6,000 KV tokens in use."""
    file = tmp_path / "mine.py"
    file.write_text(
        "from dataclasses import dataclass\nimport numpy as np\nfrom evenstep.routing.view import RoutingDecision\n"
        "@dataclass(frozen=True)\nclass Mine:\n    memory_size = 1\n    def route(self, view):\n"
        "        waiting, usage, start = view.queued, view.load / 6000, int(view.memory[0]) % view.load.size\n"
        "        score = waiting + view.running + 6 * waiting * np.maximum(0, usage - 0.5)\n"
        "        best = np.roll(np.arange(score.size), -start)[np.roll(score, -start).argmin()]\n"
        "        return RoutingDecision(np.array([best]), np.array([start + 1]))\n"
    )
    runs = []
    for routing in ("vllm", f"{file}:Mine"):
        section = EngineSection(policy="vllm", engine="kv-tokens=6000", count=3, routing=routing)
        network = Network({"pool": section}, {"chat": TaskSection(trace=TraceFile("chat"), engine="pool")})
        runs.append(simulate_network(network, traces={"chat": CHAT}).calls.engine.tolist())
    assert runs[0] == runs[1]


def test_a_routing_policy_without_a_rule_is_asked_and_gives_the_same_run(tmp_path):
    file = tmp_path / "mine.py"
    file.write_text(
        "from dataclasses import dataclass\nfrom evenstep.routing.policies.jsq import JSQ\n"
        "@dataclass(frozen=True)\nclass Mine:\n    def route(self, view):\n        return JSQ().route(view)\n"
    )
    network = example("k-parallel", until_s=3.0)
    mine = replace(network.engines["pool"], routing=f"{file}:Mine")
    assert simulate_network(replace(network, engines={"pool": mine})).digest == simulate_network(network).digest


def test_the_rule_of_a_policy_that_is_plain_only_is_not_asked(tmp_path):
    file = tmp_path / "plain.py"
    file.write_text(
        "from dataclasses import dataclass\nfrom typing import ClassVar\nfrom evenstep.routing.policies.jsq import JSQ\n"
        "from evenstep.routing.view import RoutingDecision\nimport numpy as np\n"
        "@dataclass(frozen=True)\nclass Last(JSQ):\n    plain_only: ClassVar[bool] = True\n"
        "    def route(self, view):\n"
        "        return RoutingDecision(np.full(view.waiting_id.size, view.load.size - 1, np.int64))\n"
    )
    network = example("k-parallel", until_s=1.0)
    run = simulate_network(replace(network, engines={"pool": replace(network.engines["pool"], routing=f"{file}:Last")}))
    assert set(run.calls.engine.tolist()) <= {3, -1}


def test_a_law_of_whole_numbers_is_read_as_one(tmp_path):
    file = tmp_path / "whole.py"
    file.write_text(
        "from dataclasses import dataclass\nfrom evenstep.cost.token_budget import TokenBudget\nimport numpy as np\n"
        "@dataclass(frozen=True)\nclass Whole(TokenBudget):\n    def table(self):\n"
        "        found = np.zeros(super().table().size, np.int64)\n        found[0] = 1\n        return found\n"
    )
    network = example("k-parallel", until_s=5.0)
    engines = {"pool": replace(network.engines["pool"], batch_time=f"{file}:Whole")}
    run = simulate_network(replace(network, engines=engines))
    assert not (run.calls.finished_s - run.calls.released_s < 1.0).any()


def test_a_policy_that_holds_for_ever_is_named_with_its_engine(tmp_path):
    file = tmp_path / "idle.py"
    file.write_text(
        "from dataclasses import dataclass\nimport numpy as np\nfrom evenstep.scheduling.view import BatchDecision\n"
        "@dataclass(frozen=True)\nclass Idle:\n    def form_batch(self, view):\n"
        "        n = view.left.size\n        return BatchDecision(np.zeros(n, np.int64), np.zeros(n, bool), view.memory)\n"
    )
    network = one_engine({"call": call("one")})
    engines = {"one": replace(network.engines["one"], policy=f"{file}:Idle")}
    with pytest.raises(PolicyError, match="one: holds for ever"):
        simulate_network(replace(network, engines=engines))


@pytest.mark.parametrize(
    ("answer", "kind", "said"),
    [
        ("raise ValueError('oops')", PolicyError, "one: the policy raised ValueError: oops"),
        (
            "from evenstep.errors import InputError; raise InputError('here', 'field', 1, 'another')",
            PolicyError,
            "one: the policy raised InputError: here: field is 1",
        ),
        ("return BatchDecision(2 * view.left, view.running, view.memory)", PolicyError, "one: request 0 was given"),
        ("raise KeyboardInterrupt", KeyboardInterrupt, None),
    ],
)
def test_an_error_of_a_policy_names_its_engine_and_a_stop_of_the_user_is_none(tmp_path, answer, kind, said):
    file = tmp_path / "mine.py"
    file.write_text(
        "from dataclasses import dataclass\nfrom evenstep.scheduling.view import BatchDecision\n"
        f"@dataclass(frozen=True)\nclass Mine:\n    def form_batch(self, view):\n        {answer}\n"
    )
    network = one_engine({"call": call("one")})
    engines = {"one": replace(network.engines["one"], policy=f"{file}:Mine")}
    with pytest.raises(kind, match=said):
        simulate_network(replace(network, engines=engines))


def test_a_seed_that_no_draw_can_take_is_named():
    with pytest.raises(InputError, match="simulate_network: seed is -1"):
        simulate_network(one_engine({"call": call("one")}), seed=-1)


def test_bundled_networks_run():
    for file in sorted(EXAMPLES.glob("*.yaml")):
        assert simulate_network(example(file.stem, until_s=400.0)).summary["calls"] > 100


@pytest.mark.parametrize("until_s", [None, 30.0])
def test_engines_that_share_no_task_run_as_if_each_were_alone(until_s):
    fork = TaskSection(
        calls={"a": call("left"), "b": call("middle"), "join": call("left", after=["a", "b"])},
        arrivals=Constant(0.3),
        count=12,
    )
    sole = TaskSection(calls={"only": call("right")}, arrivals=Constant(0.9), count=12)
    section = EngineSection(engine=UNIT, batch_time="unit", policy="sarathi")
    engines = dict.fromkeys(("left", "middle", "right"), section)
    both = simulate_network(Network(engines, {"fork": fork, "sole": sole}, until_s=until_s), samples=40)
    right = simulate_network(Network({"right": section}, {"sole": sole}, until_s=until_s), samples=40)
    left = simulate_network(Network({"left": section, "middle": section}, {"fork": fork}, until_s=until_s), samples=40)
    alone = {**left.engines, **right.engines}
    for name, run in alone.items():
        found = both.engines[name]
        assert np.array_equal(found.requests.finished_s, run.requests.finished_s), name
        assert found.totals.iterations == run.totals.iterations and found.totals.busy_s == run.totals.busy_s
    if until_s is not None:  # the same moments are looked at
        seen = np.concatenate([left.requests, right.requests], axis=1)
        assert np.array_equal(both.requests, seen) and both.requests.any(axis=0).all()


@pytest.mark.parametrize("until_s", [60.0, 400.0, None])
def test_the_verdict_is_on_the_time_in_which_tasks_arrive(until_s):
    """60 calls in 30 s, each a full batch of a second: the engine falls behind, and catches up when nothing arrives."""
    network = replace(one_engine({"call": call("one", 512, 1)}, count=60), until_s=until_s)
    run = simulate_network(replace(network, tasks={"task": replace(network.tasks["task"], arrivals=Constant(2.0))}))
    assert run.counted_s == 29.5 and run.summary["verdict"] == "unstable"
    assert run.summary["engines"]["one"]["verdict"] == "unstable"


def test_a_process_that_goes_on_arrives_until_the_run_stops():
    network = one_engine({"call": call("one")})
    tasks = {"task": replace(network.tasks["task"], count=None, arrivals=Constant(0.3))}
    assert simulate_network(replace(network, tasks=tasks, until_s=50.0)).counted_s == 50.0


@pytest.mark.parametrize(("until_s", "left"), [(None, 0), (30.0, 60 * 512 - 30 * 511 - 29)])
def test_tokens_left_are_those_at_the_end_of_the_run(until_s, left):
    """60 calls that arrive within 29.5 s; a batch of a second runs a prompt, and the one output token before it."""
    network = replace(one_engine({"call": call("one", 511, 1)}, count=60), until_s=until_s)
    run = simulate_network(replace(network, tasks={"task": replace(network.tasks["task"], arrivals=Constant(2.0))}))
    assert run.summary["tokens_left"] == run.summary["engines"]["one"]["tokens_left"] == left


@pytest.mark.parametrize("until_s", [2.5, 4.0])
def test_an_engine_is_busy_at_most_all_the_time_of_a_run(until_s):
    """An iteration of a second that a stop cut in two counted whole: an engine was busy for 120 % of 2.5 s."""
    network = replace(one_engine({"call": call("one", 511, 2)}, count=1), until_s=until_s)
    assert simulate_network(network).summary["engines"]["one"]["busy_share"] == pytest.approx(1.0)


def test_recorded_calls_can_have_a_priority():
    """Both types wait at one engine with one seat; the listed one is served first, although it is recorded."""
    log = Trace(np.full(20, 100), np.full(20, 20), np.zeros(20), session=np.full(20, -1))
    drawn = TaskSection(calls={"call": call("one")}, arrivals=Constant(1e6), count=20)
    ends = {}
    for priority in (["log.call", "drawn.call"], ["drawn.call", "log.call"]):
        engine = EngineSection(
            engine="token-budget=512,batch-limit=1,first-token=decode", batch_time="unit", priority=priority
        )
        tasks = {"log": TaskSection(trace=TraceFile("x"), engine="one"), "drawn": drawn}
        table = simulate_network(Network(engines={"one": engine}, tasks=tasks), traces={"log": log}).tasks
        ends[priority[0]] = [table.finished_s[table.task_type == k].mean() for k in range(2)]
    assert ends["log.call"][0] < ends["log.call"][1]
    assert ends["drawn.call"][0] > ends["drawn.call"][1]


def test_recorded_sessions_of_an_agent_are_workflows_and_orders_differ_where_calls_wait():
    agents = read_trace("sample:claude-code-sessions")
    pool = EngineSection(count=2, engine="token-budget=8192", batch_time="token-budget", routing="consistent-hash")
    task = TaskSection(engine="pool", trace=TraceFile("agents"), arrivals=Poisson(0.1))
    runs = {
        order: simulate_network(Network({"pool": pool}, {"agents": task}, order=order), traces={"agents": agents})
        for order in ("fcfs", "oldest-task", "least-attained", "critical-path", "longest-path")
    }
    session, think_s = agents.column("session"), agents.column("think_s")
    thinks = [think_s[session == k][1:] for k in np.unique(session)]
    for run in runs.values():
        assert run.summary["unfinished_tasks"] == 0 and run.tasks.arrival_s.size == 30
        for k in range(30):
            own = np.flatnonzero(run.calls.task == k)
            thought_s = run.calls.released_s[own[1:]] - run.calls.finished_s[own[:-1]]
            assert any(one.size == thought_s.size and np.allclose(one, thought_s) for one in thinks)
    digests = {order: run.digest for order, run in runs.items()}
    assert digests.pop("critical-path") == digests["oldest-task"], "in a chain every call is critical"
    assert len(set(digests.values())) == 4


def test_the_clock_of_an_idle_engine_stops_with_the_run():
    """It went on to the next event, a call in 60 s, and the engine was busy for -100 % of the time and more."""
    calls = {"first": call("one"), "then": call("one", after=["first"], delay_s=60.0)}
    run = simulate_network(replace(one_engine(calls, count=1), until_s=30.0))
    assert run.engines["one"].totals.makespan_s == 30.0 and run.engines["one"].totals.busy_s == 21.0
    assert run.summary["engines"]["one"]["busy_share"] == pytest.approx(0.7)


@pytest.mark.parametrize("policy", ["sarathi", "sjf:prompt-weight=1", "h-sf", "a-ell", "mlfq:level-wait-s=1e9"])
def test_calls_of_one_priority_wait_in_the_order_of_the_scheduling_policy(policy):
    """They waited in order of release, whatever the policy."""
    section = EngineSection(engine="token-budget=64,batch-limit=1", policy=policy)
    task = TaskSection({"call": CallSection("one", laws.Uniform(1, 50), laws.Uniform(1, 50))}, Poisson(1000.0), count=20)
    plain = simulate_network(Network({"one": section}, {"short": task}))
    listed = simulate_network(Network({"one": replace(section, priority=["short.call"])}, {"short": task}))
    assert listed.calls.finished_s.tolist() == plain.calls.finished_s.tolist()


@pytest.mark.parametrize("policy", ["sarathi", "sjf:prompt-weight=1e6", "h-sf", "a-ell"])
def test_a_call_passes_none_of_a_higher_priority_whatever_the_order_of_the_policy(policy):
    """All come within 20 ms to an engine with one seat, and only a short call that came first is done before the long ones."""
    section = EngineSection(engine="token-budget=64,batch-limit=1", policy=policy, priority=["long.call"])
    lengths = {"short": laws.Uniform(1, 50), "long": laws.Uniform(40, 90)}
    calls = {name: CallSection("one", law, law) for name, law in lengths.items()}
    tasks = {name: TaskSection({"call": one}, Poisson(1000.0), count=20) for name, one in calls.items()}
    run = simulate_network(Network({"one": section}, tasks))
    short, long = (run.calls.finished_s[run.calls.kind == k] for k in range(2))
    assert (short < long.max()).sum() <= 1


@pytest.mark.parametrize("order", ["oldest-task", "least-attained", "critical-path", "longest-path"])
def test_an_order_of_tasks_keeps_the_classes_of_a_policy_apart(order):
    """Calls of two types come in turn. ``class-first`` ran one in each batch, although all fit, and they piled up."""
    section = EngineSection(engine=UNIT, batch_time="unit", policy="class-first")
    tasks = {name: TaskSection({"call": call("one", 4, 1)}, Constant(30.0), count=300) for name in ("a", "b")}
    run = simulate_network(Network({"one": section}, tasks, order=order))
    assert run.summary["task_mean_s"] < 3.0


def test_a_policy_may_wait_beyond_the_stop_for_calls_that_come_after_it():
    """Three calls wait for a fourth. Calls after the stop are not drawn, yet the policy does not hold for ever."""
    trace = Trace(np.full(4, 9), np.full(4, 2), np.array([0.0, 1.0, 2.0, 90.0]))
    section = EngineSection(policy="wait:thresholds=4,max-hold-s=inf")
    network = Network({"one": section}, {"log": TaskSection(trace=TraceFile("x"), engine="one")}, until_s=50.0)
    run = simulate_network(network, traces={"log": trace})
    assert (run.until_s, run.summary["tasks"], run.summary["unfinished_tasks"]) == (50.0, 0, 3)
