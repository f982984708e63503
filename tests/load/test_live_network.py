"""A network's tasks through the gateway: what is started and said, and Rybko-Stolyar's blow-up and cure on sockets."""

from __future__ import annotations

import math
from contextlib import contextmanager
from dataclasses import replace

import numpy as np
import pytest
from tests.load.outcomes import four
from tests.sim.network.networks import call, example, one_engine

from evenstep.errors import InputError
from evenstep.load import live_network
from evenstep.load.live_network import emulated, gateway_config, priorities, routing_of, run_live, slots_of
from evenstep.load.records import Records
from evenstep.sim.network.description import EngineSection, Network, TaskSection
from evenstep.sim.network.simulation import simulate_network
from evenstep.sim.network.tasks import draw
from evenstep.workload.synthetic.arrivals import Poisson

SMALL = example("rybko-stolyar-small", until_s=5.0)
PORTS = {"one": 1, "two": 2}


def reversed_priorities(network: Network) -> Network:
    return replace(
        network, engines={name: replace(one, priority=one.priority[::-1]) for name, one in network.engines.items()}
    )


def test_an_engine_is_emulated_with_its_own_batch_time_law():
    words = emulated("one", SMALL.engines["one"], 80, speed=2.0)
    said = dict(zip(words[1::2], words[2::2], strict=True))
    assert said["--batch-time"] == SMALL.engines["one"].batch_time and float(said["--overhead-s"]) == 0.0
    assert (said["--slots"], said["--token-budget"], said["--model"], said["--speed"]) == ("1", "512", "one", "2.0")


def test_an_engine_without_a_limit_on_its_memory_is_emulated_without_one():
    words = emulated("one", EngineSection(engine="batch-limit=256"), 80)
    assert int(words[words.index("--kv-tokens") + 1]) > 256 * 2**20
    assert "--block-size" not in words, "none is said"
    assert [words[words.index(flag) + 1] for flag in ("--token-budget", "--slots", "--speed")] == ["2048", "256", "1.0"]
    limited = emulated("one", EngineSection(engine="batch-limit=256,kv-tokens=4096,block-tokens=32"), 80)
    assert [limited[limited.index(flag) + 1] for flag in ("--kv-tokens", "--block-size")] == ["4096", "32"]


@pytest.mark.parametrize(
    ("engine", "slots"),
    [
        ("batch-limit=8", 8),
        ("batch-limit=8,resident-limit=4", 4),
        ("batch-limit=0,resident-limit=6,token-budget=512", 6),
        ("batch-limit=0,token-budget=512", 512),
        ("batch-limit=0,token-budget=0", 256),
    ],
)
def test_an_engine_has_as_many_slots_as_its_lower_limit_on_requests(engine, slots):
    assert slots_of(EngineSection(engine=engine)) == slots


def test_a_group_is_a_pool_of_single_ranks():
    network = example("agent-loop", order="least-attained")
    config = gateway_config(network, routing_of(network), {"pool": 1})
    assert config["dispatch"]["order"] == "least-attained" and config["policy"] == "jsq"
    assert [(one["rank"], one["group"], one["models"]) for one in config["workers"]] == [
        (k, f"pool-{k}", ["pool"]) for k in range(3)
    ]
    single = gateway_config(SMALL, "jsq", PORTS)
    assert single["dispatch"] == {"order": "priority", "gather_ms": 0.0, "ttl_s": 3600.0, "pool_limit": 1_000_000}
    assert single["workers"][1] == {
        "url": "http://127.0.0.1:2",
        "name": "two",
        "group": "two",
        "models": ["two"],
        "slots": 1,
    }


@pytest.mark.parametrize("order", ["critical-path", "longest-path"])
def test_among_calls_of_one_priority_the_oldest_task_is_first_as_in_the_simulator(order):
    config = gateway_config(replace(SMALL, order=order), "jsq", PORTS)
    assert config["dispatch"]["order"] == "oldest-task"


def test_priorities_rank_calls_first_and_order_them_by_their_paths_then():
    calls = draw(SMALL)
    ranks = {".".join(calls.kinds[k]): priorities(SMALL, calls)[calls.kind == k][0] / 2**44 for k in range(4)}
    assert ranks == {"A.short": 1, "A.long": 0, "B.short": 1, "B.long": 0}
    longest = priorities(replace(SMALL, order="longest-path"), calls)
    assert longest[calls.kind == 0][0] == 2**44 - (34 + 402)


def test_slack_counts_only_under_the_order_that_asks_for_it():
    network = example("research-agents")
    calls = draw(network)
    slack = {order: priorities(replace(network, order=order), calls) % 2**44 for order in ("fcfs", "critical-path")}
    assert not slack["fcfs"].any() and slack["critical-path"].any()


def test_groups_with_different_routing_are_refused():
    pool = example("agent-loop").engines["pool"]
    network = replace(SMALL, engines={"one": pool, "two": replace(pool, routing="random")})
    with pytest.raises(InputError, match="routing is 'jsq, random'; expected one routing policy"):
        routing_of(network)


def test_the_routing_of_a_group_is_the_gateway_s_and_that_of_a_single_engine_does_not_matter():
    pool = replace(example("agent-loop").engines["pool"], routing="random")
    assert routing_of(replace(SMALL, engines={"one": pool, "two": replace(pool, count=1, routing="jsq")})) == "random"
    assert routing_of(replace(SMALL, engines=dict.fromkeys(("one", "two"), replace(pool, count=2)))) == "random"
    assert routing_of(replace(SMALL, engines=dict.fromkeys(("one", "two"), replace(pool, count=1)))) == "jsq"


@pytest.mark.parametrize("speed", [0.0, math.inf])
def test_a_speed_of_zero_or_without_end_is_refused(speed):
    with pytest.raises(InputError, match=f"--speed is {speed}; expected a finite number > 0"):
        run_live(SMALL, speed=speed)


@pytest.fixture
def stage(monkeypatch):
    """A stage without processes: what was started, with which config and settings; `ends` gives each call's end and error."""
    seen = {"engines": [], "ends": lambda row: (math.nan, "not-ended")}

    @contextmanager
    def beside(words, port, path, wait_s):
        seen["engines"].append((words[words.index("--model") + 1], words[words.index("--speed") + 1], port, path))
        yield 1

    @contextmanager
    def gateway(config, listen, admin, wait_s):
        seen["config"], seen["ports"] = config, (listen, admin)
        yield 2

    def drive(trace, settings, workflow):
        seen["settings"], seen["workflow"] = settings, workflow
        records = Records.of(trace)
        while (found := workflow.due(math.inf)) is not None:
            row, records.due_s[row] = found
            records.ended_s[row], records.error[row] = seen["ends"](row)
            workflow.ended(row, records.ended_s[row])
        return four(records=records)

    for stub in (beside, gateway, drive):
        monkeypatch.setattr(live_network, stub.__name__, stub)
    return seen


def test_times_of_a_live_run_are_on_the_scale_of_the_network(stage):
    """Two tasks of two calls at four times the pace: of the first's calls one fails and one is on, the second takes 8 s."""
    network = one_engine({"plan": call("one"), "act": call("one", after=["plan"])}, count=2, until_s=100.0)
    calls = draw(network, seed=3)
    came_s = calls.arrival_s
    ends = {row: (float(came_s[calls.task[row]] + 3.0) / 4, "") for row in range(4)}
    plans, acts = np.flatnonzero(calls.kind == 0), np.flatnonzero(calls.kind == 1)
    ends[int(plans[0])] = ((came_s[0] + 3.0) / 4, "cut")
    ends[int(acts[0])] = (math.nan, "not-ended")
    ends[int(acts[1])] = ((came_s[1] + 8.0) / 4, "")
    assert came_s[1] > 0
    stage["ends"] = ends.__getitem__
    live = run_live(network, seed=3, speed=4.0)
    assert (live.order, live.seed, live.tasks, live.unfinished, live.failed) == ("fcfs", 3, 2, 1, 1)
    assert live.latencies["task_mean_s"] == pytest.approx(8.0)
    assert live.latencies["call_mean_s"] == pytest.approx((3.0 + 5.0 + 3.0) / 3)
    assert stage["workflow"].until_s == 25.0


def test_without_a_speed_and_a_seed_time_passes_as_in_the_file_and_the_seed_is_0(stage):
    live = run_live(SMALL)
    assert (live.seed, live.tasks, stage["workflow"].until_s) == (0, int(draw(SMALL, seed=0).arrival_s.size), 5.0)
    assert {speed for _, speed, _, _ in stage["engines"]} == {"1.0"}


def test_every_engine_and_the_gateway_have_a_port_of_their_own_and_know_each_other(stage):
    run_live(SMALL, seed=5, speed=2.0)
    engines, settings = stage["engines"], stage["settings"]
    assert [(model, speed, path) for model, speed, _, path in engines] == [(m, "2.0", "/health") for m in ("one", "two")]
    ports = [port for _, _, port, _ in engines]
    assert len({*ports, *stage["ports"]}) == 4
    assert [one["url"] for one in stage["config"]["workers"]] == [f"http://127.0.0.1:{port}" for port in ports]
    assert settings.url == f"http://127.0.0.1:{stage['ports'][0]}"
    assert (settings.seed, settings.source) == (5, SMALL.name)


def test_a_call_waits_at_the_client_for_as_long_as_in_the_pool_of_the_gateway(stage):
    """In a network that blows up, calls wait for longer than the ten minutes after which `evenstep load` gives up."""
    run_live(SMALL)
    assert stage["settings"].timeout_s == stage["config"]["dispatch"]["ttl_s"] == 3600.0


@pytest.mark.slow
@pytest.mark.filterwarnings("error")
def test_a_run_in_which_no_call_ends_has_no_latency():
    live = run_live(replace(SMALL, until_s=0.05))
    assert live.unfinished == live.tasks > 0 and np.isnan(live.latencies["task_mean_s"])


@pytest.mark.slow
def test_rybko_stolyar_blows_up_live_and_reversed_priorities_cure_it():
    """The simulator leaves 39 tasks and 4 of these; a machine that is late leaves a few more."""
    blown, cured = (run_live(network, seed=8) for network in (SMALL, reversed_priorities(SMALL)))
    assert blown.tasks == cured.tasks and blown.failed == cured.failed == 0
    assert blown.unfinished > 20 and cured.unfinished < 15
    assert blown.latencies["call_mean_s"] > 2 * cured.latencies["call_mean_s"]


def crowded(network: Network, seconds: float) -> Network:
    """Twice as many tasks a second as in the file, for so many seconds: most calls wait, so orders matter most."""
    tasks: dict[str, TaskSection] = {}
    for name, task in network.tasks.items():
        assert isinstance(task.arrivals, Poisson)
        rate = 2 * task.arrivals.requests_per_s
        tasks[name] = replace(task, arrivals=Poisson(rate), count=int(rate * seconds))
    return replace(network, tasks=tasks)


@pytest.mark.slow
def test_agent_aware_orders_beat_first_come_first_served_live_on_the_same_tasks():
    """The simulator has 0.52 and 0.66 of the mean task latency; without any order the gateway has 1.

    A busy machine comes late with everything, which brings the orders nearer to each other: 0.76 and 0.68 were
    left on one that had twice as much to do as it could.
    """
    network, mean_s = crowded(example("research-agents"), 20.0), dict[str, float]()
    for order in ("fcfs", "critical-path", "least-attained"):
        live = run_live(replace(network, order=order), seed=3, speed=5.0)
        assert live.failed == live.unfinished == 0
        mean_s[order] = live.latencies["task_mean_s"]
    assert mean_s["critical-path"] < 0.9 * mean_s["fcfs"], mean_s
    assert mean_s["least-attained"] < 0.9 * mean_s["fcfs"], mean_s


@pytest.mark.slow
def test_tasks_of_many_decode_tokens_last_as_long_live_as_simulated():
    """Prompts of 10 tokens, outputs of 150, iterations of 2 ms and 0.2 ms a token; time passes at half the pace.

    An idle machine comes within 10 %. A busy one is late and takes longer, never shorter, so the best of five runs counts.
    """
    section = EngineSection(
        engine="token-budget=512,batch-limit=0", batch_time="token-budget:c-s=0.002,a-s=0.0002,b0=0", policy="sarathi"
    )
    task = TaskSection(calls={"all": call("one", 10, 150)}, arrivals=Poisson(20.0), count=200)
    network = Network(engines={"one": section}, tasks={"task": task}, until_s=10.0)
    simulated_s, ratios = simulate_network(network, seed=3).summary["task_mean_s"], [math.inf]
    while len(ratios) <= 5 and ratios[-1] >= 1.1:
        live = run_live(network, seed=3, speed=0.5)
        assert live.failed == 0
        ratios.append(live.latencies["task_mean_s"] / simulated_s)
    assert 0.9 < ratios[-1] < 1.1, ratios
