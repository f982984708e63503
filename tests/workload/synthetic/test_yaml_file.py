from __future__ import annotations

from pathlib import Path

import pytest

from evenstep.errors import InputError
from evenstep.request import Trace
from evenstep.workload import reading
from evenstep.workload.replicate import rate, replicate, rescaled
from evenstep.workload.synthetic import arrivals, laws
from evenstep.workload.synthetic.synthetic import Recurring, Synthetic
from evenstep.workload.synthetic.yaml_file import Workload, check_means, load

EXAMPLES = sorted((Path(__file__).parents[3] / "examples" / "workloads").glob("*.yaml"))
BURST = """version: 1
synthetic:
  requests: 12000
  prompt: {law: lognormal, mu: 6.1, sigma: 1.15, low: 4, high: 4096}
  output: {law: gamma, shape: 1.5, scale: 180, low: 1, high: 2000}
"""
CLUSTER = {"workers": 16, "slots": 72, "overhead_s": 0.0049, "per_token_s": 1.1e-7}


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda p: p.stem)
def test_every_example_draws(path):
    workload = load(path)
    trace = replicate(rescaled(workload.source, load=workload.load, requests_per_s=workload.requests_per_s, **CLUSTER), 0, 0)
    assert len(trace) >= 2000
    assert workload.description


def test_burst_is_the_workload_of_the_bands():
    source = load(next(p for p in EXAMPLES if p.stem == "burst")).source
    assert source == Synthetic(
        12_000, laws.Lognormal(1.15, mu=6.1, low=4, high=4096), laws.Gamma(1.5, 180.0, 1, 2000), name="burst"
    )
    trace = source.draw(0)
    assert trace.arrival_s is None
    assert (trace.prompt_tokens.min() >= 4, trace.prompt_tokens.max(), trace.output_tokens.max()) == (
        True,
        4096,
        2000,
    )


def test_a_file_may_hold_everything_a_synthetic_workload_has(write):
    text = (
        BURST + "  arrivals: {process: gamma, requests_per_s: 3, cv: 2.5}\n  recurring: {keys: 300, jitter: 3}\n  seed: 9\n"
    )
    source = load(write("w.yaml", text)).source
    assert (source.arrivals, source.recurring, source.seed, source.name) == (
        arrivals.Gamma(3.0, 2.5),
        Recurring(300, 3),
        9,
        "w.yaml",
    )
    assert load(write("v.yaml", BURST + "  arrivals: at-once\n")).source.arrivals == arrivals.AtOnce()


def test_a_trace_file_is_found_beside_the_yaml_and_scaled(write, samples):
    write("t.csv", (samples / "azure.csv").read_text())
    workload = load(write("w.yaml", "version: 1\nrequests_per_s: 2\ntrace: {file: t.csv, limit: 8}\n"))
    assert isinstance(workload.source, Trace) and len(workload.source) == 8
    assert rate(rescaled(workload.source, requests_per_s=workload.requests_per_s)) == pytest.approx(2)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("version: 1", "version: 2", r"w\.yaml line 1: version is 2; expected 1"),
        ("version: 1\n", "", r"version is 'missing'"),
        (
            "sigma",
            "sigmaa",
            r"w\.yaml line 4: synthetic\.prompt\.sigmaa is 1\.15; expected a known key\. Did you mean sigma",
        ),
        ("lognormal", "lognorml", r"synthetic\.prompt\.law is 'lognorml'.*Did you mean lognormal"),
        ("law: gamma, ", "", r"w\.yaml line 5: synthetic\.output is .*expected a mapping with `law`"),
        ("12000", "many", r"synthetic\.requests is 'many'; expected an integer"),
        ("12000", "0", r"w\.yaml line 3: synthetic\.requests is 0"),
        (
            "12000",
            "1" + "0" * 30,
            r"w\.yaml line 3: synthetic\.requests is 10{30}; expected a whole number in 1\.\.100000000",
        ),
        ("1.15", "-1", r"synthetic\.prompt\.sigma is -1"),
        ("1.15", "1e-1x", r"synthetic\.prompt\.sigma is '1e-1x'"),
        ("  requests: 12000\n", "", r"synthetic\.requests is 'missing'"),
        ("synthetic:", "synthetc:", r"synthetc is .*Did you mean synthetic"),
        (
            "low: 1,",
            "low: 1, low: 2,",
            r"w\.yaml line 5: key is 'synthetic\.output\.low'; expected each key once",
        ),
        ("{law", "[law", r"w\.yaml line \d+: text is .*expected YAML"),
        ("version: 1", "version: 1\nrequests_per_s: 1\nload: 1", "requests_per_s and load is 'both'"),
        (
            "version: 1",
            "version: 1\nrequests_per_s: -5",
            r"w\.yaml line 2: requests_per_s is -5\.0; expected a finite number > 0",
        ),
        ("version: 1", "version: 1\nload: .nan", "load is nan; expected a finite number > 0"),
        ("version: 1", "version: 1\ntrace: {file: x}", "synthetic and trace is 'both'"),
        ("  requests: 12000\n", "  requests: 9\n  classes: 5\n", r"synthetic\.classes is 5; expected a list"),
        (
            "  requests: 12000\n",
            "  requests: 9\n  classes: [5]\n",
            r"synthetic\.classes\[0\] is 5; expected a mapping",
        ),
        (
            "synthetic:",
            "trace: {file: x, options: 5}\nsynthetic:",
            r"w\.yaml line 2: trace\.options is 5; expected a mapping of names to values",
        ),
        (
            "  requests: 12000\n",
            "  requests: 9\n  classes: [{share: 1}, {share: 0}]\n",
            r"synthetic\.classes\[1\]\.share is 0.0; expected a finite number above 0",
        ),
        (
            "  requests: 12000\n",
            "  requests: 9\n  classes: [{share: 1, prompt: {law: gama}}]\n",
            r"synthetic\.classes\[0\]\.prompt\.law is 'gama'.*gamma",
        ),
    ],
)
def test_a_mistake_is_named_with_its_place(write, old, new, message):
    assert old in BURST
    with pytest.raises(InputError, match=message):
        load(write("w.yaml", BURST.replace(old, new)))


def test_numbers_are_those_of_yaml_1_2(write):
    source = load(write("w.yaml", BURST.replace("1.15", "1e-1").replace("6.1", "61e-1"))).source
    assert source.prompt == laws.Lognormal(0.1, mu=6.1, low=4, high=4096)


@pytest.mark.parametrize("text", ["", "- 1\n", "version: 1\n", "5\n", "version: 1\n? [a]\n: b\n", "\x00"])
def test_what_is_no_workload_is_one_error(write, text):
    with pytest.raises(InputError):
        load(write("w.yaml", text))


def test_a_fit_to_a_trace_without_times_cannot_give_arrivals(write, samples):
    text = BURST + f"  arrivals: {{process: like-trace, file: '{samples / 'lengths.csv'}'}}\n"
    with pytest.raises(InputError, match=r"synthetic\.arrivals\.file is .*expected a trace with arrival times"):
        load(write("w.yaml", text))


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("  requests", "  arrivals: {process: like-trace, file: t.csv}\n  requests", r"line 3: synthetic\.arrivals\.gaps is 'none'"),
        ("gamma, shape: 1.5, scale: 180, low: 1, high: 2000", "fitted, file: t.csv, column: prompt_tokens, kind: lognormal",
         r"line 5: synthetic\.output\.high is 20000000"),
    ],
)  # fmt: skip
def test_a_trace_that_does_not_suit_a_law_is_named_with_the_place(write, old, new, message):
    write("t.csv", "prompt_tokens,output_tokens,arrival_s\n20000000,5,3\n9,5,3\n")
    with pytest.raises(InputError, match=rf"w\.yaml {message}"):
        load(write("w.yaml", BURST.replace(old, new)))


def test_a_workload_that_names_a_trace_has_the_name_in_its_file(write, samples):
    for file, name in (("azure.csv", "mine"), ("servegen.tar.gz", "drawn")):
        assert load(write("w.yaml", f"version: 1\nname: {name}\ntrace: {{file: '{samples / file}'}}\n")).source.name == name
    assert load(write("w.yaml", f"version: 1\ntrace: {{file: '{samples / 'azure.csv'}'}}\n")).source.name == "azure.csv"


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("lognormal, mu: 6.1, sigma: 1.15", "pareto, alpha: 1, minimum: 9", None),
        ("high: 4096}", "high: 4096}\n  classes: [{share: 1}, {share: 1, output: {law: pareto, alpha: 1, minimum: 9}}]", 5),
    ],
)
def test_a_law_of_infinite_mean_is_refused_with_its_line(write, old, new, said):
    path = write("w.yaml", BURST.replace(old, new))
    if said is None:  # cut off at 4,096 tokens
        check_means(load(path))
        return
    with pytest.raises(InputError, match=rf"w\.yaml line {said}: synthetic\.classes\[1\]\.output\.alpha is 1\.0.*infinite"):
        check_means(load(path))


def test_a_recorded_trace_has_a_mean(samples):
    check_means(Workload(reading.read_trace(samples / "azure.csv")))


def test_a_law_of_infinite_mean_without_a_file_is_named_with_its_source():
    source = Synthetic(9, laws.Constant(3), laws.Pareto(alpha=0.9, minimum=4), name="heavy")
    with pytest.raises(InputError, match=r"heavy: synthetic\.output\.alpha is 0\.9.*infinite"):
        check_means(Workload(source))


@pytest.mark.parametrize("name", ["limit", "seed", "path", "format", "skip_bad_rows"])
def test_an_argument_of_every_format_is_no_option_of_one(write, samples, name):
    path = write("w.yaml", f"version: 1\ntrace: {{file: '{samples / 'azure.csv'}', options: {{{name}: 5}}}}\n")
    with pytest.raises(InputError, match=f"azure: option is '{name}'; expected a known option"):
        load(path)
