"""NETWORK.yaml: what is refused, and how it is said."""

from __future__ import annotations

import re

import pytest
from tests.sim.network.networks import call, one_engine

from evenstep.cli.main import main
from evenstep.errors import InputError
from evenstep.sim.network import tasks
from evenstep.sim.network.description import EngineSection, load

FILE = """version: 1
until_s: 10
engines:
  one: {engine: "kv-tokens=4096"}
tasks:
  agent:
    arrivals: {process: constant, requests_per_s: 2}
    calls:
      plan: {engine: one, prompt: {law: constant, tokens: 100}, output: {law: constant, tokens: 10}, then: {act: 1.0}}
      act: {engine: one, prompt: {law: constant, tokens: 100}, output: {law: constant, tokens: 10}, then: {act: 0.5, end: 0.5}}
"""


def write(tmp_path, old: str, new: str):
    path = tmp_path / "net.yaml"
    assert old in FILE
    path.write_text(FILE.replace(old, new))
    return path


def test_a_good_file_is_read(tmp_path):
    network = load(write(tmp_path, "until_s: 10", "until_s: 20"))
    assert network.until_s == 20 and network.name == "net" and network.tasks["agent"].calls["act"].then["act"] == 0.5


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("act: {engine: one", "act: {engine: two", "tasks.agent.calls.act.engine is 'two'; expected a known engine"),
        ("end: 0.5}", "end: 0.4}", "tasks.agent.calls.act.then is 0.9; expected probabilities that sum to 1"),
        ("{act: 0.5, end: 0.5}", "{act: 1.0}", "tasks.agent.calls.plan.then is 'act'; expected no cycle without exit"),
        ("then: {act: 1.0}", "after: [act]", "plan.after is 'act'; expected a cycle with a beginning. The call that a"),
        (
            "then: {act: 0.5, end: 0.5}",
            "after: [plan]",
            "tasks.agent.calls.plan.then.act is 1.0; expected a call without `after`",
        ),
        (
            "then: {act: 1.0}",
            "then: {acts: 1.0}",
            "tasks.agent.calls.plan.then is 'acts'; expected a call of the task, or end",
        ),
        ("{act: 0.5, end: 0.5}", "{act: 1.5, end: -0.5}", "tasks.agent.calls.act.then.act is 1.5; expected a probability"),
        ("until_s: 10", "until_s: 0", "until_s is 0"),
        ("constant, requests_per_s: 2", "constant, requests_per_s: 0", "requests_per_s is 0"),
        (
            "constant, requests_per_s: 2",
            "gamma, requests_per_s: 2, cv: 1.0e-300",
            "cv is 1e-300; expected a number from 0.001",
        ),
        (
            "constant, requests_per_s: 2",
            "gamma, requests_per_s: 2, cv: 1.0e+300",
            "cv is 1e+300; expected a number from 0.001",
        ),
        ("constant, requests_per_s: 2", "saturated", "tasks.agent.arrivals is 'saturated'; expected a process with times"),
        (
            "kv-tokens=4096",
            "kv-tokens=100",
            "net.yaml line 9: tasks.agent.calls.plan is '100 + 10 tokens'; expected at most the 100 KV tokens of engine one. "
            "Give engines.one.engine kv-tokens=109, or cut its lengths off with the law capped",
        ),
        ("kv-tokens=4096", "data-parallel=2", "engines.one.engine.data_parallel is 2; expected 1. Use count"),
        (
            "output: {law: constant, tokens: 10}, then: {act: 1.0}",
            "output: {law: pareto, alpha: 1, minimum: 9}, then: {act: 1.0}",
            "tasks.agent.calls.plan.output.alpha is 1.0; expected a number > 1. This law has an infinite mean",
        ),
        ('"kv-tokens=4096"}', '"kv-tokens=4096", priority: [agent.plann]}', "engines.one.priority[0] is 'agent.plann'"),
        ('"kv-tokens=4096"}', '"kv-tokens=4096", count: 0}', "engines.one.count is 0; expected an integer >= 1"),
        ('"kv-tokens=4096"}', '"kv-tokens=4096", count: 2, routing: br-h}', "a routing policy that does not look ahead"),
        ('"kv-tokens=4096"}', '"kv-tokens=4096", count: 2, routing: "min-min:length=predicted"}', "length is 'predicted'"),
        ("until_s: 10", "until: 10", "until is 10; expected a known key"),
        (
            '"kv-tokens=4096"}',
            '"kv-tokens=4096", routing: jqs}',
            "line 4: engines.one.routing is 'jqs'; expected a known policy",
        ),
        (
            '"kv-tokens=4096"}',
            '"kv-tokens=4096", policy: sarati}',
            "line 4: engines.one.policy is 'sarati'; expected a known",
        ),
        ('"kv-tokens=4096"}', '"kv-tokens=4096", policy: "sarathi:x=1"}', "engines.one.policy.option is 'x'"),
        ('"kv-tokens=4096"}', '"kv-tokens=4096", batch_time: units}', "engines.one.batch_time is 'units'; expected a known"),
        ("kv-tokens=4096", "kv-tokens=-1", "line 4: engines.one.engine.kv_tokens is -1; expected an integer >= 0"),
        ("kv-tokens=4096", "kv-tokens", "engines.one.engine.option is 'kv-tokens'; expected key=value"),
        (
            '"kv-tokens=4096"}',
            '"kv-tokens=4096", priority: [agent.act, agent.act]}',
            "priority[1] is 'agent.act'; expected each",
        ),
        (
            '"kv-tokens=4096"}',
            '"kv-tokens=4096"}\n  two: {priority: [agent.act]}',
            "line 5: engines.two.priority[0] is 'agent.act'; expected a call of engine two. It runs on one.",
        ),
        ("until_s: 10", "until_s: 10\norder: fcsf", "order is 'fcsf'; expected one of fcfs, oldest-task, least-attained"),
        ("until_s: 10", "until_s: 10\nseed: -1", "line 3: seed is -1; expected an integer >= 0"),
        ("until_s: 10", f"until_s: 10\nseed: {10**23}", f"seed is {10**23}; expected an integer from 0 to {2**53}"),
        ("{act: 0.5, end: 0.5}", "{act: half, end: 0.5}", "tasks.agent.calls.act.then.act is 'half'; expected a number."),
        (
            "{act: 0.5, end: 0.5}",
            "{act: 0.999999999, end: 0.000000001}",
            "act.then is 'about 1e+09 visits of one task'; expected a loop that ends within 100000 visits",
        ),
        (
            '"kv-tokens=4096"}',
            '"kv-tokens=4096", count: 100000000000}',
            "line 4: engines.one.count is 100000000000; expected engines that fit the memory. Each takes 0.33 MB or more",
        ),
        ("requests_per_s: 2", "requests_per_s: 1.0e+12", "line 7: tasks.agent.arrivals is 'over 10,000,000 tasks in 10 s'"),
        ("  agent:\n", "  agent:\n    count: 10000001\n", "tasks.agent.count is 10000001; expected an integer from 1 to"),
        ("until_s: 10\n", "", "net.yaml line 5: tasks.agent.count is 'missing'; expected a number of tasks"),
        (
            "act: {engine: one",
            "end: {engine: one",
            "line 10: tasks.agent.calls.end is 'end'; expected another name of a call. In `then`, end means that the task",
        ),
    ],
)
def test_bad_input_is_one_line_that_names_field_and_value(tmp_path, capsys, old, new, said):
    path = write(tmp_path, old, new)
    assert main(["network", "run", str(path), "--seeds", "1"]) == 2
    error = capsys.readouterr().err
    assert said in error and error.count("\n") == 1


def test_a_loop_that_some_task_does_not_leave_is_refused_when_its_visits_are_drawn(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(tasks, "MOST_VISITS", 300)
    path = write(tmp_path, "{act: 0.5, end: 0.5}", "{act: 0.999, end: 0.001}")
    assert main(["network", "run", str(path), "--seeds", "1"]) == 2
    error = capsys.readouterr().err
    assert "act.then is 'over 300 visits of one task'" in error and error.count("\n") == 1


def test_a_limit_of_a_trace_is_named_with_its_line(tmp_path):
    path = tmp_path / "net.yaml"
    task = "{engine: one, trace: {file: log.csv, limit: 0}}"
    path.write_text(f"version: 1\nengines:\n  one: {{}}\ntasks:\n  log: {task}\n")
    with pytest.raises(InputError, match=r"net.yaml line 5: tasks.log.trace.limit is 0; expected a whole number >= 1"):
        load(path)


def test_calls_that_wait_for_each_other_are_refused(tmp_path):
    text = FILE.replace(", then: {act: 1.0}", "").replace("then: {act: 0.5, end: 0.5}", "after: [more]")
    call = "{engine: one, prompt: {law: constant, tokens: 1}, output: {law: constant, tokens: 1}, after: [act]}"
    path = tmp_path / "net.yaml"
    path.write_text(f"{text}      more: {call}\n")
    with pytest.raises(InputError, match="calls.act.after is 'more'; expected no cycle without exit"):
        load(path)


def joined(tmp_path, calls: str):
    """FILE with these calls; a comma after the lengths of each, then what they wait for or lead to."""
    lengths = "engine: one, prompt: {law: constant, tokens: 1}, output: {law: constant, tokens: 1}"
    path = tmp_path / "net.yaml"
    lines = [line.split(":", 1) for line in calls.splitlines()]
    text = "".join(f"      {name}: {{{lengths}{', ' if more.strip() else ''}{more.strip()}}}\n" for name, more in lines)
    path.write_text(FILE[: FILE.index("      plan")] + text)
    return path


@pytest.mark.parametrize(
    ("calls", "said"),
    [
        (
            "a: then: {left: 0.5, right: 0.5}\nleft:\nright:\njoin: after: [left, right]",
            "line 12: tasks.agent.calls.join.after is 'left, right'; expected calls that run equally often in every task. "
            "Where a task may run only some of them, or one more often, lead to join by `then` instead.",
        ),
        (
            "a: then: {left: 0.5, end: 0.5}\nleft:\njoin: after: [a, left]",
            "join.after is 'a, left'; expected calls that run",
        ),
        (
            "a: then: {b: 1}\nb: then: {b: 0.5, end: 0.5}\njoin: after: [a, b]",
            "join.after is 'a, b'; expected calls that run equally",
        ),
        ("a:\njoin: after: [a, a]", "join.after is 'a, a'; expected each call once"),
        (
            "a: then: {a: 0.5, end: 0.5}\nother:",
            "line 9: tasks.agent.calls.a is 'never reached'; expected a call that a task begins with or is led to. "
            "Only a leads to it: a loop that nothing begins.",
        ),
    ],
)
def test_a_call_that_waits_for_calls_that_do_not_always_run_together_is_refused(tmp_path, capsys, calls, said):
    """The call would never run, and its engine would look less loaded than it is."""
    assert main(["network", "check", str(joined(tmp_path, calls))]) == 2
    error = capsys.readouterr().err
    assert said in error and error.count("\n") == 1


@pytest.mark.parametrize(
    "calls",
    [
        "a:\nleft: after: [a]\nright: after: [a]\njoin: after: [left, right], then: {a: 0.2, end: 0.8}",
        "a: then: {left: 0.5, right: 0.5}\nleft: then: {b: 1}\nright: then: {b: 1}\nb:\njoin: after: [a, b]",
        "a: then: {b: 1}\nb: then: {b: 0.5, c: 0.5}\nc:\nnext:\njoin: after: [c, next, a]",
    ],
)
def test_calls_that_always_run_together_can_be_waited_for(tmp_path, calls):
    """Parallel branches, branches that meet again, and a loop that has ended."""
    assert load(joined(tmp_path, calls)).tasks["agent"].calls["join"].after


@pytest.mark.parametrize(
    ("calls", "place"),
    [
        ("a:\nb: after: [a]\nc: after: [b], then: {a: 1}", "c.then is 'a'"),
        ("a:\nleft: after: [a]\nright: after: [a]\njoin: after: [left, right], then: {a: 1}", "join.then is 'a'"),
        ("a: then: {b: 0.5, end: 0.5}\nb:\nc: after: [b]\nd: after: [c], then: {b: 1, end: 0}", "d.then is 'b'"),
        (
            "a:\nleft: after: [a], then: {a: 0.5, end: 0.5}\nright: after: [a], then: {a: 0.5, end: 0.5}",
            "left.then is 'a'",
        ),
        (
            "go: then: {go: 0.9, a: 0.1}\na:\nleft: after: [a], then: {a: 0.6, end: 0.4}\n"
            "right: after: [a], then: {a: 0.6, end: 0.4}",
            "left.then is 'a'",
        ),
    ],
)
@pytest.mark.parametrize("command", ["check", "run"])
def test_a_loop_through_calls_that_wait_has_to_end(tmp_path, capsys, calls, place, command):
    """Each run leads to one more, or to several: the task would never end, and its loads would be infinite or below zero."""
    assert main(["network", command, str(joined(tmp_path, calls))]) == 2
    error = capsys.readouterr().err
    assert f"{place}; expected no cycle without exit. Each run of the loop leads to at least one more" in error
    assert error.count("\n") == 1


@pytest.mark.parametrize(
    "calls",
    [
        "a:\nleft: after: [a], then: {a: 0.4, end: 0.6}\nright: after: [a], then: {a: 0.4, end: 0.6}",
        "a: then: {a: 0.999, end: 0.001}\nb: after: [a]\nc: after: [a]",
        "a:\nleft: after: [a]\nright: after: [a], then: {c: 1}\nc: then: {c: 0.9, end: 0.1}",
    ],
)
def test_a_loop_that_ends_may_fork(tmp_path, calls):
    assert load(joined(tmp_path, calls))


def test_an_error_names_the_line_of_the_file(tmp_path):
    with pytest.raises(InputError, match="net.yaml line 10: tasks.agent.calls.act.engine"):
        load(write(tmp_path, "act: {engine: one", "act: {engine: two"))


def test_a_recorded_request_too_large_for_its_engine_is_named_with_the_line(tmp_path, capsys):
    path = tmp_path / "net.yaml"
    tasks = "tasks:\n  chat:\n    engine: one\n    trace: {file: 'sample:azure-conv', limit: 50}\n"
    path.write_text(f'version: 1\nengines:\n  one: {{engine: "kv-tokens=100"}}\n{tasks}')
    assert main(["network", "check", str(path)]) == 2
    error = capsys.readouterr().err
    assert "net.yaml line 7: tasks.chat.trace is '" in error and "leave the request out of the trace" in error


def test_an_engine_named_like_a_member_of_a_group_is_refused(tmp_path):
    """One of the two was lost, and the other's calls were taken for those of a third."""
    path = write(tmp_path, '"kv-tokens=4096"}', '"kv-tokens=4096", count: 2}\n  one-1: {}')
    said = "line 5: engines.one-1 is 'one-1'; expected another name of an engine. The engines of group one are named one-0 to one-1."
    with pytest.raises(InputError, match=re.escape(said)):
        load(path)


@pytest.mark.parametrize("name", ["one-2", "one-01", "one-x", "two-0"])
def test_an_engine_may_have_a_name_that_no_member_of_a_group_has(tmp_path, name):
    assert name in load(write(tmp_path, '"kv-tokens=4096"}', f'"kv-tokens=4096", count: 2}}\n  {name}: {{}}')).engines


def test_two_calls_with_one_name_are_refused(tmp_path):
    """Both had the same lengths in every task, and one entry of a priority list stood for both."""
    plain = "calls: {b.c: {engine: one, prompt: {law: constant, tokens: 9}, output: {law: constant, tokens: 1}}}"
    made = f"tasks:\n  a: {{count: 1, arrivals: {{process: at-once}}, {plain}}}\n"
    made += made[7:].replace(" a:", " a.b:").replace("b.c:", "c:")
    said = "line 7: tasks.a.b.calls.c is 'a.b.c'; expected another name. Call b.c of task a has it, as TASK.CALL."
    with pytest.raises(InputError, match=re.escape(said)):
        load(write(tmp_path, FILE[FILE.index("tasks:") :], made))


def test_tasks_that_all_arrive_at_once_need_a_count(tmp_path):
    """A run made 1,024 of them."""
    path = write(tmp_path, "constant, requests_per_s: 2", "at-once")
    with pytest.raises(InputError, match=r"line 6: tasks.agent.count is 'missing'; expected a number of tasks. All of them"):
        load(path)
    path.write_text(path.read_text().replace("  agent:", "  agent:\n    count: 3"))
    assert load(path).tasks["agent"].count == 3


@pytest.mark.parametrize("section", [lambda: EngineSection(count=1.5), lambda: one_engine({"a": call("one")}, count=2.5)])
def test_a_number_of_engines_or_tasks_is_whole(section):
    with pytest.raises(InputError, match="count is .*5; expected an integer"):
        section()
