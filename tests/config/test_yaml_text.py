"""YAML text: plain values as YAML 1.2 has them, and no tricks."""

from __future__ import annotations

import pytest
from tests.config.kinds import Fleet, load, written

from evenstep.config import yaml_text
from evenstep.config.yaml_file import read_yaml
from evenstep.errors import InputError


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
    assert read_yaml(written(tmp_path, f"version: 1\nx: {text}\n")).values == {"x": value}


@pytest.mark.parametrize("text", ["no", "off", "2023-11-16", "12:30", "007"])
def test_words_and_times_stay_text(tmp_path, text):
    assert read_yaml(written(tmp_path, f"version: 1\nx: {text}\n")).values == {"x": text}


@pytest.mark.parametrize(
    "value",
    ["1" * 5000, "[" * 3000, "!!timestamp 2001-13-45", "!!timestamp soon", "!!bool maybe", "!!int ''"],
)
def test_a_value_that_python_cannot_hold_is_an_error_of_the_file(tmp_path, value):
    path = tmp_path / "fleet.yaml"
    path.write_text(f"version: 1\npool: {value}\n")
    with pytest.raises(InputError, match="fleet.yaml: text is 'not YAML'; expected YAML"):
        read_yaml(path)


def test_a_merge_key_gives_way_to_the_keys_next_to_it(tmp_path):
    path = tmp_path / "fleet.yaml"
    path.write_text("version: 1\npool: &own\n  limit: 3\n  order: lifo\nother:\n  <<: *own\n  limit: 4\n")
    document = read_yaml(path)
    assert document.values["other"] == {"limit": 4, "order": "lifo"}
    assert (document.where("other.limit"), document.where("other.order")) == (f"{path} line 7", f"{path} line 5")


def test_an_alias_of_something_else_is_what_it_names(tmp_path):
    file = written(tmp_path, "version: 1\na: &one {limit: 3}\nb: [*one, *one]\n")
    assert read_yaml(file).values["b"] == [{"limit": 3}, {"limit": 3}]


def test_aliases_that_grow_without_bounds_are_refused(tmp_path):
    grows = "".join(f"a{level}: &a{level} [{', '.join([f'*a{level - 1}'] * 10)}]\n" for level in range(1, 30))
    with pytest.raises(InputError, match="values is 'more than 100000'; expected fewer"):
        read_yaml(written(tmp_path, f"version: 1\na0: &a0 [x]\n{grows}"))


def test_a_long_file_without_aliases_is_read(tmp_path, monkeypatch):
    monkeypatch.setattr(yaml_text, "_MOST_VALUES", 3)
    file = written(tmp_path, f"version: 1\nsizes: [{'1,' * 10}]\n")
    assert len(read_yaml(file).values["sizes"]) == 10


def test_a_whole_surrogate_pair_in_a_file_is_a_letter(tmp_path):
    """JSON is YAML, and writes letters beyond 16 bits so."""
    pair = r'"\ud83d\ude00"'
    assert read_yaml(written(tmp_path, f"version: 1\n{pair}: {pair}\n")).values["\U0001f600"] == "\U0001f600"


def test_half_a_surrogate_pair_in_a_file_is_named_with_its_line(tmp_path):
    with pytest.raises(InputError, match="line 2: workers is .* expected text without half a surrogate pair"):
        load(written(tmp_path, 'version: 1\nworkers: "\\ud800"\n'), Fleet)
