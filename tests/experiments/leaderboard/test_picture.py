"""The picture of a leaderboard."""

from __future__ import annotations

from xml.etree import ElementTree

from tests.experiments.leaderboards import table

from evenstep.experiments.leaderboard.picture import picture

SPACE = "{http://www.w3.org/2000/svg}"


def test_bars_are_as_long_as_what_they_show_and_oracles_and_ours_are_told_apart():
    made = table(
        {
            "w": {
                "best": [0.01, 0.01],
                "b:predictor=survival": [0.02, 0.02],
                "c": [0.02, 0.02],
                "o": [0.005, 0.005],
            }
        },
        oracles=["o"],
    )
    root = ElementTree.fromstring(picture(made))
    wide = {bar.get("class"): float(bar.get("width")) for bar in root.iter(f"{SPACE}rect") if bar.get("height") != "11"}
    assert wide["live"] / wide["ours"] == 2 and wide["ours"] / wide["oracle"] == 2
    texts = [text.text for text in root.iter(f"{SPACE}text")]
    assert texts.index("best") < texts.index("b") < texts.index("o")
    assert {"1.00", "2.00", "0.50", "time lost at the barrier, %"} <= set(texts)


def test_a_workload_a_policy_was_not_run_on_is_said():
    made = table({"w": {"a": [1, 1.1]}, "v": {"a": [1, 1.1], "b": [1, 2]}})
    assert "not run" in picture(made)


def test_one_policy_far_behind_is_cut_and_keeps_its_figure():
    values = {f"p{n}": [0.02 + n / 1000, 0.02 + n / 1000] for n in range(9)} | {"far": [0.5, 0.5]}
    root = ElementTree.fromstring(picture(table({"w": values})))
    assert [path.get("class") for path in root.iter(f"{SPACE}path")] == ["live"]
    assert "50.0" in [text.text for text in root.iter(f"{SPACE}text")]


def test_paper_modes_and_twins_are_left_to_the_page():
    made = table({"w": {"a/1": [1, 1.1], "a/2": [1, 1.1], "b:age_limit=0": [2, 2.1], "b": [3, 3.1]}})
    texts = [text.text for text in ElementTree.fromstring(picture(made)).iter(f"{SPACE}text")]
    assert "a/1" in texts and "b" in texts
    assert "a/2" not in texts and "b age_limit=0" not in texts
