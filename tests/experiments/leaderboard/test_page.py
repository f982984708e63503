"""A leaderboard as a page."""

from __future__ import annotations

from dataclasses import replace

from tests.experiments.leaderboards import table

from evenstep.experiments.leaderboard.page import page, text_lines

MADE = table(
    {
        "w": {
            "a": [0.01, 0.011, 0.012],
            "b": [0.02, 0.022, 0.024],
            "o": [0.001, 0.001, 0.002],
            "s": [0.3, 0.3],
        },
        "v": {"a": [0.04, 0.05, 0.06], "b": [0.051, 0.049, 0.052], "o": [0.001, 0.001, 0.002]},
    },
    oracles=["o"],
)


def test_the_page_says_when_by_what_and_from_which_commit():
    text = page(MADE, data="x.parquet", picture="")
    assert "Made on 2026-01-02 at commit abc (evenstep 0)," in text
    assert "with seeds 0 to 2 (slow ones fewer: `s` the first 2, not on v), by" in text
    assert "evenstep leaderboard b.yaml\n" in text and "[x.parquet](x.parquet)" in text
    assert "evenstep compare x --policy NAME" in text


def test_seeds_of_a_workload_with_a_seed_of_its_own_begin_there():
    first, second = MADE.workloads
    moved = replace(first, command="evenstep compare x --workers 2 --seed 40 --seeds 3")
    text = page(replace(MADE, workloads=(moved, second)), data="x.parquet", picture="")
    assert "with 3 replicates, whose seeds begin at a workload's `--seed`, else at 0 (slow ones fewer: `s` the" in text
    assert "seeds 0 to" not in text


def test_the_page_of_a_users_own_board_promises_nothing_of_ours():
    one = replace(MADE, origin=replace(MADE.origin, commit=""), workloads=MADE.workloads[:1])
    text = page(one, data="x.parquet", picture="")
    assert "Made on 2026-01-02 (evenstep 0)," in text and "on 1 workload." in text
    assert "../" not in text and "(metrics.md)" not in text and "every change" not in text


def test_ranks_intervals_and_who_is_level_are_in_the_tables():
    lines = page(MADE, data="x.parquet", picture="p.svg").splitlines()
    assert "| `a` | 1.0 | 2 | 1 | 1 |" in lines
    assert "| `b` | 2.0 | 1 | 2 | 2 |" in lines
    assert "| `s` | 3.0 (where it ran) | 0 | 3 | - |" in lines
    assert any(line.startswith("| - | `o` | true lengths | 0.13 ± 0.14 | -0.97 ± 0.") for line in lines)
    assert any(line.startswith("| 1 | `a` | - | 1.10 ± 0.25 | - |") for line in lines)
    assert any(line.startswith("| 2 | `b` | - | 5.07 ± 0.38 | +0.07 ± 2.39, level |") for line in lines)
    assert any("](p.svg)" in line for line in lines)


def test_a_terminal_gets_the_mean_ranks():
    assert text_lines(MADE) == [
        "policy  mean rank  level with the leader",
        "a             1.0  on 2 of 2",
        "b             2.0  on 1 of 2",
        "s             3.0  on 0 of 1 it ran on",
    ]


def test_a_narrow_terminal_gets_long_policies_in_full_below():
    long = "bf-io:horizon=20,discount=0.9,age_limit=0,predictor=survival"
    lines = text_lines(table({"w": {long: [1, 1.1], "jsq": [2, 2.1]}}), 80)
    assert max(map(len, lines)) <= 80 and "… [1]" in lines[1] and lines[-1] == f"[1] {long}"


def heads(made):
    lines = page(made, data="x.parquet", picture="p.svg").splitlines()
    return [line for line in lines if line.startswith("| rank |")]


def test_time_lost_at_the_barrier_ranks_and_load_imbalance_has_a_column_of_its_own():
    (head,) = {*heads(MADE)}
    assert "| it knows | time lost at the barrier, % | behind the leader | load imbalance, % | full slots" in head
    assert "![Time lost at the barrier by policy on w: live" in page(MADE, data="x", picture="p.svg")


def test_an_older_board_is_shown_with_what_it_was_ranked_by():
    lines = [replace(line, metric="idle_share") for line in MADE.workloads]
    cells = [replace(c, values={**c.values, "idle_time_share": (None,) * len(c.digests)}) for c in MADE.cells]
    old = replace(MADE, workloads=tuple(lines), cells=tuple(cells))
    (head,) = {*heads(old)}
    assert "| it knows | load imbalance, % | behind the leader | full slots" in head
    assert "time lost" not in page(old, data="x", picture="p.svg")
    timed = [replace(line, metric="imbalance_envelope_tokens") for line in MADE.workloads]
    (head,) = {*heads(replace(MADE, workloads=tuple(timed)))}
    assert "| imbalance, KV tokens | behind the leader | time lost at the barrier, % | load imbalance, % |" in head
