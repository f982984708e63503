"""``evenstep policy``: list, show, new, check."""

from __future__ import annotations

import itertools
import json
import runpy
import subprocess
import sys
from pathlib import Path

import pytest
from tests.routing._routed import moment

from evenstep import names
from evenstep.cli.main import main
from evenstep.cli.parts import outputs
from evenstep.routing.check_views import check_views

BAD = Path(__file__).parent.parent / "bad_policies"


def test_list_shows_every_policy_with_its_options(capsys):
    assert main(["policy", "list"]) == 0
    out = capsys.readouterr().out
    assert all(name in out for name in names.members("routing"))
    assert "discount=0.9" in out


@pytest.mark.parametrize("kind", ["routing", "scheduling"])
def test_list_shows_options_as_they_are_typed_and_says_where_they_are_explained(kind, capsys):
    assert main(["policy", "list", "--kind", kind]) == 0
    *lines, last = capsys.readouterr().out.splitlines()
    more = "" if kind == "routing" else "--kind scheduling "
    assert last == f"Options are shown with their defaults. Explained by: evenstep policy show {more}NAME"
    assert not any("`" in line or "(," in line or "()" in line for line in lines)
    shown = [line.split(maxsplit=1) for line in lines]
    typed = [
        f"{above[0]}:{option}"
        for above, (label, options) in itertools.pairwise(shown)
        if label == "options:"
        for option in options.split(", ")
        if not option.endswith(" unset")
    ]
    assert len(typed) > 20
    for text in typed:
        names.build(kind, names.parse(text))


def test_list_on_a_terminal_wraps_between_words_below_the_text(capsys, monkeypatch):
    monkeypatch.setattr(outputs, "terminal_width", lambda: 80)
    assert main(["policy", "list"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= 80
    assert lines[1].startswith(" " * 17) and lines[1][17] != " "


@pytest.mark.parametrize("words", [["best"], ["--kind", "scheduling", "wait"], ["bf-io"]])
def test_show_speaks_of_options_and_not_of_the_classes_errors(words, capsys):
    assert main(["policy", "show", *words]) == 0
    out = capsys.readouterr().out
    assert "\nOptions:\n" in out and "Source: " in out and "\nDefaults: " in out
    assert not any(word in out for word in ("Args:", "Raises:", "InputError", "`"))


@pytest.mark.parametrize("kind", ["routing", "scheduling"])
def test_show_explains_every_option_also_those_of_a_base_class(kind, capsys):
    for name in names.members(kind):
        assert main(["policy", "show", "--kind", kind, name]) == 0
        out = capsys.readouterr().out
        explained, _, defaults = out.partition("\nDefaults: ")
        for option in defaults.strip().split(", ") if defaults else []:
            assert f"\n    {option.split('=')[0].split()[0].replace('-', '_')}: " in explained, (name, option)


def test_show_of_a_policy_with_options_says_what_to_type(capsys):
    assert main(["policy", "show", "bf-io:horizon=20"]) == 2
    assert "NAME is 'bf-io:horizon=20'; expected a name without options. Try bf-io." in capsys.readouterr().err


@pytest.mark.slow
def test_check_of_a_policy_without_a_rule_says_that_there_is_no_second_way(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(["policy", "new", "mine"]) == main(["policy", "check", "mine.py"]) == 0
    assert "doors agree: there is no compiled rule, so only plain Python was asked" in capsys.readouterr().out


def test_check_prints_no_warnings():
    code = "import sys; from evenstep.cli.main import main; sys.exit(main(['policy', 'check', 'jsq']))"
    seen = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert seen.stderr == ""


@pytest.mark.parametrize("flags", [[], ["--format", "json"]])
def test_list_shows_the_others_where_one_does_not_load(flags, unloadable, capsys):
    unloadable("jsq")
    assert main(["policy", "list", *flags]) == 0
    out = capsys.readouterr().out
    assert "cannot be used: jsq: entry point is 'other:jsq'" in out and "least-load" in out


def test_list_as_json_has_defaults_and_meanings(capsys):
    assert main(["policy", "list", "--format", "json"]) == 0
    policies = {p["name"]: p for p in json.loads(capsys.readouterr().out)["policies"]}
    option = policies["br-h"]["options"]["horizon"]
    assert option["default"] == 40
    assert "steps looked ahead" in option["meaning"]


def test_show_explains_one_and_says_where_it_leaves_the_paper(capsys):
    assert main(["policy", "show", "br-0"]) == 0
    assert "Defaults are the paper's, except age_limit" in " ".join(capsys.readouterr().out.split())


def test_an_unknown_policy_is_one_line_with_the_nearest_name(capsys):
    assert main(["policy", "show", "br-1"]) == 2
    err = capsys.readouterr().err
    assert "br-0" in err
    assert err.count("\n") == 1


@pytest.mark.slow
@pytest.mark.parametrize(("name", "options"), [("my_own", []), ("my_rule", ["--rule"])])
def test_new_writes_a_policy_that_passes_its_check_and_its_own_test(name, options, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    assert main(["policy", "new", *options, name.replace("_", "-")]) == 0
    assert sorted(p.name for p in tmp_path.glob("*.py")) == [f"{name}.py", f"test_{name}.py"]
    assert main(["policy", "check", f"{name}.py:tokens_a_request=10"]) == 0
    assert "promises kept" in capsys.readouterr().out
    tests = runpy.run_path(f"test_{name}.py")
    tests[f"test_{name}_keeps_every_promise"]()
    tests[f"test_{name}_fills_every_slot_it_can"]()


@pytest.mark.slow
@pytest.mark.parametrize("first", [0, 1])
def test_a_compiled_rule_is_found_again_by_its_own_test_and_by_evenstep(first, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(["policy", "new", "--rule", "mine"]) == 0
    builds = [
        "import sys; sys.path.remove(''); from evenstep import names; made = names.build('routing', names.parse('mine.py'))",
        "from mine import Mine; made = Mine()",
    ]
    for build in (builds[first], builds[1 - first]):
        code = f"{build}; from evenstep.compiled import kernel_of; kernel_of(made)"
        seen = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
        assert seen.returncode == 0, seen.stderr


@pytest.mark.slow
def test_a_new_rule_decides_as_the_new_policy_in_plain_python_does(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(["policy", "new", "plain"]) == main(["policy", "new", "--rule", "ruled"]) == 0
    plain, ruled = (names.build("routing", names.parse(f"{name}.py:tokens_a_request=10")) for name in ("plain", "ruled"))
    for view in check_views(horizon=0, memory=0):
        assert plain.route(view).worker.tolist() == ruled.route(view).worker.tolist()


@pytest.mark.slow
def test_two_rules_in_files_of_one_name_stay_apart(tmp_path, monkeypatch):
    policies = []
    for folder, wanted in (("a", "<"), ("b", ">")):
        (tmp_path / folder).mkdir()
        monkeypatch.chdir(tmp_path / folder)
        assert main(["policy", "new", "--rule", "mine"]) == 0
        text = Path("mine.py").read_text().replace("work.load[g] < work", f"work.load[g] {wanted} work")
        Path("mine.py").write_text(text)
        policies.append(names.build("routing", {"name": str(tmp_path / folder / "mine.py")}))
    view = moment([5, 3], [1, 1], [1])
    assert [policy.route(view).worker.tolist() for policy in policies] == [[1], [0]]


def test_new_does_not_write_over_a_file(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "test_mine.py").write_text("kept")
    assert main(["policy", "new", "mine"]) == 2
    assert "test_mine.py is there" in capsys.readouterr().err
    assert not (tmp_path / "mine.py").exists()
    assert (tmp_path / "test_mine.py").read_text() == "kept"


@pytest.mark.parametrize("name", ["9lives", "Big", "a b", "", "class"])
def test_new_wants_a_name_python_can_import(name, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["policy", "new", name]) == 2
    assert "NAME is" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("filling", ["--kind", "scheduling"]),
        ("engine", ["--kind", "scheduling"]),
        pytest.param("work", ["--rule"], marks=pytest.mark.slow),
        pytest.param("ints", ["--rule"], marks=pytest.mark.slow),
    ],
)
def test_a_new_policy_s_class_hides_no_name_that_its_files_use(name, options, tmp_path, monkeypatch, capsys):
    """A rule called Work, a policy called Filling and the test of one called Engine failed."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    assert main(["policy", "new", *options, name]) == 0
    assert f"class {name.title()}Policy" in Path(f"{name}.py").read_text()
    tests = {key: test for key, test in runpy.run_path(f"test_{name}.py").items() if key.startswith("test_")}
    assert f"test_{name}_keeps_every_promise" in tests  # what `policy check` does
    for test in tests.values():
        test()


@pytest.mark.slow
def test_check_runs_both_doors_of_a_built_in_policy_to_one_digest(capsys):
    assert main(["policy", "check", "br-0:candidates=4", "--format", "json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["passed"]
    assert "same digest" in {c["name"] for c in found["checks"]}


@pytest.mark.slow
def test_check_brings_a_predictor_to_a_policy_that_looks_ahead(capsys):
    assert main(["policy", "check", "br-h:horizon=3"]) == 0


def test_check_makes_no_run_of_a_policy_that_no_simulation_takes(capsys):
    assert main(["policy", "check", "min-min:length=predicted", "--format", "json"]) == 0
    assert "same digest" not in {c["name"] for c in json.loads(capsys.readouterr().out)["checks"]}


def test_check_of_a_bad_policy_exits_1_and_names_the_promise(capsys):
    assert main(["policy", "check", str(BAD / "over_capacity.py")]) == 1
    assert "BROKEN  capacity: view 0: over capacity" in capsys.readouterr().out


@pytest.mark.parametrize("text", ["nothing.py", "br-0:candidate=3", "br-0:candidates=0", "br-h:predictor=oracle"])
def test_check_of_bad_input_exits_2_with_one_line(text, capsys):
    assert main(["policy", "check", text]) == 2
    assert capsys.readouterr().err.count("\n") == 1


@pytest.mark.slow
def test_scheduling_policies_are_listed_shown_and_checked_by_their_kind(capsys):
    assert main(["policy", "list", "--kind", "scheduling"]) == 0
    out = capsys.readouterr().out
    assert all(name in out for name in names.members("scheduling"))
    assert main(["policy", "show", "--kind", "scheduling", "vllm"]) == 0
    assert "watermark" in capsys.readouterr().out
    assert main(["policy", "check", "--kind", "scheduling", "vllm:watermark=0.02", "--format", "json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["passed"] and "same digest" in {c["name"] for c in found["checks"]}


@pytest.mark.parametrize(
    ("name", "options"), [("my_batches", []), pytest.param("ruled_batches", ["--rule"], marks=pytest.mark.slow)]
)
def test_new_writes_a_scheduling_policy_that_passes_its_check_and_its_own_test(name, options, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    assert main(["policy", "new", "--kind", "scheduling", *options, name.replace("_", "-")]) == 0
    assert "--engine" in capsys.readouterr().out
    assert ("@rule" in Path(f"{name}.py").read_text()) == bool(options)
    assert main(["policy", "check", f"{name}.py:room=40"]) == 0
    assert "all 18 promises kept" in capsys.readouterr().out
    tests = runpy.run_path(f"test_{name}.py")
    tests[f"test_{name}_keeps_every_promise"]()
    tests[f"test_{name}_runs_every_request_to_its_end"]()
    assert main(["policy", "check", "--kind", "routing", f"{name}.py"]) == 2
    assert "Take --kind scheduling." in capsys.readouterr().err


@pytest.mark.parametrize(("name", "other"), [("mlfq", "routing"), ("jsq", "scheduling")])
@pytest.mark.parametrize("verb", ["show", "check"])
def test_a_policy_of_another_kind_than_asked_for_is_refused_with_its_kind(verb, name, other, capsys):
    assert main(["policy", verb, "--kind", other, name]) == 2
    assert f"Take --kind {'routing' if other == 'scheduling' else 'scheduling'}." in capsys.readouterr().err


def test_the_kind_of_a_policy_is_found_and_routing_where_a_name_has_both(capsys):
    for name, told in (("mlfq", "FastServe"), ("jsq", "fewest requests"), ("vllm", "data-parallel engine")):
        assert main(["policy", "show", name]) == 0
        assert told in capsys.readouterr().out


@pytest.mark.parametrize("verb", ["show", "check"])
def test_a_mistyped_name_is_told_the_nearest_of_both_kinds(verb, capsys):
    """It named routing policies only."""
    for typed, nearest in (
        ("mlqf", "Did you mean mlfq?"),
        ("jqs", "Did you mean jsq?"),
        ("vanilla-vlm", "Did you mean vanilla-vllm"),
    ):
        assert main(["policy", verb, typed]) == 2
        assert f"name is '{typed}'; expected a known policy. " in (said := capsys.readouterr().err) and nearest in said


def test_the_scheduling_policy_people_start_from_is_no_worse_than_vllms(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(["policy", "new", "--kind", "scheduling", "mine"]) == 0
    words = ["compare", "sample:azure-conv", "--limit", "150", "--engine", "kv-tokens=8000", "--seeds", "1"]
    capsys.readouterr()
    assert main([*words, "--policy", "vllm", "--policy", "mine.py", "--format", "json"]) == 0
    vllm, mine = json.loads(capsys.readouterr().out)["policies"]
    assert mine["e2e_mean_s"] < 1.05 * vllm["e2e_mean_s"] and mine["e2e_p99_s"] < 1.05 * vllm["e2e_p99_s"]
    assert mine["evictions"] <= vllm["evictions"] and vllm["evictions"] > 0


def test_a_policy_may_not_hide_a_module(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("numpy", "random"):
        assert main(["policy", "new", name]) == 2
        assert "a name that no installed module has" in capsys.readouterr().err
    assert not [*tmp_path.iterdir()]


def test_show_writes_a_default_that_json_lacks_as_text(tmp_path, capsys):
    own = tmp_path / "own.py"
    own.write_text(
        "import math\nfrom dataclasses import dataclass\n\n\n@dataclass(frozen=True)\nclass Own:\n"
        "    limit: float = math.inf\n\n\npolicy = Own\n"
    )
    assert main(["policy", "show", str(own), "--format", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["options"]["limit"]["default"] == "inf"


def test_a_file_that_binds_an_instance_is_told_to_bind_the_class(tmp_path, capsys):
    own = tmp_path / "own.py"
    own.write_text("from dataclasses import dataclass\n\n\n@dataclass(frozen=True)\nclass Own: ...\n\n\npolicy = Own()\n")
    for verb in ("show", "check"):
        assert main(["policy", verb, str(own)]) == 2
        assert "expected a class. Bind the class itself, not what it makes." in capsys.readouterr().err
