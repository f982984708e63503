"""Plain values become settings classes; what does not fit is one clear error."""

from __future__ import annotations

import pytest
from tests.config.kinds import Counted, Fleet, Larger, Needs, Pool, Several, load, written

from evenstep.config.convert import convert
from evenstep.config.yaml_file import Document
from evenstep.errors import InputError


def test_a_file_becomes_its_dataclass_with_defaults_for_what_it_leaves_out(tmp_path):
    text = "version: 1\nworkers: 8\npool: {limit: 2}\npools: [{limit: 9}]\nnamed: {a: {limit: 3}}\n"
    assert load(written(tmp_path, text), Fleet) == Fleet(workers=8, pool=Pool(2), pools=[Pool(9)], named={"a": Pool(3)})


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
        load("fleet.yaml", Fleet)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_missing_field_is_named(tmp_path):
    with pytest.raises(InputError, match="size is 'missing'; expected a value"):
        load(written(tmp_path, "version: 1\n"), Needs)


@pytest.mark.parametrize("size", [2**53 + 1, -(2**63), 10**20])
@pytest.mark.parametrize(
    ("text", "named"),
    [("limit: {}", "limit"), ("sizes: [1, {}]", "sizes[1]"), ("pools: {{a: [{{limit: {}}}]}}", "pools.a[0].limit")],
)
def test_an_integer_too_large_for_compiled_code_is_named_with_its_line(tmp_path, text, named, size):
    with pytest.raises(InputError) as error:
        load(written(tmp_path, f"version: 1\n{text.format(size)}\n"), Counted)
    most = 1 << 53
    expected = f"fleet.yaml line 2: {named} is {size}; expected an integer from {-most} to {most}."
    assert str(error.value).endswith(expected)


def test_numbers_and_free_options_may_be_larger_than_integers(tmp_path):
    found = load(written(tmp_path, f"version: 1\nload: {10**20}\noptions: {{gain: {10**20}}}\n"), Counted)
    assert (found.load, found.options) == (1e20, {"gain": 10**20})


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("named: {7: {limit: 3}}", "key is 'named.7'; expected text. Write it in quotes."),
        ("named: {7: 1}", "key is 'named.7'; expected text. Write it in quotes."),
        ("named: {a: {limit: 3}, b: {limit: x}}", "named.b.limit is 'x'; expected an integer."),
        ("named: {gpt-3.5: {limit: x}}", "named.gpt-3.5.limit is 'x'; expected an integer."),
        ("pools: [{limit: 1}, {limit: 2.5}]", "pools[1].limit is 2.5; expected an integer."),
        ("pools: {limit: 3}", "pools is {'limit': 3}; expected a list."),
        ("pool: 3", "pool is 3; expected a mapping."),
        ("pace: fats", "pace is 'fats'; expected one of slow, fast. Did you mean fast?"),
        ("pace: 3", "pace is 3; expected text."),
    ],
)
def test_the_innermost_value_that_does_not_fit_is_named_with_its_keys(tmp_path, text, message):
    with pytest.raises(InputError) as error:
        load(written(tmp_path, f"version: 1\n{text}\n"), Larger)
    assert str(error.value).endswith(f"fleet.yaml line 2: {message}")


def test_a_field_that_is_missing_in_a_list_is_named_with_its_place():
    with pytest.raises(InputError, match=r"^here: many\[1\].size is 'missing'; expected a value"):
        convert(Document("here", {"many": [{"size": 1}, {}]}), Several)
