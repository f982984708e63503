"""The command line: finds the command, runs it, and turns an error into one line on stderr.

Exit codes: 0 success, 1 a check failed, 2 bad input, 70 a bug of evenstep, 130 interrupted. A command is a `command`
(see `Command`) of a file of this package, or of another package. Only its own file is imported to run it, for a quick start.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import shlex
import sys
from collections.abc import Sequence
from io import TextIOWrapper
from pathlib import Path
from typing import Protocol

from evenstep import __version__, in_use, kernel_cache, names
from evenstep.cli.parts.parsing import ArgumentParser
from evenstep.errors import EvenstepError, InputError, PolicyError, check_known, nearest

FINE, CHECK_FAILED, BAD_INPUT, OUR_BUG, INTERRUPTED = 0, 1, 2, 70, 130


class Command(Protocol):
    """A command: the interface of the value that a command's file binds to `command`.

    The file imports no large library at its top.
    """

    summary: str  # one line for the list of commands, in lower case and without a full stop
    description: str  # a paragraph for ``--help``, with its own line breaks
    examples: tuple[str, ...]  # whole command lines that work, for ``--help``; empty = the help has no examples

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Add flags and arguments to the command's own parser."""
        ...

    def run(self, args: argparse.Namespace) -> int:
        """Run the command and return its exit code; errors are raised. `args.command_line` is as typed, less ``--debug``."""
        ...


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command line and return its exit code (listed at the top of this file).

    An error becomes a line on stderr and an exit code; with ``--debug`` it is raised. A broken pipe is no error. `argv` are
    the words after ``evenstep``; None = the words that this process was started with.
    """
    words = list(sys.argv[1:] if argv is None else argv)
    for name in ("stdout", "stderr"):  # None if a daemon has closed it
        if getattr(sys, name) is None:
            setattr(sys, name, Path(os.devnull).open("w", encoding="utf-8"))  # noqa: SIM115  # until the process ends
    if argv is None:  # this process is the command
        kernel_cache.announce.say = lambda line: _on_stderr(f"evenstep: {line}")
        for stream in (sys.stdout, sys.stderr):  # a letter that its encoding lacks is printed as a question mark
            if isinstance(stream, TextIOWrapper) and stream.encoding.lower().replace("-", "") != "utf8":
                stream.reconfigure(errors="replace")
    debug = "--debug" in words
    words = [word for word in words if word != "--debug"]
    try:
        with in_use.one_command(lambda line: _on_stderr(f"evenstep: {line}")):
            code = _run(words)
        sys.stdout.flush()
        return code
    except KeyboardInterrupt:
        print("evenstep: interrupted", file=sys.stderr)
        return INTERRUPTED
    except BrokenPipeError:
        _silence(sys.stdout)
        return FINE
    except Exception as error:
        if debug:
            raise
        return _say(_by_flag(error, words))


def parser_of(name: str) -> ArgumentParser:
    """The parser of the command `name`, which also prints its ``--help``; `InputError` for an unknown name.

    The namespace that it parses to also has `run`, the command's method, and `debug`, True with ``--debug``.
    """
    command: Command = names.find("cli", name)
    examples = "\n".join(["examples:", *(f"  {line}" for line in command.examples)]) if command.examples else ""
    parser = ArgumentParser(prog=f"evenstep {name}", description=command.description, epilog=examples)
    command.add_arguments(parser)
    parser.set_defaults(run=command.run)
    parser.add_argument("--debug", action="store_true", help="show the traceback of an error")
    return parser


def overview() -> str:
    """The text that ``evenstep`` prints without arguments: version, usage, and each command with its summary."""
    known = names.members("cli")
    width = max(map(len, known), default=0)
    lines = [
        f"evenstep {__version__}: evens out LLM serving, so that no accelerator waits at a barrier",
        "",
        "usage: evenstep COMMAND [options]",
        "",
        *(f"  {name:<{width}}  {_summary(name)}" for name in known),
        "",
        "options for every command: --help, --debug (traceback of an error); evenstep --version",
        "first steps: evenstep compare sample:azure-conv",
    ]
    return "\n".join(lines)


def _summary(name: str) -> str:
    """The summary of a command; of one that another package offers and that cannot be loaded, the error."""
    try:
        return names.find("cli", name).summary
    except InputError as error:
        return f"cannot be used: {error}"


def _run(words: list[str]) -> int:
    """Run the command that `words` name and return its exit code; ``--help`` and ``--version`` print text and return 0."""
    if not words or words[0] in ("-h", "--help", "help"):
        if len(words) > 1 and words[0] == "help":
            parser_of(words[1]).print_help()
        else:
            print(overview())
        return FINE
    if words[0] in ("-V", "--version"):
        print(f"evenstep {__version__}")
        return FINE
    if words[0].startswith("-"):
        flags = ("--help", "--version", "--debug")
        raise InputError("evenstep", "flag", words[0], "a command or a known flag", nearest(words[0], flags))
    check_known("evenstep", "command", words[0], names.members("cli"), "a known command")
    try:
        args = parser_of(words[0]).parse_args(words[1:])
    except SystemExit:  # argparse after --help
        return FINE
    typed = shlex.join(["evenstep", *words])  # so that it can be typed again, except bytes that are no UTF-8
    args.command_line = typed.encode(errors="surrogateescape").decode(errors="replace")
    try:
        return int(args.run(args))
    except SystemExit as stop:
        if isinstance(stop.__context__, BrokenPipeError):  # rich exits this way when the reader of its table has left
            raise stop.__context__ from None
        # else only a file of the user's asks for it here
        raise PolicyError(f"a policy, or a module it imports, exits Python with {stop.code!r}") from stop


def _by_flag(error: Exception, words: Sequence[str]) -> Exception:
    """The error, reworded to name the flag in `words` that gave the wrong value; the same error if no such flag is found."""
    if isinstance(error, InputError):
        flags = {word.partition("=")[0] for word in words}
        values = [word.partition("=")[2] if word.startswith("--") else word for word in words]
        own = "--" + error.field.replace("_", "-")
        if f"--{error.where.partition(' ')[0]}" in flags:
            return InputError(f"--{error.where}", error.field, error.value, error.expected, error.hint)
        # an error in a file that the words name is about the file, even if a flag is called like the field
        if own in flags and not any(error.where.partition(" ")[0] in value for value in values):
            return InputError("command line", own, error.value, error.expected, error.hint)
    return error


def _say(error: Exception) -> int:
    """Print the error as one line on stderr; returns exit code 70 if it is a bug of evenstep, else 2."""
    said = f"{type(error).__name__}: {' '.join(str(error).split())[:200]}".rstrip(".: ")
    if isinstance(error, EvenstepError):
        text, code = str(error), BAD_INPUT
    elif isinstance(error, FileNotFoundError) and not _has_folder():
        text, code = "evenstep: the folder it was started in was deleted; change to one that exists", BAD_INPUT
    elif isinstance(error, OSError) and error.strerror:
        text, code = f"evenstep: {error.filename or 'output'}: {error.strerror}", BAD_INPUT
        _silence(sys.stdout)
    elif _may_lack_memory(error) and (limit := _limit_of_memory()):
        text, code = f"evenstep: limit of memory (ulimit -v) is {limit} MiB; expected more. Raise it. {said}", BAD_INPUT
    elif isinstance(error, MemoryError):
        text, code = "evenstep: not enough memory; ask for fewer workers, slots or requests", BAD_INPUT
    elif guest := names.guest_line(error):
        text, code = f"evenstep: {guest} raised {said}. --debug shows the traceback", BAD_INPUT
    else:
        text, code = f"evenstep: {said}. This is a bug of evenstep; --debug shows the traceback to report", OUR_BUG
    _on_stderr(" ".join(text.split()))
    return code


def _may_lack_memory(error: Exception) -> bool:
    """Whether an error is of a kind that a lack of memory causes: of memory, of a shared library, or of a new thread."""
    return isinstance(error, MemoryError) or any(word in str(error) for word in ("shared object", "start new thread"))


def _limit_of_memory() -> int:
    """The limit of this process's memory in MiB, if it ever used half of it or that is unknown; 0 if not, or without one."""
    if sys.platform != "linux":
        return 0
    import resource

    limit = resource.getrlimit(resource.RLIMIT_AS)[0] >> 20
    if limit <= 0:
        return 0
    try:
        peak = Path("/proc/self/status").read_text().partition("VmPeak:")[2].split()
    except OSError:
        peak = []
    return limit if not peak or limit < 2 * (int(peak[0]) >> 10) else 0


def _has_folder() -> bool:
    """Whether the folder in which this process works exists."""
    try:
        return bool(Path.cwd())
    except FileNotFoundError:
        return False


def _on_stderr(line: str) -> None:
    """Print a line on stderr; an error in doing so is ignored."""
    with contextlib.suppress(OSError, ValueError):
        print(line, file=sys.stderr, flush=True)


def _silence(stream: object) -> None:
    """Send a stream's further output to the null device, so that flushing it at exit cannot raise an error again."""
    with contextlib.suppress(OSError, AttributeError, ValueError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, stream.fileno())  # type: ignore[attr-defined]
        os.close(nowhere)
