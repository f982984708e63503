"""What an evaluation of predictors says."""

from __future__ import annotations

import json
import re

import numpy as np

from evenstep.predict.evaluation import evaluate
from evenstep.report import prediction
from evenstep.report.svg import series_of
from evenstep.request import Trace


def found():
    outputs = np.array([50, 60, 70, 80] * 20)
    return evaluate(Trace(np.full(80, 10), outputs, name="<made>"), ["survival"], (20, 200))


def test_the_table_has_a_row_a_score_and_a_dash_where_there_is_no_value():
    lines = prediction.text_lines(found())
    assert lines[0].startswith("<made>: learned from the first 40 requests, judged on the 40 after them.")
    assert lines[2].split()[:2] == ["predictor", "H"]
    assert lines[3].split()[:2] == ["survival", "20"]
    assert " - " in lines[4]  # at H = 200 all leave: no area under a curve


def test_json_has_no_nan():
    text = json.dumps(prediction.json_object(found()), allow_nan=False)
    score = json.loads(text)["scores"][0]
    assert score["predictor"] == "survival"
    assert score["reliability"][0]["predictions"] > 0
    assert json.loads(text)["scores"][1]["auc"] is None


def test_the_page_is_self_contained_and_draws_a_curve_a_horizon():
    page = prediction.page(found(), "evenstep predict evaluate made")
    assert page.count("<svg") == 2
    assert "&lt;made&gt;" in page and "<made>" not in page
    assert "http" not in page.replace("http-equiv", "")
    assert "evenstep predict evaluate made" in page


def test_the_page_shows_the_colour_of_each_curve_once_and_the_charts_side_by_side():
    """The class of the colours had no style. Later each chart was as wide as the page, with letters of twice the size."""
    page = prediction.page(found(), "")
    number = series_of(["survival"])["survival"]
    assert page.count(f'<span class="swatch c{number}"></span>survival') == 1
    assert ".swatch {" in page
    charts = page[page.index('<div class="charts">') :]
    assert charts.count("<figure>") == page.count("<figure>") == 2


def test_chances_that_are_all_alike_are_drawn_as_a_dot():
    """A line through one point is not to be seen."""
    page = prediction.page(found(), "")
    dots = re.findall(r"<title>survival: told [\d.]+%, left ([\d.]+)%, (\d+) predictions</title>", page)
    assert ("100.0", str(found().scores[1].predictions)) in dots
