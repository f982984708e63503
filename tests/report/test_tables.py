from __future__ import annotations

import builtins
import dataclasses
import io
import math
import re
from pathlib import Path

import pytest
from tests.measure.test_comparison import replicates

from evenstep.measure.comparison import Interval, compare_runs
from evenstep.report import html, tables
from evenstep.report.tables import ORACLE_NOTE, aligned, print_comparison, window_sentence


def comparison(seeds=3):
    even = replicates("bf-io:horizon=20,predictor=oracle", seeds, even=True, oracle=True)
    return compare_runs([replicates("fcfs", seeds), even])


def printed(found) -> str:
    out = io.StringIO()
    print_comparison(found, out)
    return out.getvalue()


def test_a_file_gets_plain_text_with_every_column():
    text = printed(comparison())
    assert "\x1b" not in text
    head, units, first, second, *foot = text.splitlines()
    assert all(c.heading in head for c in tables.columns_of())
    assert first.startswith("fcfs ")
    assert "baseline" in first
    assert second.startswith("bf-io:horizon=20,predictor=oracle* ")
    assert "±" in second
    assert "tokens/s" in units
    assert ORACLE_NOTE in foot


def test_a_notebook_does_not_take_the_text_away_from_its_stream(monkeypatch):
    """rich showed each line as an output of the cell: `str` of a comparison was empty."""
    usual = printed(comparison())
    in_a_notebook = type("ZMQInteractiveShell", (), {})
    monkeypatch.setattr(builtins, "get_ipython", in_a_notebook, raising=False)
    monkeypatch.setenv("FORCE_COLOR", "1")  # Jupyter sets it in every kernel
    assert printed(comparison()) == usual


def test_a_pipe_gets_every_column_also_where_colour_is_forced(monkeypatch, capsys):
    """As in a job of a CI service, and in a process started from a notebook."""
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.delenv("NO_COLOR", raising=False)
    print_comparison(comparison())
    shown = capsys.readouterr().out
    assert "\x1b[1m" in shown and "Not shown at this width" not in shown
    assert re.sub(r"\x1b\[[0-9;]*m", "", shown) == printed(comparison())


def test_cells_are_the_means_over_replicates():
    found = comparison()
    row = printed(found).splitlines()[2]
    assert f"{100 * found.policies[0].mean('idle_time_share'):.2f}" in row
    assert f" {found.policies[0].mean('makespan_s'):.0f} " in row


def test_columns_line_up():
    lines = printed(comparison()).splitlines()[:4]
    assert len({len(line) for line in (lines[0], *lines[2:])}) == 1


def test_the_foot_says_window_replicates_yardsticks_and_digests():
    found = dataclasses.replace(comparison(), notes=("Three rows were dropped.",))
    text = printed(found)
    assert "all steps with a running request" in text
    assert "3 replicates: the trace rotated by keyed offsets, the first one not" in text
    assert "No policy can pass" in text
    assert "Three rows were dropped." in text
    assert f"digest {found.policies[1].digest[:16]}" in text


def test_the_fleet_of_unequal_workers_under_another_law_is_told():
    conditions = dataclasses.replace(comparison().conditions, slots_total=3, seconds_per_token=math.nan)
    found = dataclasses.replace(comparison(), conditions=conditions)
    assert "3 slots in all" in tables.fleet_sentence(found)
    assert "and the time that its law gives for the slowest worker" in tables.fleet_sentence(found)
    assert "3 slots in all" in html.subtitle(found)
    one = dataclasses.replace(found, conditions=dataclasses.replace(found.conditions, workers=1, slots=1, slots_total=1))
    assert "1 worker, each with 1 slot;" in tables.fleet_sentence(one) and "1 worker, 1 slot each;" in html.subtitle(one)


def test_a_linear_law_is_told_in_milliseconds_and_microseconds():
    conditions = dataclasses.replace(comparison().conditions, overhead_s=(0.005, 0.02), seconds_per_token=1.5e-7)
    said = tables.fleet_sentence(dataclasses.replace(comparison(), conditions=conditions))
    assert "a step takes 5.00 to 20.0 ms and 0.150 us for each KV token of the heaviest worker;" in said


def test_a_mean_and_half_its_interval_have_the_same_unit():
    assert tables.mean_text(Interval(0.002, 0.001, 0.003), 1e3) == "2.00 ±1.0"
    assert tables.mean_text(Interval(0.002, None, None), 1e3) == "2.00"


def test_one_replicate_says_so_and_shows_no_interval():
    text = printed(comparison(1))
    assert "One replicate: no intervals." in text
    assert "±" not in text


def test_no_oracle_no_note():
    assert ORACLE_NOTE not in printed(compare_runs([replicates("fcfs")]))


def test_windows_of_different_kinds_are_said():
    found = comparison()
    first, second = found.policies
    full = tuple({**s, "window": {**s["window"], "kind": "full-slots"}} for s in second.summaries)
    mixed = dataclasses.replace(found, policies=(first, dataclasses.replace(second, summaries=full)))
    assert "different kinds of steps" in window_sentence(mixed)
    only = dataclasses.replace(found, policies=(dataclasses.replace(second, summaries=full),))
    assert "98 % of all slots busy" in window_sentence(only)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def on_a_terminal(monkeypatch, found) -> str:
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    out = Terminal()
    print_comparison(found, out)
    return out.getvalue()


def test_a_narrow_terminal_keeps_what_matters_most_and_names_the_rest(monkeypatch):
    text = on_a_terminal(monkeypatch, comparison())
    head, *_ = text.splitlines()
    assert "barrier" in head
    assert "full slots" in head
    assert "spread" not in head
    assert "\x1b" in head
    assert "…" not in text.splitlines()[2]
    plain = " ".join(re.sub(r"\x1b\[[0-9;]*m", "", text).split())
    assert "Not shown at this width: worth, imbalance, spread, tokens/s," in plain


@pytest.mark.parametrize("name", ["jsq", "br-0", "least-load", "consistent-hash"])
def test_short_names_on_a_narrow_terminal_leave_no_row_too_long(name, monkeypatch):
    text = re.sub(r"\x1b\[[0-9;]*m", "", on_a_terminal(monkeypatch, compare_runs([replicates(name)])))
    assert max(map(len, text.splitlines()[:3])) <= 80


def test_long_names_on_a_narrow_terminal_stay_apart_keep_their_mark_and_are_given_below(monkeypatch):
    names = [f"bf-io:horizon=20,discount=0.9,age_limit=0,predictor={one}" for one in ("survival", "oracle")]
    runs = [replicates("fcfs"), replicates(names[0]), replicates(names[1], even=True, oracle=True)]
    text = re.sub(r"\x1b\[[0-9;]*m", "", on_a_terminal(monkeypatch, compare_runs(runs)))
    lines = text.splitlines()
    assert max(map(len, lines)) <= 80
    assert "… [2] " in lines[3] and "… [3]* " in lines[4]
    assert f"[2] {names[0]}" in lines and f"[3] {names[1]}" in lines


def test_a_metric_without_a_value_is_a_dash():
    runs = replicates("fcfs")
    holed = [dataclasses.replace(r, measured=lambda r=r: {**r.summary, "full_slot_tokens_per_s": None}) for r in runs]
    row = printed(compare_runs([holed])).splitlines()[2]
    assert " - " in row


def test_a_difference_shows_half_its_interval():
    assert tables._difference(Interval(0.5, 0.25, 0.75), 100.0, 1) == "+50.0 ±25.0"
    assert tables._difference(Interval(-0.5, None, None), 1.0, 2) == "-0.50"
    assert tables._difference(None, 1.0, 2) == "-"


@pytest.mark.parametrize(
    ("found", "shown"),
    [
        (Interval(0.03, 0.028, 0.032), "+0.030 ±0.002"),
        (Interval(-0.03, -0.07, 0.01), "-0.03 ±0.04"),
        (Interval(-0.004, -0.004, -0.004), "-0.004 ±0.000"),
        (Interval(0.02, None, None), "+0.02"),
        (Interval(12.34, 11.14, 13.54), "+12.3 ±1.2"),
        (Interval(0.0, 0.0, 0.0), "+0.0 ±0.0"),
        (Interval(3e-14, 2e-14, 4e-14), "+0.0 ±0.0"),
        (Interval(float("inf"), None, None), "+inf"),
    ],
)
def test_a_small_difference_has_the_decimals_that_show_it(found, shown):
    """A change that was certain read ``+0.0 ±0.0``."""
    assert tables._difference(found, 1.0, 1) == shown


def test_differences_fit_the_terminal_and_what_does_not_fit_follows_below():
    own = replicates("bf-io:horizon=20,discount=0.9,predictor=oracle", even=True)
    found = compare_runs([replicates("fcfs"), own])
    whole = tables.differences(found)
    assert whole[1] == "difference to fcfs, replicate by replicate, ± half a 95 % interval"
    assert whole[4].startswith(own[0].conditions.policy)
    shown = [name for name, *_ in tables.DIFFERENCES if name != "prefix hits"]
    assert all(name in whole[2] for name in shown)
    for width in (120, 100, 80):
        lines = tables.differences(found, width)[2:]
        assert max(map(len, lines)) <= width
        assert "barrier time" in lines[0] and "… [2]" in lines[2]
        assert all(any(name in line for line in lines) for name in shown)
    assert tables.differences(compare_runs([replicates("fcfs")])) == []


def test_columns_that_do_not_fit_follow_below_next_to_the_first_ones():
    rows = [["name", "one", "two", "why"], ["a", "1", "2", "so"]]
    assert tables.fitted(rows, None, (0, 3)) == aligned(rows, (0, 3))
    assert tables.fitted(rows, 19, (0, 3)) == aligned(rows, (0, 3))
    assert tables.fitted(rows, 18, (0, 3)) == ["name  one  two", "a       1    2", "", "name  why", "a     so"]
    assert tables.fitted(rows, 3, keys=2)[:2] == ["name  one  two", "a       1    2"]  # a part has one column at least


def test_names_that_are_cut_stay_different_and_are_listed_in_full():
    names = ["jsq", "bf-io:horizon=20,predictor=oracle", "bf-io:horizon=20,predictor=survival"]
    cut = tables.cut_names(names, 20)
    assert list(cut.values()) == ["jsq", "bf-io:horizon=2… [2]", "bf-io:horizon=2… [3]"]
    assert tables.full_names(cut) == [f"[2] {names[1]}", f"[3] {names[2]}"]
    assert tables.full_names(tables.cut_names(names, None)) == []


def test_a_printed_comparison_has_the_differences_that_the_command_prints():
    lines, found = printed(comparison()).splitlines(), tables.differences(comparison())
    assert len(found) == 5 and all(line in lines for line in found)


def test_every_figure_shown_is_defined_in_the_reference():
    defined = (Path(__file__).parents[2] / "docs" / "reference" / "metrics.md").read_text(encoding="utf-8")
    shown = (
        {c.field for c in tables.COLUMNS}
        | {field for _, _, field, *_ in tables.DIFFERENCES}
        | {f.field for f in html.FIGURES}
    )
    missing = sorted(field for field in shown if f"`{field}`" not in defined)
    assert not missing, f"docs/reference/metrics.md does not define {missing}"
