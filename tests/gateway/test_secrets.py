"""Secrets lie in variables, files or hashes, and are never shown."""

from __future__ import annotations

import hashlib

import pytest

from evenstep.errors import InputError
from evenstep.gateway.config.secrets import covered, digest_of, read_secret


def test_a_secret_is_read_from_where_it_lies(tmp_path, monkeypatch):
    file = tmp_path / "key"
    file.write_text("of the file\n")
    monkeypatch.setenv("SOME_KEY", "of the variable")
    assert read_secret(f"file:{file}", "keys", "key") == "of the file"
    assert read_secret("env:SOME_KEY", "keys", "key") == "of the variable"
    assert read_secret("sk-written-out", "keys", "key") == "sk-written-out"


def test_a_secret_that_is_not_there_is_refused_by_its_place(tmp_path):
    (tmp_path / "empty").write_text("\n")
    for text, said in (
        ("env:NO_SUCH_VARIABLE", "a variable that is set"),
        (f"file:{tmp_path}/none", "a readable file"),
        (f"file:{tmp_path}/empty", "a file that is not empty"),
    ):
        with pytest.raises(InputError, match=f"keys: key is .*expected {said}"):
            read_secret(text, "keys", "key")


def test_a_key_may_be_given_as_its_hash():
    digest = hashlib.sha256(b"word").digest()
    assert digest_of(" word ", "keys", "key") == digest
    assert digest_of("word", "keys", "key") == digest_of(f"sha256:{digest.hex()}", "keys", "key") == digest
    with pytest.raises(InputError, match="64 hexadecimal digits") as caught:
        digest_of("sha256:abc", "keys", "key")
    assert "abc" not in str(caught.value)


@pytest.mark.parametrize("text", ["", "  ", f"sha256:{hashlib.sha256(b'').hexdigest()}"])
def test_an_empty_key_and_its_hash_are_refused(text):
    with pytest.raises(InputError, match=r"keys\[0\]: key is .*expected a key that is not empty"):
        digest_of(text, "keys[0]", "key")


def test_only_the_place_of_a_secret_is_shown():
    shown = [covered(text) for text in ("", "env:A", "file:/a", "sk-1", "sha256:00")]
    assert shown == ["", "env:A", "file:/a", "(hidden)", "(hidden)"]
