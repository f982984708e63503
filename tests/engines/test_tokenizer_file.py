"""Exact counts by a tokenizer file made on the spot: one token a word."""

from __future__ import annotations

import importlib.util
import json
import sys

import pytest

from evenstep.engines.requests.parsing import read_request
from evenstep.engines.requests.tokenizer_file import TokenizerFile
from evenstep.errors import InputError

installed = importlib.util.find_spec("tokenizers") is not None
needs = pytest.mark.skipif(not installed, reason="the package tokenizers is an extra")


@pytest.fixture
def words(tmp_path):
    vocabulary = {"[UNK]": 0, "a": 1, "b": 2}
    file = tmp_path / "tokenizer.json"
    model = {"type": "WordLevel", "vocab": vocabulary, "unk_token": "[UNK]"}
    file.write_text(json.dumps({"version": "1.0", "pre_tokenizer": {"type": "Whitespace"}, "model": model}))
    return file


@needs
@pytest.mark.parametrize(("prompt", "tokens"), [("a b c", 3), (["a b", "c"], 3), ([7, 8], 2), ("", 0)])
def test_prompts_are_counted_exactly(words, prompt, tokens):
    body = json.dumps({"model": "m", "prompt": prompt}).encode()
    assert TokenizerFile(words).count(read_request("completions", body)) == tokens


@needs
def test_of_a_chat_the_texts_are_counted(words):
    parts = [{"type": "text", "text": "a b"}, {"type": "image_url", "image_url": {"url": "x"}}]
    messages = [
        {"role": "system", "content": "a"},
        {"role": "user", "content": parts},
        {"role": "assistant", "content": None},
    ]
    body = json.dumps({"model": "m", "messages": messages}).encode()
    assert TokenizerFile(words).count(read_request("chat", body)) == 3


@needs
@pytest.mark.parametrize(("prompt", "tokens"), [("a b a b", 4), ("a", 1), (["a", "a b a b"], 5)])
def test_a_file_that_cuts_and_fills_up_prompts_counts_whole_ones(words, prompt, tokens):
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(words))
    tokenizer.enable_truncation(2)
    tokenizer.enable_padding(length=8)
    tokenizer.save(str(words))
    request = read_request("completions", json.dumps({"model": "m", "prompt": prompt}).encode())
    assert TokenizerFile(words).count(request) == tokens


@needs
@pytest.mark.parametrize("kind", ["completions", "chat"])
def test_a_word_that_a_vocabulary_without_unknown_words_lacks_is_guessed(words, kind):
    words.write_text(words.read_text().replace('"[UNK]": 0, ', ""))
    prompt = {"messages": [{"role": "user", "content": "a c"}]} if kind == "chat" else {"prompt": "a c"}
    request = read_request(kind, json.dumps({"model": "m", **prompt}).encode())
    assert TokenizerFile(words).count(request) == request.prompt_bytes // 4


@needs
def test_a_prompt_with_a_number_beyond_floats_is_guessed(words):
    body = b'{"model":"m","messages":[{"role":"user","content":"a","x":1e999}]}'
    request = read_request("chat", body)
    assert TokenizerFile(words).count(request) == request.prompt_bytes // 4


@needs
def test_a_file_without_a_tokenizer_is_named(tmp_path):
    (tmp_path / "t.json").write_text("{}")
    for name in ("t.json", "none.json"):
        with pytest.raises(InputError, match=name):
            TokenizerFile(tmp_path / name)


def test_a_missing_package_says_how_to_get_it(words, monkeypatch):
    monkeypatch.setitem(sys.modules, "tokenizers", None)
    with pytest.raises(InputError, match=r"evenstep\[tokenizers\]"):
        TokenizerFile(words)
