"""What a person gets from `evenstep.compare` in Python."""

from __future__ import annotations

import sys

import numpy as np
import pytest

import evenstep
from evenstep.errors import InputError
from evenstep.experiments.compare.compared import Compared, versions
from evenstep.request import Trace
from evenstep.routing.policies.jsq import JSQ
from evenstep.sim.cluster.simulation import Cluster

CLUSTER = Cluster(workers=3, slots=2, pool=8)


@pytest.fixture(scope="module")
def found() -> Compared:
    rows = 60
    trace = Trace(np.arange(5, 5 + rows), np.arange(rows) % 7 + 1, np.arange(rows) * 0.01, name="small")
    return evenstep.compare(trace, ["jsq", "br-0", "bf-io:predictor=oracle,horizon=4"], cluster=CLUSTER, seeds=2)


def test_it_prints_as_the_table_of_the_command_line(found):
    lines = str(found).splitlines()
    assert lines[0].startswith("policy") and lines[2].startswith("jsq ") and lines[3].startswith("br-0")
    assert any(line.startswith(f"digest {found['jsq'].digest[:16]}") for line in lines)
    assert repr(found) == ("<comparison of jsq, br-0, bf-io:predictor=oracle,horizon=4 on small, 2 replicates>")
    assert repr(found["jsq"]) == f"<result of jsq, 2 replicates, digest {found['jsq'].digest[:16]}>"


def test_a_notebook_shows_its_tables_and_no_style_of_the_page_around_it(found):
    html = found._repr_html_()
    assert html.count("<table>") == 2 and "Differences to jsq" in html
    style = html[html.index("<style>") + 7 : html.index("</style>")]
    assert all(rule.lstrip().startswith(".evenstep") for rule in style.split("}") if rule.strip())


def test_as_a_table_it_has_a_row_a_policy_and_replicate(found):
    table = found.to_arrow()
    assert table.num_rows == 6
    assert table.column("policy").to_pylist()[:3] == ["jsq", "jsq", "br-0"]
    assert table.column("makespan_s").to_pylist()[:2] == found["jsq"].values("makespan_s")
    assert {"oracle", "seed", "digest", "idle_time_share", "overloaded"} <= set(table.schema.names)
    assert not {"window", "waits_by_prompt_fifth"} & set(table.schema.names)


def test_without_pandas_a_data_frame_is_one_clear_error(found, monkeypatch):
    monkeypatch.setattr("evenstep.measure.frames.find_spec", lambda name: None)
    with pytest.raises(evenstep.InputError, match="pandas is 'missing'.*pip install pandas, or use to_arrow"):
        found.to_pandas()


def test_with_pandas_a_data_frame_is_the_same_table(found):
    pytest.importorskip("pandas")
    assert found.to_pandas().shape == (6, found.to_arrow().num_columns)


def test_the_report_has_every_chart_though_the_runs_kept_no_records(found, tmp_path):
    page = found.report(tmp_path / "report.html").read_text(encoding="utf-8")
    assert "Not recorded" not in page and page.count("<svg") >= 9
    with pytest.raises(evenstep.InputError, match=r"path is .*x\.pdf'; expected a name that ends in \.html"):
        found.report(tmp_path / "x.pdf")


def test_an_unknown_metric_or_policy_offers_the_nearest(found):
    with pytest.raises(evenstep.InputError, match="metric is 'idle'; expected a known metric. Did you mean idle_share"):
        found["jsq"].mean("idle")
    with pytest.raises(evenstep.InputError, match="metric is 3; expected a known metric"):
        found["jsq"].mean(3)
    for ask in (found["jsq"].interval, found["jsq"].values, found.plot):
        with pytest.raises(evenstep.InputError, match="Did you mean makespan_s"):
            ask("makespan")
    with pytest.raises(evenstep.InputError, match="policy is 'jqs'.*Did you mean jsq"):
        found["jqs"]


@pytest.mark.parametrize("policy", ["jsq", {"name": "jsq"}, JSQ(), iter(["jsq"])])
def test_one_policy_needs_no_list(policy):
    trace = Trace.from_columns([5, 6, 7, 8], [3, 4, 2, 2])
    one = evenstep.compare(trace, policy, cluster=CLUSTER, seeds=1)
    assert len(one.policies) == 1 and one.policies[0].policy.lower().startswith("jsq")


def test_what_is_no_policy_is_one_clear_error():
    with pytest.raises(evenstep.InputError, match="policies is 'int'; expected a policy, or a list of them"):
        evenstep.compare(Trace.from_columns([5], [3]), 5)
    with pytest.raises(evenstep.InputError, match="Did you mean jsq"):
        evenstep.compare(Trace.from_columns([5], [3]), "jqs")


def test_the_versions_are_those_of_this_process(found):
    assert found.versions == versions()
    assert found.versions["python"] == ".".join(map(str, sys.version_info[:3]))


def test_an_objective_is_a_metric_of_every_policy():
    trace = Trace.from_columns(range(5, 45), [3, 4, 2, 6] * 10)
    one = evenstep.compare(trace, ["jsq", "br-0"], cluster=CLUSTER, seeds=1, slo="ttft=20ms")
    assert 0 < one["jsq"].mean("slo_share") < 1
    assert "SLO met" in str(one) and "goodput" in one._repr_html_()


def test_a_plot_on_what_are_no_axes_is_one_error(found):
    with pytest.raises(InputError, match=r"plot: axes is 'tuple'; expected axes of matplotlib\. Of plt\.subplots\(\), give"):
        found.plot(axes=("figure", "axes"))
