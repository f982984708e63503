"""What is written is what a reader of Prometheus pages reads."""

from __future__ import annotations

import math

from prometheus_client.parser import text_string_to_metric_families as read

from evenstep.engines.metrics.page import Page
from evenstep.engines.metrics.prometheus import lines, wanted


def families(page: Page):
    return {family.name: family for family in read(page.text().decode())}


def test_samples_of_a_metric_stand_together_under_help_and_type():
    page = Page({"evenstep_depth": "Requests\nthat \\ wait."})
    page.add("gauge", "evenstep_depth", 3, model="a")
    page.add("counter", "evenstep_requests_total", 1.5, code="200")
    page.add("gauge", "evenstep_depth", 4, model="b")
    found = families(page)
    assert found["evenstep_depth"].type == "gauge"
    assert found["evenstep_depth"].documentation == "Requests\nthat \\ wait."
    assert [(s.labels, s.value) for s in found["evenstep_depth"].samples] == [
        ({"model": "a"}, 3),
        ({"model": "b"}, 4),
    ]
    assert found["evenstep_requests"].type == "counter"
    assert found["evenstep_requests"].documentation == "evenstep requests total"


def test_labels_of_any_text_and_values_of_any_size_come_back_as_they_were():
    page = Page()
    odd = 'a "quoted" \\ back\nline}'
    for value in (12345678901234567, 0.1, 1e-9, math.inf, -math.inf, True):
        page.add("gauge", "x", value, **{"def": odd})
    page.add("gauge", "x", math.nan)
    samples = families(page)["x"].samples
    assert [s.value for s in samples[:-1]] == [12345678901234567, 0.1, 1e-9, math.inf, -math.inf, 1]
    assert math.isnan(samples[-1].value)
    assert samples[0].labels == {"def": odd}
    assert lines(page.text(), wanted(["x"]))[0].labels == {"def": odd}


def test_a_histogram_has_buckets_sum_and_count():
    page = Page()
    page.histogram("wait_seconds", {"0.1": 1, "+Inf": 3}, 2.5, 3, stage="prepare")
    family = families(page)["wait_seconds"]
    assert family.type == "histogram"
    assert [(s.name, s.labels.get("le"), s.value) for s in family.samples] == [
        ("wait_seconds_bucket", "0.1", 1),
        ("wait_seconds_bucket", "+Inf", 3),
        ("wait_seconds_sum", None, 2.5),
        ("wait_seconds_count", None, 3),
    ]
    assert {s.labels["stage"] for s in family.samples} == {"prepare"}


def test_a_metric_can_be_declared_before_it_has_samples():
    page = Page()
    page.declare("counter", "a_total")
    page.add("gauge", "b", 1)
    assert page.text() == b"# HELP a_total a total\n# TYPE a_total counter\n# HELP b b\n# TYPE b gauge\nb 1\n"
