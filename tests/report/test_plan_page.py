"""A plan as lines and as a page."""

from evenstep.measure.planned import Planned, Size, Tried
from evenstep.report.plan_page import lines, page

FOUND = Planned(
    arrivals="lengths by the laws 10/5, Poisson arrivals",
    rate=1.0,
    tokens_per_s=5.0,
    slo="tpot=2s",
    share=0.9,
    replicates=2,
    unit=1,
    most_workers=8,
    prefill=True,
    sizes=[
        Size(
            "jsq",
            2,
            4,
            6,
            1.9,
            1.5,
            0.95,
            0.1,
            0.5,
            1.2,
            3.0,
            None,
            tried=[Tried(5, 0.7, None, False), Tried(6, 0.95, 1.5, True)],
        ),
        Size(
            "best",
            2,
            4,
            5,
            1.6,
            1.2,
            0.91,
            0.02,
            0.5,
            1.2,
            3.0,
            None,
            tried=[Tried(4, 0.93, 0.99, False), Tried(5, 0.91, 1.2, True)],
        ),
        Size("<own>", 2, 4, tried=[Tried(8, 0.25, None, False)]),
    ],
    smallest=1,
)


def test_the_lines_say_which_fleet_is_least_what_the_others_need_and_where_none_is_enough():
    said = lines(FOUND)
    rows = [line.split() for line in said if line.startswith(("jsq ", "best "))]
    assert rows[0] == ["jsq", "2", "6", "4", "1.500", "-21.1", "95.0", "70.0", "10.00", "0.500", "1,200", "3.00"]
    assert rows[1][:8] == ["best", "2", "5", "4", "1.200", "-25.0", "91.0", "too"]
    assert "<own> with 2 slots: not enough with 8 workers, where 25.0 % of the requests meet the objective." in said
    assert "Least: 5 workers, best with 2 slots." in said
    assert "jsq with 2 slots needs 1 more (+20.0 %)." in said
    assert not any("<own> with 2 slots needs" in line for line in said)


def test_the_page_has_the_table_both_charts_and_the_command_and_loads_nothing():
    text = page(FOUND, "evenstep plan 10/5", {"evenstep": "0"})
    assert text.count("<svg") == 2
    assert "best, 5 workers: 91.00" in text
    assert "<pre>evenstep plan 10/5</pre>" in text
    assert "&lt;own&gt;" in text
    assert "<own>" not in text
    assert "src=" not in text


def test_a_chart_without_a_figure_is_said_to_be_missing():
    text = page(
        Planned("", 1.0, 5.0, "tpot=2s", 0.9, 1, 1, 8, False, [Size("jsq", 2, None)], None),
        "evenstep plan",
        {"evenstep": "0"},
    )
    assert text.count("Not recorded.") == 2
    assert "8 workers could not keep up even with even loads" in text


def test_an_objective_out_of_reach_is_said_once():
    found = Planned("", 1.0, 5.0, "tpot=1ms", 0.9, 1, 1, 8, False, [Size("jsq", 2, 4), Size("best", 2, 4)], None, 0.25)
    said = [line for line in lines(found) if "objective" in line and not line.startswith("objective")]
    assert said == ["No fleet is enough: only 25.0 % of the requests could meet the objective even alone in an idle fleet."]


def test_the_closed_forms_are_said_once_for_each_number_of_slots():
    sizes = [Size(name, slots, 4, 6, fcfs_workers=5) for slots in (2, 3) for name in ("jsq", "best")]
    said = [
        one for one in lines(Planned("", 1.0, 5.0, "tpot=1s", 0.9, 1, 1, 8, False, sizes, 0)) if one.startswith("Theory")
    ]
    assert said[0] == "Theory with 2 slots: keeping up takes 4 workers with even loads, and 5 with the loads of fcfs."
    assert [one[:20] for one in said] == ["Theory with 2 slots:", "Theory with 3 slots:"]
    one = lines(Planned("", 1.0, 5.0, "tpot=1s", 0.9, 1, 1, 8, False, [Size("jsq", 1, 1, 1, fcfs_workers=1)], 0))
    assert "Theory with 1 slot: keeping up takes 1 worker with even loads, and 1 with the loads of fcfs." in one
