from __future__ import annotations

import dataclasses
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest
from tests.measure.test_comparison import replicates

from evenstep.errors import InputError
from evenstep.measure.comparison import Interval, compare_runs
from evenstep.measure.output_file import write_text
from evenstep.report.html import facts, figure_of, page, subtitle, title_of

ORACLE = "bf-io:horizon=20,predictor=oracle"
VOID = {"meta", "br", "wbr"}


class Balanced(HTMLParser):
    """Every element that opens closes, in order."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: set[str] = set()

    def handle_starttag(self, tag, attrs):
        self.seen.add(tag)
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.seen.add(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def made(seeds=3, **changes):
    groups = [
        replicates("fcfs", seeds),
        replicates("even", seeds, even=True),
        replicates(ORACLE, seeds, oracle=True),
    ]
    comparison = dataclasses.replace(
        compare_runs(groups),
        command="evenstep compare 'a & b.csv' --policy fcfs",
        versions={"evenstep": "1.2.3"},
        **changes,
    )
    return comparison, {g[0].conditions.policy: g[0] for g in groups}


def test_the_page_is_balanced_and_asks_for_nothing():
    text = page(*made())
    parser = Balanced()
    parser.feed(text)
    assert parser.open == []
    assert not parser.seen & {"script", "link", "img", "iframe", "object"}
    assert not re.search(r"https?://|url\(|@import|src=|href=", text)
    assert "default-src 'none'" in text


def test_differences_are_all_in_per_cent_and_say_so_once_a_column():
    text = page(*made())
    differences = text.partition("<h2>Differences to ")[2].partition("</table>")[0]
    assert set(re.findall(r"<small>([^±<][^<]*)</small></th>", differences)) == {"%"}
    assert " %" not in differences.partition("<tbody>")[2], "the unit of each cell made the table wider than 1,200 px"


def test_a_table_wider_than_the_page_scrolls_and_loses_no_column():
    text = page(*made())
    assert text.count("<table") >= 2
    assert text.count("<table") == text.count('<div class="scroll"><table')
    assert re.search(r"\.scroll *\{[^}]*overflow-x: *auto", text)
    assert "overflow:hidden" not in text.replace(" ", "")


def test_the_page_says_how_it_was_made():
    comparison, runs = made()
    text = page(comparison, runs)
    assert "evenstep compare &#x27;a &amp; b.csv&#x27; --policy fcfs" in text
    assert "1.2.3" in text
    for result in comparison.policies:
        assert all(d in text for d in result.digests)
    assert "One row was dropped." in text
    assert "the trace rotated by keyed offsets" in text
    assert "oracle: unreachable live" in text


def test_groups_that_differ_in_their_overhead_show_its_range():
    found, _ = made(1)
    conditions = dataclasses.replace(found.conditions, group_sizes=(1, 1), overhead_s=(0.005, 0.006))
    assert "C = 0.005 to 0.006 s" in subtitle(dataclasses.replace(found, conditions=conditions))


def test_every_figure_of_a_table_has_its_unit_in_a_sweep_and_a_plot_too():
    assert [title_of(name) for name in ("prefix_hit_share", "slo_share", "idle_share", "tpot_p99_s")] == [
        "prefix hits, % of prompt",
        "SLO met, %",
        "load imbalance, %",
        "tpot p99 s",
    ]
    assert figure_of("prefix_hit_share").scale == 100.0


def test_facts_are_told_in_words():
    assert facts({"requests_per_s": None, "may_hold": False, "slots": [1200, 0.5]}) == (
        "<dl><dt>requests per s</dt><dd>none</dd><dt>may hold</dt><dd>no</dd><dt>slots</dt><dd>1,200, 0.5</dd></dl>"
    )


def test_licence_and_attribution_of_the_trace_are_shown():
    comparison, runs = made()
    told = {**comparison.trace, "licence": "CC-BY-4.0", "attribution": "who measured it"}
    text = page(dataclasses.replace(comparison, trace=told), runs)
    assert "CC-BY-4.0" in text
    assert "who measured it" in text


def test_all_text_is_escaped():
    hostile = "<script>alert('x')</script>"
    comparison, runs = made(notes=(hostile,))
    comparison = dataclasses.replace(
        comparison,
        command=hostile,
        versions={hostile: hostile},
        trace={**comparison.trace, "name": hostile, hostile: hostile},
        policies=(dataclasses.replace(comparison.policies[0], policy=hostile), *comparison.policies[1:]),
    )
    runs[hostile] = runs.pop("fcfs")
    text = page(comparison, runs)
    assert "<script" not in text
    assert "&lt;script&gt;" in text


def test_every_policy_has_its_chart_and_its_rows():
    text = page(*made())
    assert text.count("<figure>") == 3 + 8
    assert "<h3>Time lost at the barrier</h3>" in text and "Idle share" not in text
    assert text.count('class="badge base"') == 1
    assert "Differences to fcfs" in text


def test_many_policies_are_told_apart():
    """The baseline and the best have colours; a reader cannot tell 200 dashed lines apart."""
    groups = [replicates(f"fcfs-{i}", 2) for i in range(39)] + [replicates("even", 2, even=True)]
    text = page(compare_runs(groups, baseline=20), {g[0].conditions.policy: g[0] for g in groups})
    legend = re.search('<div class="legend">.*?</div>', text)[0]
    assert "fcfs-20</span>" in legend and "even</span>" in legend
    assert '<span class="swatch rest"></span>32 others, in grey' in legend
    assert "In colour: the baseline, and the 7 that lose least at the barrier." in text
    lines = re.findall('path class="line ([^"]+)"', text)
    assert lines and lines[:32] == ["rest"] * 32 and "rest" not in lines[32:40]
    bars = re.findall('<rect class="bar ([^"]+)"[^>]*><title>even, prompts', text)
    assert bars and bars == [re.search('swatch ([^"]+)"></span>even<', legend)[1]] * len(bars)


def test_clear_differences_are_coloured_by_what_is_better():
    comparison, runs = made()
    first, second, third = comparison.policies
    differences = {
        "idle_time_share": Interval(-1.0, -2.0, -0.5),
        "full_slot_tokens_per_s": Interval(-1.0, -2.0, -0.5),
        "makespan_s": Interval(-1.0, -2.5, 0.5),
        "tpot_p95_s": Interval(1.0, 0.5, 1.5),
    }
    changed = dataclasses.replace(second, versus_first=differences)
    text = page(dataclasses.replace(comparison, policies=(first, changed, third)), runs)
    row = next(r for r in re.findall("<tr>.*?</tr>", text.split("Differences to fcfs")[1]) if "even" in r)
    assert re.findall(r'<td class="(good|bad)">([-+])', row) == [("good", "-"), ("bad", "-"), ("bad", "+")]


def test_the_lead_never_praises_an_oracle():
    comparison, runs = made()
    lead = re.search(r"<p class='lead'>.*?</p>", page(comparison, runs)).group()
    assert "bf-io" not in lead
    assert "<b>even</b>" in lead or "<b>fcfs</b>" in lead


def test_another_baseline_is_compared_with():
    comparison = compare_runs([replicates("fcfs"), replicates("even", even=True)], baseline=1)
    text = page(comparison, {})
    assert "Differences to even" in text


def test_one_policy_one_seed_and_no_records_still_make_a_page():
    comparison = compare_runs([replicates("fcfs", 1)])
    text = page(comparison, {})
    Balanced().feed(text)
    assert "Worker samples were not recorded." in text
    assert text.count("Not recorded.") == 5
    assert "Differences to" not in text
    assert "One replicate: no intervals." in text


def test_the_report_is_written_whole(tmp_path):
    comparison, runs = made()
    path = tmp_path / "report.html"
    write_text(path, page(comparison, runs))
    assert path.read_text(encoding="utf-8") == page(comparison, runs)
    assert path.stat().st_size < 300_000


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no /dev/full")
def test_a_full_disk_is_a_clear_error():
    with pytest.raises(InputError, match="No space left on device"):
        write_text(Path("/dev/full"), page(*made(1)))
