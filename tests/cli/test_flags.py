"""Flags from the fields of a settings dataclass, and back."""

from __future__ import annotations

import argparse
from dataclasses import dataclass, field
from typing import Literal

import pytest

from evenstep.cli.parts.flags import add_flags, document_of, settled
from evenstep.errors import InputError


@dataclass(frozen=True)
class Settings:
    """Some settings.

    Args:
        workers: how many, at 100 % of them.
        think_s: seconds.
        groups: sizes.
        order: which first.
        fast: be quick.
        name: text.
        slots: one, or one a worker.
        outages: when.
        engine: its options.
    """

    workers: int = 16
    think_s: float | None = None
    groups: list[int] = field(default_factory=list)
    order: Literal["size", "fit"] = "size"
    fast: bool = False
    name: str = "none"
    slots: int | list[int] = 72
    outages: list[str] = field(default_factory=list, metadata={"shape": "STEP:WORKER"})
    engine: str = ""


def parse(*words: str):
    parser = argparse.ArgumentParser()
    add_flags(parser, Settings, leave_out=("name",))
    return settled(parser.parse_args(words), Settings)


def test_a_config_file_is_read_once_as_it_may_be_a_pipe(tmp_path):
    file = tmp_path / "c.yaml"
    file.write_text("version: 1\nworkers: 3\n")
    parser = argparse.ArgumentParser()
    add_flags(parser, Settings)
    args = parser.parse_args(["--config", str(file)])
    assert document_of(args).values == {"workers": 3}
    file.unlink()
    assert settled(args, Settings).value.workers == 3


def test_a_flag_is_the_field_with_dashes_and_converts_to_its_type():
    found = parse("--workers", "4", "--think-s", "2", "--groups", "1,3", "--order", "fit", "--fast")
    assert found.value == Settings(4, 2.0, [1, 3], "fit", True)
    assert found.origin["think_s"] == "command line"
    assert found.origin["name"] == "default"


def test_a_list_of_texts_is_a_flag_given_many_times():
    found = parse("--outage", "1:2", "--outage", "3:2:back", "--slots", "8,4")
    assert (found.value.outages, found.value.slots) == (["1:2", "3:2:back"], [8, 4])
    assert parse("--slots", "8").value.slots == 8
    parser = argparse.ArgumentParser()
    add_flags(parser, Settings)
    assert "--outage STEP:WORKER" in parser.format_help()


def test_what_is_not_given_keeps_its_default():
    assert parse().value == Settings()
    assert set(parse().origin.values()) == {"default"}


def test_flags_win_over_the_file(tmp_path):
    config = tmp_path / "c.yaml"
    config.write_text("version: 1\nworkers: 2\nname: file\n")
    found = parse("--config", str(config), "--workers", "3")
    assert (found.value.workers, found.value.name) == (3, "file")
    assert (found.origin["workers"], found.origin["name"]) == ("command line", str(config))


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--workers", "many"], "command line: --workers is 'many'; expected an integer."),
        (["--think-s", "long"], "command line: --think-s is 'long'; expected a number."),
        (["--groups", "1,x"], "command line: --groups is '1,x'; expected integers with commas between"),
        (["--slots", "x"], "command line: --slots is 'x'; expected an integer or a list of integers."),
        (
            ["--order", "sise"],
            "command line: --order is 'sise'; expected one of size, fit. Did you mean size?",
        ),
    ],
)
def test_a_value_that_does_not_fit_names_the_flag(words, message):
    with pytest.raises(InputError) as caught:
        parse(*words)
    assert message in str(caught.value)


def test_help_has_the_meaning_and_the_default():
    parser = argparse.ArgumentParser()
    add_flags(parser, Settings)
    text = " ".join(parser.format_help().split())
    assert "how many, at 100 % of them (default 16)" in text
    assert "--order size|fit" in text
    assert "its options" in text and "(default )" not in text
