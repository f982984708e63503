"""Taking out what only we asked for."""

from __future__ import annotations

import pytest

from evenstep.engines.streams.cleaning import (
    cut_prompt_ids,
    framed,
    is_list_of_ids,
    with_fingerprint,
    with_prompt_ids,
    without_ids,
    without_prompt_ids,
    without_usage,
)


@pytest.mark.parametrize(
    ("chunk", "absent", "null"),
    [
        (b'{"a":1,"usage":{"prompt_tokens":1}}', b'{"a":1}', b'{"a":1,"usage":null}'),
        (b'{"a":1,"usage":{"d":{"c":2}}}', b'{"a":1}', b'{"a":1,"usage":null}'),
        (b'{"a":1,"usage":{"p":1},"b":2}', b'{"a":1,"b":2}', b'{"a":1,"usage":null,"b":2}'),
        (b'{"usage":{"p":1},"b":2}', b'{"b":2}', b'{"usage":null,"b":2}'),
        (b'{ "a": 1, "usage": {"p": 1} }', b'{ "a": 1 }', b'{ "a": 1, "usage": null }'),
        (
            b'{"t":",\\"usage\\":{}","usage":{}}',
            b'{"t":",\\"usage\\":{}"}',
            b'{"t":",\\"usage\\":{}","usage":null}',
        ),
        (
            b'{"m":{"a":1,"usage":{"x":1}},"usage":{"p":1}}',
            b'{"m":{"a":1,"usage":{"x":1}}}',
            b'{"m":{"a":1,"usage":{"x":1}},"usage":null}',
        ),
        (
            b'{"usage":{"p":1},"m":{"a":1,"usage":{"x":1}}}',
            b'{"m":{"a":1,"usage":{"x":1}}}',
            b'{"usage":null,"m":{"a":1,"usage":{"x":1}}}',
        ),
    ],
)
def test_usage_goes_and_everything_else_stays(chunk, absent, null):
    assert without_usage(chunk, "absent") == absent
    assert without_usage(chunk, "null") == null


def test_ids_go_wherever_they_are():
    chunk = b'{"choices":[{"text":",\\"token_ids\\":[1]","prompt_token_ids":[1,2],"token_ids":[3]}],"prompt_token_ids":[]}'
    assert without_ids(chunk) == (
        b'{"choices":[{"text":",\\"token_ids\\":[1]","prompt_token_ids":null,"token_ids":null}],"prompt_token_ids":null}'
    )
    assert without_ids(b'{"token_ids":[1],"a":1}') == b'{"token_ids":null,"a":1}'
    assert without_ids(b'{"token_ids":[3],"prompt_token_ids":[1]}') == b'{"token_ids":null,"prompt_token_ids":null}'
    assert without_ids(b'{"token_ids" : [1, 2]}') == b'{"token_ids":null}'
    for chunk in (b'{"a":1}', b'{"my_token_ids":[1]}', b'{"token_ids":null}'):
        assert without_ids(chunk) == chunk


@pytest.mark.parametrize(
    ("chunk", "lists"),
    [
        (b'{"a":1,"prompt_token_ids":[1, 2],"token_ids":[3]}', [b"[1, 2]"]),
        (b'{"choices":[{"prompt_token_ids":[1]},{"prompt_token_ids":[2,3]}]}', [b"[1]", b"[2,3]"]),
        (b'{"a":1,"prompt_token_ids":null}', []),
        (b'{"text":"\\"prompt_token_ids\\":[1]"}', []),
        (b'{"prompt_token_ids":[[1]]}', []),
        (b'{"prompt_token_ids":["1]"]}', []),
        (b'{"prompt_token_ids":[1', []),
    ],
)
def test_lists_of_a_prompts_ids_are_cut_out_unread_and_can_be_put_back(chunk, lists):
    short, found = cut_prompt_ids(chunk)
    assert found == lists
    assert b'"prompt_token_ids":[]' in short or not lists
    assert with_prompt_ids(short, found) == chunk


def test_only_numbers_are_a_list_of_ids():
    assert is_list_of_ids(b"[1, 23,4]") and is_list_of_ids(b"[]")
    assert not any(is_list_of_ids(ids) for ids in (b"", b"[1.5]", b"[-1]", b"[1]]", b"[a]"))


def test_the_ids_of_the_prompt_go_alone():
    assert without_prompt_ids(b'{"prompt_token_ids":[1, 2],"token_ids":[3]}') == b'{"prompt_token_ids":null,"token_ids":[3]}'
    assert without_prompt_ids(b'{"prompt_token_ids" : [1,\n2]}') == b'{"prompt_token_ids" :null}'


@pytest.mark.parametrize(
    ("raw", "new"),
    [
        (b"data: {1}\n\n", b"data: {}\n\n"),
        (b"data:{1}\r\n\r\n", b"data:{}\r\n\r\n"),
        (b"id: 7\ndata: {1}\n\n", b"id: 7\ndata: {}\n\n"),
        (b"data: {\ndata: 1}\n\n", b"data: {}\n\n"),
    ],
)
def test_the_frame_of_an_event_stays(raw, new):
    old = b"{\n1}" if raw.count(b"data") == 2 else b"{1}"
    assert framed(raw, old, b"{}") == new


@pytest.mark.parametrize(
    ("event", "fingerprint", "added"),
    [
        (b'data: {"a":1}\n\n', b'"f"', b',"system_fingerprint":"f"'),
        (b'data: {"a":1}\n\n', b"null", b""),
        (b'data: {"a":1}\n\n', b"", b""),
        (b'data: {"a":1,"system_fingerprint":null}\n\n', b'"f"', b""),
    ],
)
def test_a_fingerprint_is_added_where_it_says_something_and_there_is_none(event, fingerprint, added):
    assert with_fingerprint(event, fingerprint) == event.replace(b"}", added + b"}")
