"""Settings: versioned, strict, layered."""

from __future__ import annotations

import inspect
from dataclasses import dataclass, field
from typing import Any, Literal

import jsonschema
import pytest

from evenstep import config
from evenstep.config import Layer
from evenstep.errors import InputError


@dataclass(frozen=True)
class Pool:
    """A waiting pool.

    Args:
        limit: requests it holds at most.
    """

    limit: int = 4


@dataclass(frozen=True)
class Fleet:
    """A fleet.

    Args:
        workers: workers of the
            fleet.
        per_token_s, overhead_s: seconds.

    Raises:
        InputError: never.
    """

    workers: int = 16
    per_token_s: float = 0.5
    overhead_s: float = 0.25
    name: str = "none"
    pool: Pool = Pool()
    pools: list[Pool] = field(default_factory=list)
    named: dict[str, Pool] = field(default_factory=dict)


@dataclass(frozen=True)
class Needs:
    size: int


def written(tmp_path, text):
    path = tmp_path / "fleet.yaml"
    path.write_text(text)
    return path


def test_a_file_becomes_its_dataclass_with_defaults_for_what_it_leaves_out(tmp_path):
    text = "version: 1\nworkers: 8\npool: {limit: 2}\npools: [{limit: 9}]\nnamed: {a: {limit: 3}}\n"
    assert config.load(written(tmp_path, text), Fleet) == Fleet(
        workers=8, pool=Pool(2), pools=[Pool(9)], named={"a": Pool(3)}
    )


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1e-7", 1e-7),
        ("312e12", 312e12),
        ("1.5", 1.5),
        (".5", 0.5),
        ("-2.", -2.0),
        (".inf", float("inf")),
        ("3", 3),
    ],
)
def test_numbers_are_read_as_yaml_1_2_has_them(tmp_path, text, value):
    assert config.read_yaml(written(tmp_path, f"version: 1\nx: {text}\n")).values == {"x": value}


@pytest.mark.parametrize("text", ["no", "off", "2023-11-16", "12:30", "007"])
def test_words_and_times_stay_text(tmp_path, text):
    assert config.read_yaml(written(tmp_path, f"version: 1\nx: {text}\n")).values == {"x": text}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("workers: 8\n", "fleet.yaml: version is 'missing'; expected 1. Add the line `version: 1`."),
        ("version: 2\n", "fleet.yaml line 1: version is 2; expected 1."),
        ("version: true\n", "fleet.yaml line 1: version is True; expected 1."),
        ("", "fleet.yaml: content is 'empty'; expected a mapping of keys to values."),
        ("- 1\n", "fleet.yaml: content is 'a list'; expected a mapping of keys to values."),
        (
            "version: 1\nworkres: 3\n",
            "fleet.yaml line 2: key is 'workres'; expected a known key. Did you mean workers?",
        ),
        (
            "version: 1\npool:\n  limt: 3\n",
            "fleet.yaml line 3: key is 'pool.limt'; expected a known key. Did you mean limit?",
        ),
        ("version: 1\npools:\n- limt: 3\n", "fleet.yaml line 3: key is 'pools[0].limt'"),
        ("version: 1\nnamed:\n  a: {limt: 3}\n", "fleet.yaml line 3: key is 'named.a.limt'"),
        (
            "version: 1\npool:\n  limit: many\n",
            "fleet.yaml line 3: pool.limit is 'many'; expected an integer.",
        ),
        (
            "version: 1\nworkers: 1\nworkers: 2\n",
            "fleet.yaml line 3: key is 'workers'; expected each key once.",
        ),
        ("version: 1\nworkers: [1\n", "expected YAML."),
        (
            "version: 1\npools: &all\n- {limit: 3}\n- *all\n",
            "fleet.yaml line 2: pools[1] is 'an alias of what holds it'; expected a value that ends.",
        ),
        ("version: 1\npool: &own\n  limit: {of: *own}\n", "fleet.yaml line 3: pool.limit.of is 'an alias"),
    ],
)
def test_a_bad_file_is_one_error_that_names_file_line_and_field(tmp_path, monkeypatch, text, message):
    monkeypatch.chdir(tmp_path)
    written(tmp_path, text)
    with pytest.raises(InputError) as caught:
        config.load("fleet.yaml", Fleet)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "value",
    ["1" * 5000, "[" * 3000, "!!timestamp 2001-13-45", "!!timestamp soon", "!!bool maybe", "!!int ''"],
)
def test_a_value_that_python_cannot_hold_is_an_error_of_the_file(tmp_path, value):
    path = tmp_path / "fleet.yaml"
    path.write_text(f"version: 1\npool: {value}\n")
    with pytest.raises(InputError, match="fleet.yaml: text is 'not YAML'; expected YAML"):
        config.read_yaml(path)


def test_a_merge_key_gives_way_to_the_keys_next_to_it(tmp_path):
    path = tmp_path / "fleet.yaml"
    path.write_text("version: 1\npool: &own\n  limit: 3\n  order: lifo\nother:\n  <<: *own\n  limit: 4\n")
    document = config.read_yaml(path)
    assert document.values["other"] == {"limit": 4, "order": "lifo"}
    assert (document.where("other.limit"), document.where("other.order")) == (f"{path} line 7", f"{path} line 5")


def test_an_alias_of_something_else_is_what_it_names(tmp_path):
    file = written(tmp_path, "version: 1\na: &one {limit: 3}\nb: [*one, *one]\n")
    assert config.read_yaml(file).values["b"] == [{"limit": 3}, {"limit": 3}]


def test_aliases_that_grow_without_bounds_are_refused(tmp_path):
    grows = "".join(f"a{level}: &a{level} [{', '.join([f'*a{level - 1}'] * 10)}]\n" for level in range(1, 30))
    with pytest.raises(InputError, match="values is 'more than 100000'; expected fewer"):
        config.read_yaml(written(tmp_path, f"version: 1\na0: &a0 [x]\n{grows}"))


def test_a_long_file_without_aliases_is_read(tmp_path, monkeypatch):
    monkeypatch.setattr(config, "_MOST_VALUES", 3)
    file = written(tmp_path, f"version: 1\nsizes: [{'1,' * 10}]\n")
    assert len(config.read_yaml(file).values["sizes"]) == 10


def test_what_is_not_in_the_file_stands_on_the_line_of_what_is_around_it(tmp_path):
    file = written(tmp_path, "version: 1\npools:\n- limit: 3\n-\n  limit: 4\n")
    document = config.read_yaml(file)
    assert document.where("pools[1].size.of") == f"{file} line 5"
    assert document.where("pools[7]") == f"{file} line 2"
    assert document.where("pool") == document.where() == str(file)


def test_a_missing_field_is_named(tmp_path):
    with pytest.raises(InputError, match="size is 'missing'; expected a value"):
        config.load(written(tmp_path, "version: 1\n"), Needs)


def test_a_file_that_cannot_be_read_is_an_input_error(tmp_path):
    with pytest.raises(InputError, match="expected a readable file"):
        config.load(tmp_path / "absent.yaml", Fleet)
    with pytest.raises(InputError, match="expected a readable file. File name too long"):
        config.load("a" * 300, Fleet)
    binary = tmp_path / "binary.yaml"
    binary.write_bytes(b"version: 1\nname: \xff\xfe\n")
    with pytest.raises(InputError, match="expected UTF-8 text"):
        config.load(binary, Fleet)
    with pytest.raises(InputError, match="^YAML file: file is ''; expected a readable file"):
        config.load("", Fleet)


def test_later_layers_win_and_every_value_remembers_its_origin():
    settled = config.settle(
        Fleet,
        config.Layer("fleet.yaml", {"workers": 8, "name": "file"}),
        config.Layer("command line", {"workers": "4"}, text=True),
    )
    assert settled.value == Fleet(workers=4, name="file")
    assert settled.origin["workers"] == "command line"
    assert settled.origin["name"] == "fleet.yaml"
    assert settled.origin["pool"] == "default"


@dataclass(frozen=True)
class Keyed:
    api_key: str | None = None


def test_a_secret_that_does_not_fit_is_not_shown():
    with pytest.raises(InputError, match=r"load.yaml: api_key is '\(hidden\)'; expected text"):
        config.settle(Keyed, config.Layer("load.yaml", {"api_key": 12345678}))


@dataclass(frozen=True)
class Larger(Fleet):
    """A larger fleet.

    Args:
        pace: how fast.
    """

    pace: Literal["slow", "fast"] = "slow"


def test_a_choice_offers_the_nearest_word():
    with pytest.raises(InputError, match="command line: --pace is 'fats'; expected one of slow, fast. Did you mean fast?"):
        config.settle(Larger, config.Layer("command line", {"pace": "fats"}, text=True))


def test_meaning_includes_what_a_dataclass_extends():
    assert config.meaning(Larger)["pace"] == "how fast."
    assert config.meaning(Larger)["workers"] == "workers of the fleet."


def test_meaning_is_whole_where_python_cleans_docstrings():
    class Cleaned:
        """As Python 3.13 keeps it."""

    Cleaned.__doc__ = inspect.cleandoc(Fleet.__doc__)
    assert config.meaning(Cleaned) == config.meaning(Fleet)


def test_a_bad_value_names_the_layer_it_came_from():
    with pytest.raises(InputError, match="command line: --workers is 'x'; expected an integer."):
        config.settle(Fleet, config.Layer("command line", {"workers": "x"}, text=True))
    with pytest.raises(InputError, match="fleet.yaml: key is 'worker'; expected a known key. Did you mean workers?"):
        config.settle(Fleet, config.Layer("fleet.yaml", {"worker": 1}))


def test_the_schema_accepts_what_load_accepts_and_refuses_what_it_refuses():
    published = config.schema(Fleet, "fleet")
    check = jsonschema.Draft202012Validator(published)
    check.check_schema(published)
    assert check.is_valid({"version": 1, "workers": 3, "pool": {"limit": 2}})
    for bad in (
        {"workers": 3},
        {"version": 1, "workres": 3},
        {"version": 1, "pool": {"limt": 2}},
        {"version": 2},
    ):
        assert not check.is_valid(bad), bad


def test_the_schema_says_what_the_docstring_says():
    properties = config.schema(Fleet, "fleet")["properties"]
    assert properties["workers"]["description"] == "workers of the fleet."
    assert properties["overhead_s"]["description"] == properties["per_token_s"]["description"] == "seconds."
    assert config.schema(Fleet, "fleet")["$defs"]["Pool"]["properties"]["limit"]["description"]


def test_numbers_may_be_repeated_in_text():
    assert config.numbers_of("law", "speed", "2*1/0.5") == config.numbers_of("law", "speed", (1, 1, 0.5)) == (1.0, 1.0, 0.5)


@pytest.mark.parametrize("text", ["", "x", "1/", "0*1", "-1*2", "1.5*2", "inf", "*3", "9" * 20 + "*1", "9" * 5000 + "*1"])
def test_text_that_is_no_numbers_names_field_and_value(text):
    with pytest.raises(InputError, match=r"^law: speed is "):
        config.numbers_of("law", "speed", text)


@dataclass(frozen=True)
class Paced:
    share: float | None = None
    limit: int | None = None


def test_a_flag_takes_a_number_in_any_plain_decimal_form():
    found = config.settle(Paced, config.Layer("command line", {"share": ".85", "limit": "+4"}, text=True))
    assert (found.value.share, found.value.limit) == (0.85, 4)


def test_a_number_beyond_every_float_is_one_clear_error():
    with pytest.raises(InputError, match="here: speed is 1000.*; expected a finite number"):
        config.finite("here", "speed", 10**400)


@dataclass(frozen=True)
class Counted:
    limit: int | None = None
    load: float = 0.0
    sizes: tuple[int, ...] = ()
    pools: dict[str, list[Pool]] = field(default_factory=dict)
    options: dict[str, Any] = field(default_factory=dict)


@pytest.mark.parametrize("size", [2**53 + 1, -(2**63), 10**20])
@pytest.mark.parametrize(
    ("text", "named"),
    [("limit: {}", "limit"), ("sizes: [1, {}]", "sizes[1]"), ("pools: {{a: [{{limit: {}}}]}}", "pools.a[0].limit")],
)
def test_an_integer_too_large_for_compiled_code_is_named_with_its_line(tmp_path, text, named, size):
    with pytest.raises(InputError) as error:
        config.load(written(tmp_path, f"version: 1\n{text.format(size)}\n"), Counted)
    most = 1 << 53
    expected = f"fleet.yaml line 2: {named} is {size}; expected an integer from {-most} to {most}."
    assert str(error.value).endswith(expected)


def test_bytes_that_are_no_utf_8_are_an_error_of_their_flag():
    with pytest.raises(InputError, match=r"command line: --workers is '\\udcff'; expected an integer"):
        config.settle(Fleet, config.Layer("command line", {"workers": "\udcff"}, text=True))
    with pytest.raises(InputError, match="flag: workers is .* expected UTF-8 text"):
        config.convert({"workers": "\udcff"}, Fleet, "flag", text=True)


def test_a_whole_surrogate_pair_in_a_file_is_a_letter(tmp_path):
    """JSON is YAML, and writes letters beyond 16 bits so."""
    pair = r'"\ud83d\ude00"'
    assert config.read_yaml(written(tmp_path, f"version: 1\n{pair}: {pair}\n")).values["\U0001f600"] == "\U0001f600"


def test_half_a_surrogate_pair_in_a_file_is_named_with_its_line(tmp_path):
    with pytest.raises(InputError, match="line 2: workers is .* expected text without half a surrogate pair"):
        config.load(written(tmp_path, 'version: 1\nworkers: "\\ud800"\n'), Fleet)


def test_a_flag_of_too_many_digits_is_an_error_of_that_flag():
    with pytest.raises(InputError, match=f"^flags: --limit is {10**18}; expected an integer from -9007"):
        config.settle(Counted, Layer("flags", {"limit": str(10**18)}, text=True))
    with pytest.raises(InputError, match=f"^here: limit is {10**20}; expected an integer from -9007"):
        config.convert({"limit": str(10**20)}, Counted, "here", text=True)


def test_numbers_and_free_options_may_be_larger_than_integers(tmp_path):
    found = config.load(written(tmp_path, f"version: 1\nload: {10**20}\noptions: {{gain: {10**20}}}\n"), Counted)
    assert (found.load, found.options) == (1e20, {"gain": 10**20})


@pytest.mark.parametrize("value", ["total-token", "key", ["class", "token"], {"salt"}, "vllm:token_budget=3"])
def test_a_value_that_ends_with_the_name_of_a_secret_hides_none(value):
    assert config.unless_secret("score", value) == value


@pytest.mark.parametrize("value", ["api_key s", {"key": "s"}, ["token", "s"], 'salt":"$', "http://a:1,api_key=s"])
def test_what_follows_the_name_of_a_secret_is_hidden(value):
    assert config.unless_secret("score", value) == "(hidden)"
