"""argparse that speaks our errors."""

from __future__ import annotations

import pytest

from evenstep.cli.parts.parsing import ArgumentParser, flags_of
from evenstep.errors import InputError


def parser() -> ArgumentParser:
    made = ArgumentParser(prog="evenstep do")
    made.add_argument("--count", type=int)
    made.add_argument("--share", type=float)
    made.add_argument("--kind", choices=["one", "two"])
    made.add_argument("-o", "--out", nargs="+")
    actions = made.add_subparsers(dest="action")
    inspect = actions.add_parser("inspect")
    inspect.add_argument("--deep", action="store_true")
    inspect.add_argument("file")
    return made


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--count", "x"], "evenstep do: --count is 'x'; expected an integer."),
        (["--share", "x"], "evenstep do: --share is 'x'; expected a number."),
        (["--kind", "tow"], "evenstep do: --kind is 'tow'; expected one of one, two. Did you mean two?"),
        (["--kind", "seven"], "evenstep do: --kind is 'seven'; expected one of one, two."),
        (["--count"], "evenstep do: --count is 'left empty'; expected a value."),
        (["--out"], "evenstep do: --out is 'left empty'; expected at least one value."),
        (["inspcet", "f"], "Did you mean inspect?"),
        (["inspect"], "evenstep do inspect: file is 'missing'; expected a value."),
        (
            ["inspect", "f", "--dep"],
            "evenstep do: flag is '--dep'; expected a known flag. Did you mean --deep",
        ),
        (["--coun=3"], "evenstep do: flag is '--coun'; expected a known flag. Did you mean --count"),
    ],
)
def test_what_is_wrong_is_said_in_our_words(words, message):
    with pytest.raises(InputError) as caught:
        parser().parse_args(words)
    assert message in str(caught.value)


def test_what_is_right_is_parsed():
    found = parser().parse_args(["--count", "3", "inspect", "f", "--deep"])
    assert (found.count, found.action, found.file, found.deep) == (3, "inspect", "f", True)


def test_flags_of_subcommands_are_known_too():
    assert set(flags_of(parser())) == {"--help", "--count", "--share", "--kind", "--out", "--deep"}


def test_a_message_argparse_words_in_a_new_way_is_passed_on_whole():
    with pytest.raises(InputError, match="something quite new"):
        parser().error("something quite new")


def test_a_command_without_the_word_that_says_what_to_do_names_the_words():
    made = ArgumentParser(prog="evenstep do")
    made.add_subparsers(dest="action", metavar="list|show|new", required=True).add_parser("list")
    with pytest.raises(InputError) as caught:
        made.parse_args([])
    assert str(caught.value) == (
        "evenstep do: word is 'missing'; expected list or show or new first. See evenstep do --help."
    )
