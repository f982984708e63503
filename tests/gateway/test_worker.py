"""Workers as their operator describes them."""

from __future__ import annotations

import pytest

from evenstep.errors import InputError
from evenstep.gateway.config.worker import Worker, group_of, worker_of


def test_a_worker_is_called_by_its_address():
    assert [w.name for w in Worker("http://engine:8100").each()] == ["engine:8100"]
    assert [w.name for w in Worker("https://engine/base").each()] == ["engine:443"]
    assert [w.name for w in Worker("http://[::1]:80").each()] == ["[::1]:80"]


def test_ranks_behind_one_address_are_workers_of_one_barrier_group():
    ranks = Worker("http://engine:8100", ranks=3).each()
    assert [(w.name, w.rank, w.group) for w in ranks] == [
        ("engine:8100#0", 0, "engine:8100"),
        ("engine:8100#1", 1, "engine:8100"),
        ("engine:8100#2", 2, "engine:8100"),
    ]
    assert {w.ranks for w in ranks} == {None}


def test_a_group_that_is_given_holds_for_every_rank():
    assert {w.group for w in Worker("http://engine:8100", ranks=2, group="a").each()} == {"a"}


@pytest.mark.parametrize(
    "url",
    [
        "engine:8100",
        "ftp://engine:1",
        "http://",
        "http://a:port",
        "http://a b:1",
        "http://u@a:1",
        "http://:pw@a:1",
        "http://@a:1",
        "http://a:1?x",
        "http://a:0",
        "http://[::1",
        "http://a:1/ü",
    ],
)
def test_an_address_that_is_none_is_refused_by_name(url):
    with pytest.raises(InputError, match=r"worker .*: url is"):
        Worker(url).each()


def test_rank_and_ranks_exclude_each_other():
    with pytest.raises(InputError, match="ranks is 2; expected either ranks or rank, not both"):
        Worker("http://a:1", rank=0, ranks=2).each()
    for ranks in (0, 10**30):  # the second was counted through, one worker for each
        with pytest.raises(InputError, match=rf"ranks is {ranks}; expected an integer in 1\.\.4096"):
            Worker("http://a:1", ranks=ranks).each()
    with pytest.raises(InputError, match="rank is -1"):
        Worker("http://a:1", rank=-1).each()


def test_the_first_rank_of_a_further_node_is_told_with_its_ranks():
    ranks = Worker("http://engine:8100", ranks=2, first_rank=1).each()
    assert [(w.name, w.rank, w.first_rank) for w in ranks] == [
        ("engine:8100#0", 0, 1),
        ("engine:8100#1", 1, 1),
    ]
    with pytest.raises(InputError, match="first_rank is -1; expected an integer >= 0"):
        Worker("http://a:1", ranks=2, first_rank=-1).each()
    with pytest.raises(InputError, match="first_rank is 4; expected 0 unless ranks or rank is given"):
        Worker("http://a:1", first_rank=4).each()


def test_a_dispatcher_is_told_what_the_operator_said():
    spec = Worker("http://a:1", name="a", group="g", slots=8, kv_tokens=99, speed=2.0, scraped=False).spec()
    assert (spec.name, spec.group, spec.slots, spec.kv_tokens, spec.speed, spec.scraped) == (
        "a",
        "g",
        8,
        99,
        2.0,
        False,
    )
    assert Worker("http://a:1", name="a").spec(slots=7).slots == 7


def test_as_text_a_worker_has_each_option_once_and_as_many_models_as_it_likes():
    found = worker_of("http://a:1,slots=8,models=meta/llama,models=adapter", "--worker")
    assert (found.slots, found.models) == (8, ["meta/llama", "adapter"])
    with pytest.raises(InputError, match="--worker: slots is '9'; expected each option once. It is 8 already."):
        worker_of("http://a:1,slots=8,slots=9", "--worker")
    with pytest.raises(InputError, match="url is 'http://b:1'; expected each option once"):
        worker_of("http://a:1,url=http://b:1", "--worker")
    with pytest.raises(InputError, match="worker http://a:1: models is ''; expected names that are not empty"):
        worker_of("http://a:1,models=", "--worker").each()


def test_a_group_without_a_url_does_not_show_its_key():
    with pytest.raises(InputError, match=r"group is 'slots=3,api_key=\(hidden\)'"):
        group_of("slots=3,api_key=s3cret", "--group")


@pytest.mark.parametrize("key", ["ключ", "two\nlines"])
def test_a_key_that_no_header_can_hold_is_refused_and_not_shown(key):
    with pytest.raises(InputError, match=r"worker a: api_key is '\(hidden\)'; expected printable ASCII"):
        Worker("http://a:1", name="a", api_key=key).secret()


@pytest.mark.parametrize(
    "url",
    [*(f"http://user:word@h:{end}" for end in ("1", "x", "1?q")), "user:word@h:1", "http://user:wo/word@h", "http:a:word@h"],
)
def test_a_password_in_a_url_is_refused_and_not_shown(url):
    with pytest.raises(InputError, match=r"worker .*//\(hidden\)@h.*: url is '.*//\(hidden\)@h") as caught:
        Worker(url=url).each()
    assert "word" not in str(caught.value)
    with pytest.raises(InputError, match="hidden") as caught:
        worker_of(f"{url},x", "flag")
    assert "word" not in str(caught.value)
