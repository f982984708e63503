"""NETWORK.yaml: what is refused, and how it is said."""

from __future__ import annotations

import pytest

from evenstep.cli.main import main
from evenstep.errors import InputError
from evenstep.sim.network.description import load

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
        ("then: {act: 1.0}", "after: [act]", "tasks.agent.calls.plan.after is 'act'; expected a cycle with a beginning"),
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
        ("constant, requests_per_s: 2", "saturated", "tasks.agent.arrivals is 'saturated'; expected a process with times"),
        (
            "kv-tokens=4096",
            "kv-tokens=100",
            "net.yaml line 9: tasks.agent.calls.plan is '100 + 10 tokens'; expected at most the 100 KV tokens of engine one. "
            "Give engines.one.engine kv-tokens=109, or cut its lengths off",
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
        ("{act: 0.5, end: 0.5}", "{act: half, end: 0.5}", "tasks.agent.calls.act.then.act is 'half'; expected a number."),
        ("{act: 0.5, end: 0.5}", "{act: 0.99999, end: 0.00001}", "act.then is 'over 100000 visits of one task'"),
        ("requests_per_s: 2", "requests_per_s: 1.0e+12", "line 7: tasks.agent.arrivals is 'over 10,000,000 tasks in 10 s'"),
        ("  agent:\n", "  agent:\n    count: 10000001\n", "tasks.agent.count is 10000001; expected an integer from 1 to"),
        ("until_s: 10\n", "", "net.yaml line 5: tasks.agent.count is 'missing'; expected a number of tasks"),
    ],
)
def test_bad_input_is_one_line_that_names_field_and_value(tmp_path, capsys, old, new, said):
    path = write(tmp_path, old, new)
    assert main(["network", "run", str(path), "--seeds", "1"]) == 2
    error = capsys.readouterr().err
    assert said in error and error.count("\n") == 1


def test_calls_that_wait_for_each_other_are_refused(tmp_path):
    text = FILE.replace(", then: {act: 1.0}", "").replace("then: {act: 0.5, end: 0.5}", "after: [more]")
    call = "{engine: one, prompt: {law: constant, tokens: 1}, output: {law: constant, tokens: 1}, after: [act]}"
    path = tmp_path / "net.yaml"
    path.write_text(f"{text}      more: {call}\n")
    with pytest.raises(InputError, match="calls.act.after is 'more'; expected no cycle without exit"):
        load(path)


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
