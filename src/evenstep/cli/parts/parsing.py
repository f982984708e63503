"""An argparse parser with evenstep's errors: one line, and the nearest flag as a hint."""

from __future__ import annotations

import argparse
import re
import sys
import textwrap
from collections.abc import Sequence
from typing import Any, NoReturn

from evenstep.errors import InputError, meant, nearest

_KINDS = {"int": "an integer", "float": "a number"}


class HelpFormatter(argparse.RawDescriptionHelpFormatter):
    """Wraps help texts at blanks only, so that a name with hyphens (``br-h``, ``--per-token-s``) can be copied whole."""

    def _split_lines(self, text: str, width: int) -> list[str]:
        return textwrap.wrap(" ".join(text.split()), width, break_on_hyphens=False, break_long_words=False)


class ArgumentParser(argparse.ArgumentParser):
    """A parser that raises `InputError` where argparse would print its usage and exit.

    Flags cannot be abbreviated; for an unknown one the hint is the nearest. ``--help`` still prints and exits.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        kwargs.setdefault("allow_abbrev", False)
        kwargs.setdefault("formatter_class", HelpFormatter)
        super().__init__(*args, **kwargs)

    def parse_args(self, args: Sequence[str] | None = None, namespace: Any = None) -> Any:  # type: ignore[override]
        found, left = self.parse_known_args(args, namespace)
        if left:
            word = left[0].partition("=")[0]
            if word.startswith("-"):
                raise InputError(self.prog, "flag", word, "a known flag", nearest(word, flags_of(self)))
            raise InputError(self.prog, "argument", word, "no further argument", f"See {self.prog} --help.")
        return found

    def error(self, message: str) -> NoReturn:
        raise _reworded(self.prog, message)

    def _print_message(self, message: str, file: Any = None) -> None:
        if message:  # argparse would ignore a full disk
            (file or sys.stderr).write(message)


def flags_of(parser: argparse.ArgumentParser) -> list[str]:
    """All long flags of a parser and its subcommands, ``--help`` included; a flag that several of these have is repeated."""
    found: list[str] = []
    for action in parser._actions:  # pyright: ignore[reportPrivateUsage]
        found += [flag for flag in action.option_strings if flag.startswith("--")]
        if isinstance(action, argparse._SubParsersAction):  # pyright: ignore[reportPrivateUsage]
            for child in action.choices.values():
                found += flags_of(child)
    return found


def _reworded(prog: str, message: str) -> InputError:
    """An argparse error message as an `InputError` in our words; a message of unknown form is quoted whole."""
    bad = re.match(r"argument (?P<flag>[^:]+): invalid (?P<kind>\w+) value: (?P<value>.*)$", message)
    if bad:
        value = bad["value"].strip("'\"")
        return InputError(prog, _long(bad["flag"]), value, _KINDS.get(bad["kind"], f"a valid {bad['kind']}"))
    choice = re.match(r"argument (?P<flag>[^:]+): invalid choice: (?P<value>.+?) \(choose from (?P<known>.*)\)$", message)
    if choice:
        value = choice["value"].strip("'\"")
        known = [name.strip(" '\"") for name in choice["known"].split(",")]
        field, expected, hint = _long(choice["flag"]), f"one of {', '.join(known)}", meant(value, known)
        if not field.startswith("-"):  # the word after a command that says what to do
            field, expected = "word", f"{' or '.join(known)} first"
            is_file = any(mark in value for mark in ".:/")
            hint = hint or (f"Write {prog} {known[0]} {value}." if is_file else f"See {prog} --help.")
        return InputError(prog, field, value, expected, hint)
    bare = re.match(r"argument (?P<flag>[^:]+): expected (?P<count>.+)$", message)
    if bare:
        count = bare["count"].replace("at least one argument", "at least one value").replace("one argument", "a value")
        return InputError(prog, _long(bare["flag"]), "left empty", count, f"See {prog} --help.")
    missing = re.match(r"the following arguments are required: (?P<names>.+)$", message)
    if missing:
        field, _, more = missing["names"].partition("|")  # the words after a command, or a flag
        expected = f"{' or '.join([field, *more.split('|')])} first" if more else "a value"
        return InputError(prog, "word" if more else field, "missing", expected, f"See {prog} --help.")
    return InputError(prog, "command line", message, "one that can be read", f"See {prog} --help.")


def _long(flag: str) -> str:
    """The long flag in argparse's name of a flag, such as ``-x/--xyz``; the text itself if it has no long flag."""
    return next((part for part in flag.split("/") if part.startswith("--")), flag)
