"""Finding things by name."""

from __future__ import annotations

import dataclasses
import os
import textwrap

import pytest

from evenstep import names
from evenstep.errors import InputError
from evenstep.predict.oracle import Oracle
from evenstep.workload.synthetic.laws import Pareto


@pytest.fixture
def mine(tmp_path):
    """A user's file with a policy, and one more class."""
    path = tmp_path / "mine.py"
    path.write_text(
        textwrap.dedent(
            """
            from __future__ import annotations
            from dataclasses import dataclass
            from typing import Literal

            @dataclass(frozen=True)
            class Mine:
                limit: int = 3
                share: float = 0.5
                ties: Literal["lowest", "random"] = "random"
                def route(self, view): ...

            class Other:
                def route(self, view): ...

            policy = Mine
            """
        )
    )
    return str(path)


class Entry:
    """An entry point of another package."""

    def __init__(self, name, value, thing):
        self.name, self.value, self._thing = name, value, thing

    def load(self):
        return self._thing


def test_the_name_is_the_file():
    assert names.find("predict", "oracle") is Oracle
    assert "oracle" in names.members("predict")


def test_a_member_may_lie_one_folder_below_its_room(tmp_path, monkeypatch):
    for place in ("near", "low/deep", "low/deep/deeper"):
        (tmp_path / place).mkdir(parents=True, exist_ok=True)
    (tmp_path / "near" / "low_one.py").write_text("policy = 1\n")
    (tmp_path / "low" / "part.py").write_text("helper = 1\n")
    (tmp_path / "low" / "deep" / "too_low.py").write_text("policy = 1\n")
    monkeypatch.setattr(names, "_ROOT", tmp_path)
    monkeypatch.setitem(names._PLACES, "a-room", "")
    monkeypatch.setitem(names.BINDINGS, "a-room", "policy")
    (tmp_path / "own.py").write_text("policy = 1\n")
    assert names.members("a-room") == ("low-one", "own")
    assert names._module(tmp_path / "near" / "low_one.py") == "evenstep.near.low_one"


def test_no_name_has_two_files():
    for room, word in names.BINDINGS.items():
        found = [f for f in names._files(room) if names._binds(f, word)]
        assert len({f.stem for f in found}) == len(found), room


def test_views_checks_kernels_and_references_are_no_members():
    for room in ("routing", "predict", "cost"):
        assert not {"view", "checks", "doors"} & set(names.members(room))
        assert not [n for n in names.members(room) if n.endswith(("-kernel", "-reference"))]


def test_a_file_of_ones_own_is_found_by_path_with_or_without_a_thing(mine):
    assert names.find("routing", mine).__name__ == "Mine"
    assert names.find("routing", f"{mine}:Other").__name__ == "Other"


def test_files_of_one_name_in_two_folders_are_two_modules(tmp_path, mine):
    text = (
        (tmp_path / "mine.py").read_text().replace("Literal", "Choice").replace("import Choice", "import Literal as Choice")
    )
    for name in ("mine.py", "v1.2.py", "v1_2.py"):
        (tmp_path / "other").mkdir(exist_ok=True)
        (tmp_path / "other" / name).write_text(text.replace("limit: int = 3", f"limit: int = {len(name)}"))
    made = [names.build("routing", {"name": mine, "ties": "lowest"})]
    others = sorted((tmp_path / "other").iterdir())
    made += [names.build("routing", {"name": str(path), "ties": "lowest"}) for path in others]
    assert names.make(type(made[0]), {"share": "1"}, "mine").limit == 3
    assert len({type(one).__module__ for one in made}) == 4
    assert not any("." in type(one).__module__ for one in made)


def test_a_module_of_another_package_is_found_by_its_full_name():
    assert names.find("predict", "evenstep.predict.oracle:Oracle") is Oracle


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("oracel", "predictor: name is 'oracel'; expected a known predictor. Did you mean oracle?"),
        ("nowhere.to.be:found", "module is 'nowhere.to.be'; expected an importable module"),
        (":x", "module is ''; expected an importable module. ValueError: Empty module name."),
        (".x:Thing", "module is '.x'; expected an importable module. TypeError: "),
        (
            "evenstep.predict.oracle:Oracel",
            "thing is 'Oracel'; expected a name bound in evenstep.predict.oracle",
        ),
        ("absent.py", "absent.py: file is 'absent.py'; expected an existing Python file"),
        ("a" * 300, "expected a known predictor"),
        ("a" * 300 + ".py", "expected a Python file that loads. OSError: "),
    ],
)
def test_what_is_not_found_is_one_error(name, message):
    with pytest.raises(InputError) as caught:
        names.find("predict", name)
    assert message in str(caught.value)


def test_a_file_that_binds_no_policy_is_called_by_its_name(tmp_path):
    """The error named a module that only evenstep knows, evenstep_user_mine_ and a hash."""
    path = tmp_path / "mine.py"
    path.write_text("class Mine:\n    pass\n")
    with pytest.raises(InputError, match=r"thing is 'policy'; expected a name bound in mine\.py\. Known: Mine\."):
        names.find("routing", str(path))


def test_an_error_calls_what_it_misses_as_users_do():
    """A room's own name, ``batch``, said nothing to a user who wrote ``--batch-time nan``."""
    for room, noun in (("batch", "batch-time law"), ("routing", "policy"), ("cost", "law"), ("cli", "command")):
        with pytest.raises(InputError, match=f"^{noun}: name is 'nan'; expected a known {noun}"):
            names.find(room, "nan")


def test_a_module_that_fails_as_it_is_imported_says_why(tmp_path, monkeypatch):
    (tmp_path / "fails_here.py").write_text("1 / 0\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(InputError, match="module is 'fails_here'; expected an importable module. ZeroDivisionError"):
        names.find("routing", "fails_here:Thing")


def test_a_file_that_does_not_load_says_why(tmp_path):
    broken = tmp_path / "broken.py"
    broken.write_text("1 / 0\n")
    with pytest.raises(InputError, match="expected a Python file that loads. ZeroDivisionError"):
        names.find("routing", str(broken))


def test_two_owners_of_a_name_are_an_error_that_shows_both(monkeypatch):
    monkeypatch.setattr(names, "entry_points", lambda group: [Entry("oracle", "other.package:Oracle", object)])
    with pytest.raises(InputError, match=r"evenstep.predict and other.package:Oracle"):
        names.find("predict", "oracle")


def test_an_entry_point_is_loaded_when_named(monkeypatch):
    monkeypatch.setattr(names, "entry_points", lambda group: [Entry("guest", "other:Thing", Oracle)])
    assert names.find("predict", "guest") is Oracle


def test_code_in_a_zip_file_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(names, "_ROOT", tmp_path / "packed.zip" / "evenstep")
    monkeypatch.setattr(names, "members", names.members.__wrapped__)
    monkeypatch.setattr(names, "_files", names._files.__wrapped__)
    with pytest.raises(InputError, match="expected a folder. It does not run from a zip file"):
        names.members("routing")


def test_a_policy_whose_hints_name_nothing_is_one_error(tmp_path):
    path = tmp_path / "mine.py"
    path.write_text("from dataclasses import dataclass\n@dataclass\nclass Mine:\n    size: 'Size' = 1\npolicy = Mine\n")
    with pytest.raises(InputError, match="expected one that can be made. NameError: name 'Size' is not defined"):
        names.build("routing", {"name": str(path)})


@pytest.mark.parametrize("room", ["routing", "scheduling", "predict", "cost", "batch", "engines"])
def test_a_class_without_the_methods_of_its_room_is_refused(tmp_path, room):
    """A gateway with such a policy said that it was ready, and with such an engine told of a bug of evenstep."""
    path = tmp_path / "mine.py"
    path.write_text("class Nothing:\n    pass\n")
    with pytest.raises(InputError, match="is 'Nothing'; expected a class with "):
        names.build(room, {"name": f"{path}:Nothing"})


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"k": "0"}, "mine.py takes. k is below 1."),
        ({"ties": "up"}, "ties is 'up'; expected one of low, high."),
    ],
)
def test_an_option_that_the_class_itself_refuses_says_why(tmp_path, options, message):
    """It said "expected k is below 1", and "expected Invalid enum value 'up'"."""
    path = tmp_path / "mine.py"
    path.write_text(
        "from dataclasses import dataclass\nfrom enum import Enum\nclass Ties(Enum):\n    LOW = 'low'\n    HIGH = 'high'\n"
        "@dataclass\nclass Mine:\n    k: int = 1\n    ties: Ties = Ties.LOW\n    def route(self, view): ...\n"
        "    def __post_init__(self):\n        if self.k < 1:\n            raise ValueError('k is below 1')\npolicy = Mine\n"
    )
    with pytest.raises(InputError) as caught:
        names.build("routing", {"name": str(path), **options})
    assert str(caught.value).endswith(message)


def test_the_last_line_of_others_code_in_a_traceback_is_named(tmp_path):
    path = tmp_path / "mine.py"
    path.write_text("import json\n\ndef fails():\n    json.loads(1)\n")
    with pytest.raises(TypeError) as caught:
        names.find("cost", f"{path}:fails")()
    assert names.guest_line(caught.value) == f"{path}, line 4"
    again = ValueError("in another process")
    again.add_note(f'  File "{path}", line 9, in f')  # as an executor hands it over
    assert names.guest_line(again) == f"{path}, line 9"
    assert names.guest_line(ValueError("ours")) == ""


def test_an_error_of_ours_that_passes_through_others_code_is_not_theirs(tmp_path, monkeypatch):
    (tmp_path / "corner").mkdir()  # a namespace package, and all that is in it
    (tmp_path / "corner" / "others_policies.py").write_text(
        "def asks(ours):\n    ours({})\n\ndef fails():\n    try:\n        asks(None)\n    finally:\n        {}['x']\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    asks, fails = (names.find("cost", f"corner.others_policies:{name}") for name in ("asks", "fails"))
    with pytest.raises(KeyError) as caught:
        asks(lambda spec: names.build("routing", spec))
    assert names.guest_line(caught.value) == ""
    with pytest.raises(KeyError) as caught:
        fails()
    line = f"{tmp_path / 'corner' / 'others_policies.py'}, line 8"
    assert names.guest_line(caught.value) == line
    outer = RuntimeError("ours")
    outer.__cause__ = caught.value
    assert names.guest_line(outer) == line


def test_an_entry_point_that_cannot_be_loaded_is_named(monkeypatch):
    class Broken(Entry):
        def load(self):
            return 1 / 0

    monkeypatch.setattr(names, "entry_points", lambda group: [Broken("guest", "other:Thing", None)])
    with pytest.raises(InputError, match="guest: entry point is 'other:Thing'; expected one that loads. ZeroDivisionError"):
        names.find("predict", "guest")


@pytest.mark.parametrize(
    ("text", "spec"),
    [
        ("jsq", {"name": "jsq"}),
        ("bf-io:horizon=20,discount=0.9", {"name": "bf-io", "horizon": "20", "discount": "0.9"}),
        ("br-h:stage-two-below=4", {"name": "br-h", "stage_two_below": "4"}),
        ("mine.py:Thing", {"name": "mine.py:Thing"}),
        ("mine.py:Thing:limit=2", {"name": "mine.py:Thing", "limit": "2"}),
        ("mine.py:limit=2", {"name": "mine.py", "limit": "2"}),
        ("package.module:Thing:a=1,b=x=y", {"name": "package.module:Thing", "a": "1", "b": "x=y"}),
    ],
)
def test_a_spec_is_a_name_and_options(text, spec):
    assert names.parse(text) == spec


def test_a_spec_with_an_option_twice_or_without_value_is_refused():
    with pytest.raises(InputError, match="expected each option once"):
        names.parse("br-h:horizon=1,horizon=2")
    with pytest.raises(InputError, match="expected key=value"):
        names.parse("br-h:horizon=1,fast")


def test_options_without_a_name_are_never_taken_for_a_name():
    assert names.options("kv-tokens=4,token-budget=2", "engine") == {"kv_tokens": "4", "token_budget": "2"}
    assert names.options("", "engine") == {}
    for text in ("kv-tokens", "kv-tokens,token-budget=2", "4096"):
        with pytest.raises(InputError, match="engine: option is .*; expected key=value"):
            names.options(text, "engine")


def test_an_option_that_has_to_be_given_is_named():
    with pytest.raises(InputError, match=r"^pareto: alpha is 'missing'; expected a value. Write pareto:alpha=\.\.\."):
        names.make(Pareto, {}, where="pareto")


def test_build_converts_text_to_the_type_of_the_field(mine):
    made = names.build("routing", {"name": mine, "limit": "7", "share": "0.25", "ties": "lowest"})
    assert (made.limit, made.share, made.ties) == (7, 0.25, "lowest")
    assert names.build("routing", {"name": mine}).limit == 3


def test_build_offers_the_nearest_option(mine):
    with pytest.raises(InputError, match=r"option is 'limt'; expected a known option. Did you mean limit\?"):
        names.build("routing", {"name": mine, "limt": "7"})


@pytest.mark.parametrize("option", [{"limit": "x"}, {"share": "much"}, {"ties": "first"}])
def test_build_refuses_a_value_that_does_not_fit(mine, option):
    with pytest.raises(InputError, match=next(iter(option.values()))):
        names.build("routing", {"name": mine, **option})


def test_several_values_have_slashes_between_them():
    assert names.build("routing", names.parse("best:class-weights=1/0.5")).class_weights == (1.0, 0.5)
    assert names.build("routing", {"name": "best", "class_weights": (2.0,)}).class_weights == (2.0,)
    with pytest.raises(InputError, match="class_weights is '1/x'; expected"):
        names.build("routing", names.parse("best:class-weights=1/x"))


@pytest.mark.parametrize("limit", [str(2**53 + 1), -(2**63), 2**64])
def test_an_integer_option_that_compiled_code_cannot_hold_is_refused(mine, limit):
    assert names.build("routing", {"name": mine, "limit": 2**53}).limit == 2**53
    with pytest.raises(InputError, match=f"limit is '?{limit}'?; expected an integer from -{2**53} to {2**53}"):
        names.build("routing", {"name": mine, "limit": limit})
    with pytest.raises(InputError, match=f"thresholds is '8/{2**64}'; expected an integer from"):
        names.build("scheduling", {"name": "wait", "thresholds": f"8/{2**64}"})


def test_what_is_no_dataclass_takes_no_options(mine):
    assert type(names.build("routing", {"name": f"{mine}:Other"})).__name__ == "Other"
    with pytest.raises(InputError, match="expected no options"):
        names.build("routing", {"name": f"{mine}:Other", "limit": 1})


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("policy = 3\n", "thing is '3'; expected a class"),
        ("class P:\n    def __init__(self, a): ...\npolicy = P\n", "made without arguments"),
    ],
)
def test_a_binding_that_cannot_be_made_is_one_error(tmp_path, text, message):
    path = tmp_path / f"odd{len(text)}.py"
    path.write_text(text)
    with pytest.raises(InputError, match=message):
        names.build("routing", {"name": str(path)})


def test_a_file_is_read_anew_in_another_folder_and_after_a_change(tmp_path, monkeypatch):
    def said() -> int:
        return names.find("routing", "twice.py:VALUE")

    for folder, value in (("a", 1), ("b", 2)):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "twice.py").write_text(f"VALUE = {value}\n")
        monkeypatch.chdir(tmp_path / folder)
        assert said() == value
    (tmp_path / "b" / "twice.py").write_text("VALUE = 3\n")
    os.utime(tmp_path / "b" / "twice.py", ns=(1, 10**18))
    assert said() == 3


@dataclasses.dataclass(frozen=True)
class Numbers:
    """One field of each kind that holds numbers, and one of text."""

    share: float = 0.0
    limit: int = 0
    either: int | float = 0
    perhaps: float | None = None
    several: tuple[float, ...] = ()
    word: str = ""


@pytest.mark.parametrize(
    ("text", "number"),
    [
        (".05", 0.05),
        ("0.05", 0.05),
        ("-.5", -0.5),
        ("+.5", 0.5),
        ("5.", 5.0),
        ("05.50", 5.5),
        ("+1e3", 1000.0),
        (".5e-1", 0.05),
    ],
)
def test_a_number_may_be_written_in_any_plain_decimal_form(text, number):
    options = {"share": text, "either": text, "perhaps": text, "several": f"1/{text}", "word": text}
    made = names.make(Numbers, options, "numbers")
    assert (made.share, made.either, made.perhaps, made.several) == (number, number, number, (1.0, number))
    assert made.word == text


@pytest.mark.parametrize(("text", "number"), [("3", 3), ("+3", 3), ("-3", -3), ("007", 7), ("000", 0)])
def test_a_whole_number_stays_whole(text, number):
    made = names.make(Numbers, {"limit": text, "either": text}, "numbers")
    assert (made.limit, made.either) == (number, number)
    assert type(made.either) is int


@pytest.mark.parametrize("text", [".", "", "+", "e5", ".e5", "1.2.3", "0x1", "1_000", " 1", "1,5", "--1", "\u0663"])
def test_what_is_no_plain_number_is_refused(text):
    with pytest.raises(InputError, match="share is"):
        names.make(Numbers, {"share": text}, "numbers")


def test_a_fraction_is_no_whole_number():
    with pytest.raises(InputError, match=r"limit is '\.05'; expected an integer"):
        names.make(Numbers, {"limit": ".05"}, "numbers")


def test_a_file_edited_within_a_second_is_read_again_though_its_size_is_the_same(tmp_path):
    """Python's own bytecode cache goes by seconds and size, so the old text was run."""
    path = tmp_path / "mine.py"
    for edition in (1, 2):
        path.write_text(f"policy = {edition}\n")
        os.utime(path, ns=(edition, edition))
        assert names.find("routing", str(path)) == edition
    assert not (tmp_path / "__pycache__").exists()
