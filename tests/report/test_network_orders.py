"""What a person gets from a run of a network, and from a comparison of orders, in Python."""

from __future__ import annotations

import pickle
from dataclasses import replace

import numpy as np
import pytest
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from tests.sim.network.networks import EXAMPLES, example

from evenstep.cli.main import main
from evenstep.errors import InputError
from evenstep.experiments.networks import compare
from evenstep.measure.network_records import NetworkRun
from evenstep.report.network_orders import NetworkOrders
from evenstep.report.svg import LIGHT, colour_of, series_of
from evenstep.sim.network.simulation import simulate_network

FILE = EXAMPLES / "agent-loop.yaml"


@pytest.fixture(scope="module")
def run() -> NetworkRun:
    return simulate_network(example("agent-loop", until_s=30.0))


@pytest.fixture(scope="module")
def found() -> NetworkOrders:
    return compare(FILE, orders=("fcfs", "least-attained"), seeds=2, until_s=30)


def test_a_run_prints_as_the_tables_of_the_command_line(run, capsys):
    assert main(["network", "run", str(FILE), "--until-s", "30", "--seeds", "1"]) == 0
    assert str(run) == capsys.readouterr().out.rstrip("\n")
    assert "pool-2" in str(run) and f"digest {run.order}: {run.digest[:16]}" in str(run)


def test_orders_print_as_the_tables_of_the_command_line(found, capsys):
    words = ["--orders", "fcfs,least-attained", "--until-s", "30", "--seeds", "2"]
    assert main(["network", "run", str(FILE), *words]) == 0
    assert str(found) == capsys.readouterr().out.rstrip("\n")
    assert repr(found) == "<comparison of fcfs, least-attained on agent-loop, 2 replicates>"


def test_a_notebook_shows_tables_without_charts_and_with_a_style_of_their_own(run, found):
    assert run._repr_html_().count("<table>") == 3 and "<svg" not in run._repr_html_()
    html = found._repr_html_()
    style = html[html.index("<style>") + 7 : html.index("</style>")]
    assert "least-attained" in html
    assert all(rule.lstrip().startswith(".evenstep") for rule in style.split("}") if rule.strip())


def test_an_order_is_found_by_name_and_by_place(found):
    assert found["least-attained"] is found[1] and [one.order for one in found] == ["fcfs", "least-attained"]
    assert len(found) == 2 and found[-1] is found[1] and found[np.int64(0)] is found[0]
    assert found[1:] == (found[1],), "as the list that `compare` gave before"
    assert "fcfs" in found and found["fcfs"] in found and "least" not in found
    with pytest.raises(
        InputError, match="order is 'least'; expected one of the orders compared. Did you mean least-attained"
    ):
        found["least"]


def test_the_table_of_orders_has_the_tasks_of_every_run(found):
    table = found.to_arrow()
    runs = [run for one in found for run in one.runs]
    assert table.num_rows == sum(run.tasks.rows for run in runs)
    assert dict.fromkeys(zip(table["order"].to_pylist(), table["seed"].to_pylist(), strict=True)) == dict.fromkeys(
        [("fcfs", 0), ("fcfs", 1), ("least-attained", 0), ("least-attained", 1)]
    )


def test_the_report_of_a_run_has_charts_and_that_of_a_file_has_loads_too(run, found, tmp_path):
    page = run.report(tmp_path / "run.html").read_text(encoding="utf-8")
    assert page.count("<svg") == 2 and "Loads and verdicts" not in page
    page = found.report(tmp_path / "found.html").read_text(encoding="utf-8")
    assert page.count("<svg") == 2 and "Loads and verdicts" in page
    for one in (run, found):
        with pytest.raises(InputError, match=r"path is .*x\.pdf'; expected a name that ends in \.html"):
            one.report(tmp_path / "x.pdf")


def test_the_report_of_a_network_without_a_name_has_a_title(run, tmp_path):
    page = replace(run, name="").report(tmp_path / "run.html").read_text(encoding="utf-8")
    assert "<h1>Network</h1>" in page and "Network </title>" not in page


@pytest.mark.parametrize(("metric", "title"), [("tokens", "tokens still to run"), ("requests", "calls in the engine")])
def test_a_plot_has_a_line_an_engine_in_its_colour_of_the_report(run, metric, title):
    axes = Figure().subplots()
    assert run.plot(metric, axes=axes) is axes
    assert [line.get_label() for line in axes.lines] == list(run.engines)
    assert [line.get_ydata().tolist() for line in axes.lines] == getattr(run, metric).T.tolist()
    assert [to_hex(line.get_color()) for line in axes.lines] == [LIGHT[n] for n in series_of(run.engines).values()]
    assert axes.get_ylabel() == title


def test_of_many_engines_those_without_a_colour_are_grey():
    assert colour_of(-1) == "#c4c9ce" and colour_of(9) == LIGHT[1]


def test_a_plot_shows_itself_and_what_it_cannot_draw_is_one_error(run, tmp_path):
    assert run.plot()._repr_svg_() == run.plot("tokens").save(tmp_path / "a.svg").read_text()
    with pytest.raises(InputError, match="metric is 'token'; expected a known metric. Did you mean tokens"):
        run.plot("token")
    with pytest.raises(InputError, match="axes is 'tuple'; expected axes of matplotlib"):
        run.plot(axes=("figure", "axes"))


def test_orders_can_go_to_another_process_and_keep_their_report(found):
    again = pickle.loads(pickle.dumps(found))
    assert again.page("evenstep network run") == found.page("evenstep network run")
