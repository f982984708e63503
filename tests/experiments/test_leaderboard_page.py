"""A leaderboard as a page."""

from __future__ import annotations

from tests.experiments.leaderboards import table

from evenstep.experiments.leaderboard_page import page, text_lines

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
