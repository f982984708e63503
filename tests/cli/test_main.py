"""The frame of the command line."""

from __future__ import annotations

import argparse
import os
import re
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

from evenstep import __version__, names
from evenstep.cli import main as cli
from evenstep.errors import InputError, PolicyError


class Echo:
    """A command for these tests."""

    summary = "say it back"
    description = "Says it back."
    examples = ("evenstep echo --times 2",)

    def __init__(self, run):
        self.run = run

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("--times", type=int, default=1, help="how often")
        parser.add_argument("--loudness", choices=["low", "high"])
        parser.add_argument("word", nargs="?")


@pytest.fixture
def echo(monkeypatch):
    """Install a command `echo` that does what the test says."""

    def install(run=lambda args: 0):
        monkeypatch.setattr(names, "members", lambda room: ("echo", "other"))
        monkeypatch.setattr(names, "find", lambda room, name: Echo(run))

    return install


def one_line(text: str) -> str:
    assert text.endswith("\n")
    assert text.count("\n") == 1
    return text[:-1]


def test_alone_it_prints_what_it_can_do(echo, capsys):
    echo()
    assert cli.main([]) == 0
    out = capsys.readouterr().out
    assert "echo   say it back" in out
    assert "usage: evenstep COMMAND" in out
    assert cli.main(["--help"]) == 0
    assert capsys.readouterr().out == out


def test_help_of_a_command_shows_its_examples(echo, capsys):
    echo()
    assert cli.main(["echo", "--help"]) == 0
    first = capsys.readouterr().out
    assert "evenstep echo --times 2" in first
    assert cli.main(["help", "echo"]) == 0
    assert capsys.readouterr().out == first


def test_version_is_printed(capsys):
    assert cli.main(["--version"]) == 0
    assert capsys.readouterr().out == f"evenstep {__version__}\n"


def test_the_package_runs_as_a_module(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["evenstep", "--version"])
    with pytest.raises(SystemExit) as ended:
        runpy.run_module("evenstep", run_name="__main__")
    assert (ended.value.code, capsys.readouterr().out) == (0, f"evenstep {__version__}\n")


def test_a_word_that_is_no_utf_8_can_be_shown(echo):
    shown: list[str] = []
    echo(lambda args: shown.append(args.command_line) or 0)
    assert cli.main(["echo", "r\udce9.html"]) == 0
    assert shown[0].encode().decode() == "evenstep echo 'r\ufffd.html'"


def test_the_exit_code_is_the_commands(echo):
    echo(lambda args: args.times)
    assert cli.main(["echo", "--times", "1"]) == 1
    assert cli.main(["echo", "--times", "0"]) == 0


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["eco"], "evenstep: command is 'eco'; expected a known command. Did you mean echo?"),
        (["--hlep"], "evenstep: flag is '--hlep'; expected a command or a known flag. Did you mean --help?"),
        (
            ["echo", "--time", "2"],
            "evenstep echo: flag is '--time'; expected a known flag. Did you mean --times",
        ),
        (
            ["echo", "--time=2"],
            "evenstep echo: flag is '--time'; expected a known flag. Did you mean --times",
        ),
        (["echo", "--times", "x"], "evenstep echo: --times is 'x'; expected an integer."),
        (
            ["echo", "--times"],
            "evenstep echo: --times is 'left empty'; expected a value. See evenstep echo --help.",
        ),
        (
            ["echo", "--loudness", "hig"],
            "evenstep echo: --loudness is 'hig'; expected one of low, high. Did you mean high?",
        ),
        (
            ["echo", "a", "b"],
            "evenstep echo: argument is 'b'; expected no further argument. See evenstep echo --help.",
        ),
    ],
)
def test_a_wrong_command_line_is_one_line_with_the_nearest_name(echo, capsys, words, message):
    echo()
    assert cli.main(words) == 2
    seen = capsys.readouterr()
    assert seen.out == ""
    assert one_line(seen.err).startswith(message)


@pytest.mark.parametrize(
    ("error", "code", "message"),
    [
        (InputError("a.csv", "rows", 0, "at least one"), 2, "a.csv: rows is 0; expected at least one."),
        (PolicyError("mine: over capacity\nworker 3"), 2, "mine: over capacity worker 3"),
        (
            OSError(28, "No space left on device", "report.html"),
            2,
            "evenstep: report.html: No space left on device",
        ),
        (
            ZeroDivisionError("division by zero"),
            70,
            "ZeroDivisionError: division by zero. This is a bug of evenstep",
        ),
        (MemoryError(), 2, "evenstep: not enough memory"),
        (KeyboardInterrupt(), 130, "evenstep: interrupted"),
    ],
)
def test_what_goes_wrong_is_one_line_and_a_code(echo, capfd, monkeypatch, error, code, message):
    monkeypatch.setattr(cli, "_silence", lambda stream: None)

    def fail(args):
        raise error

    echo(fail)
    assert cli.main(["echo"]) == code
    assert message in one_line(capfd.readouterr().err)


@pytest.mark.skipif(sys.platform != "linux", reason="the limit is looked up on Linux")
@pytest.mark.parametrize("error", [ImportError("libarrow.so: failed to map segment from shared object"), MemoryError()])
def test_what_a_library_says_near_the_limit_of_memory_is_no_bug_of_ours(echo, capsys, monkeypatch, error):
    """Below 640 MiB of `ulimit -v`, `compare` said that what numba and pyarrow raise is a bug of evenstep."""

    def fail(args):
        raise error

    echo(fail)
    monkeypatch.setattr("resource.getrlimit", lambda kind: (8 << 20, 8 << 20))
    assert cli.main(["echo"]) == 2
    said = "evenstep: limit of memory (ulimit -v) is 8 MiB; expected more. Raise it. "
    assert one_line(capsys.readouterr().err) == said + f"{type(error).__name__}: {error}".rstrip(": ")
    monkeypatch.setattr("resource.getrlimit", lambda kind: (1 << 50, 1 << 50))
    assert cli.main(["echo"]) == (2 if isinstance(error, MemoryError) else 70)


@pytest.mark.skipif(sys.platform != "linux", reason="the limit is looked up on Linux")
def test_an_error_that_no_lack_of_memory_causes_is_told_as_what_it_is(echo, capsys, monkeypatch):
    """A `KeyError` was blamed on the limit once half of it had been used; a /proc without VmPeak, as gVisor's, crashed it."""
    error: Exception = KeyError("seed")

    def fail(args):
        raise error

    echo(fail)
    monkeypatch.setattr("resource.getrlimit", lambda kind: (8 << 20, 8 << 20))
    assert cli.main(["echo"]) == 70
    assert "KeyError: 'seed'. This is a bug" in one_line(capsys.readouterr().err)
    error = MemoryError()
    monkeypatch.setattr(Path, "read_text", lambda *given, **more: "Name:\tpython\n")
    assert cli.main(["echo"]) == 2
    assert "ulimit -v) is 8 MiB" in one_line(capsys.readouterr().err)
    monkeypatch.setattr("resource.getrlimit", lambda kind: (-1, -1))
    assert cli.main(["echo"]) == 2
    assert "not enough memory" in one_line(capsys.readouterr().err)


def test_a_folder_that_was_deleted_is_one_clear_line(echo, capsys, tmp_path, monkeypatch):
    """It said ``evenstep: output: No such file or directory``."""
    monkeypatch.chdir(tmp_path)
    tmp_path.rmdir()
    echo(lambda args: len(str(Path.cwd())))
    assert cli.main(["echo"]) == 2
    said = "evenstep: the folder it was started in was deleted; change to one that exists"
    assert one_line(capsys.readouterr().err) == said


def test_what_others_code_raises_is_no_bug_of_ours(echo, capsys, tmp_path):
    path = tmp_path / "mine.py"
    path.write_text("def fails(args):\n    return {}['x']\n")
    echo(names.find("cost", f"{path}:fails"))
    assert cli.main(["echo"]) == 2
    assert one_line(capsys.readouterr().err) == f"evenstep: {path}, line 2 raised KeyError: 'x'. --debug shows the traceback"


def test_a_command_of_another_package_that_does_not_load_leaves_the_others(unloadable, capsys):
    unloadable("fit")
    assert cli.main(["--help"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert "  fit          cannot be used: fit: entry point is 'other:fit'; expected one that loads." in lines
    assert any(line.startswith("  sweep ") for line in lines)


@pytest.mark.parametrize(
    ("words", "error", "message"),
    [
        (["--times", "3"], InputError("times", "key", "x", "a number"), "--times: key is 'x'; expected a number."),
        (["--times=3"], InputError("clock", "times", 3, "at most 2"), "command line: --times is 3; expected at most 2."),
        ([], InputError("clock", "times", 3, "at most 2"), "clock: times is 3"),
        (["a.csv", "--times=3"], InputError("a.csv line 2", "times", 9, "at most 2"), "a.csv line 2: times is 9"),
        (["--times=3"], InputError("times 3", "key", "x", "a number"), "--times 3: key is 'x'; expected a number."),
        (["--times=3"], InputError("times", "times", 3, "at most 2"), "--times: times is 3"),
    ],
)
def test_an_error_names_the_flag_that_gave_the_value(echo, capsys, words, error, message):
    """Such an error began with ``linear``, the name of a law, though its user had typed ``--sync-s nan``."""

    def fail(args):
        raise error

    echo(fail)
    assert cli.main(["echo", *words]) == 2
    assert one_line(capsys.readouterr().err).startswith(message)


def test_debug_shows_the_traceback_wherever_the_flag_stands(echo):
    def fail(args):
        raise InputError("a.csv", "rows", 0, "at least one")

    echo(fail)
    for words in (["--debug", "echo"], ["echo", "--debug"]):
        with pytest.raises(InputError):
            cli.main(words)


def run_python(code: str, **options) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False, **options)


def test_listing_the_commands_imports_nothing_heavy():
    code = (
        "import sys; from evenstep.cli.main import main; main([]); "
        "heavy = {'numba','numpy','scipy','pyarrow','matplotlib','yaml','msgspec','rich','highspy'} & set(sys.modules); "
        "sys.exit(','.join(sorted(heavy)) or 0)"
    )
    seen = run_python(code)
    assert seen.returncode == 0, seen.stderr


def test_a_reader_that_goes_away_is_no_error():
    code = (
        "import sys\n"
        "from evenstep.cli import main as cli\n"
        "cli._run = lambda words: [print('x' * 1000) for _ in range(1000)] and 0\n"
        "sys.exit(cli.main([]))"
    )
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout is not None and process.stderr is not None
    process.stdout.read(10)
    process.stdout.close()
    assert process.stderr.read() == b""
    assert process.wait(timeout=60) == 0


def test_every_command_has_a_summary_a_description_and_examples_that_parse():
    commands = names.members("cli")
    assert commands
    for name in commands:
        command = names.find("cli", name)
        assert command.summary and not command.summary.endswith("."), name
        assert command.description, name
        assert command.examples, name
        assert f"evenstep {name}" in cli.parser_of(name).format_help()


@pytest.mark.parametrize("name", sorted(names.members("cli")))
def test_no_help_breaks_a_name_at_its_hyphens(name, monkeypatch):
    for columns in (60, 80, 100):
        monkeypatch.setenv("COLUMNS", str(columns))
        parser = cli.parser_of(name)
        inner = [action for action in parser._actions if isinstance(action, argparse._SubParsersAction)]
        parsers = [parser, *(child for action in inner for child in action.choices.values())]
        for one in parsers:
            broken = [line for line in one.format_help().splitlines() if re.search(r"\w-$", line)]
            assert not broken, columns


#: What takes long to import, and rooms that import it.
HEAVY = {
    "numba",
    "numpy",
    "scipy",
    "pyarrow",
    "matplotlib",
    "aiohttp",
    "httptools",
    "uvloop",
    "ray",
    "lightgbm",
    "highspy",
    "evenstep.compiled",
    "evenstep.sim.cluster.simulation",
    "evenstep.routing.view",
    "evenstep.workload.reading",
}


HELP = """
import sys
from evenstep.cli.main import main
for name in sys.argv[1:]:
    before = set(sys.modules)
    code = main([name, "--help"])
    print(name, code, *sorted({heavy!r} & (set(sys.modules) - before)), file=sys.stderr)
"""


def test_the_help_of_a_command_imports_nothing_heavy():
    commands = sorted(names.members("cli"))
    command = [sys.executable, "-c", HELP.format(heavy=HEAVY), *commands]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ended.stderr.splitlines() == [f"{name} 0" for name in commands]
    assert [name for name in commands if f"usage: evenstep {name}" not in ended.stdout] == []


def test_a_table_nobody_reads_to_its_end_is_no_error():
    command = [sys.executable, "-m", "evenstep", "trace", "inspect", "sample:azure-conv"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        process.stdout.close()
        assert (process.wait(), process.stderr.read()) == (0, "")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no /dev/full")
def test_help_that_cannot_be_written_is_an_error():
    code = "import sys; from evenstep.cli.main import main; sys.exit(main(['compare', '--help']))"
    with Path("/dev/full").open("w") as full:
        ended = subprocess.run([sys.executable, "-c", code], stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert (ended.returncode, ended.stderr) == (2, "evenstep: output: No space left on device\n")


@pytest.mark.parametrize(
    "changes",
    [{"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}, {"PYTHONIOENCODING": "ascii"}],
)
def test_a_terminal_without_our_letters_gets_question_marks(changes):
    code = (
        "import sys\n"
        "from evenstep.cli import main as cli\n"
        "cli._run = lambda words: print('+1.2 \\u00b10.3') or 0\n"
        "sys.exit(cli.main())"
    )
    ended = run_python(code, env={**os.environ, **changes})
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "+1.2 ?0.3\n", "")


def printed(words: list[str], *options: str) -> tuple[int, str, str]:
    """Exit code, output and errors of commands, given by their words, in a Python with these options."""
    code = "import sys; from evenstep.cli.main import main; sys.exit(max(main(words.split()) for words in sys.argv[1:]))"
    command = [sys.executable, *options, "-c", code, *words]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    return ended.returncode, ended.stdout, ended.stderr


def test_a_python_that_drops_docstrings_prints_the_same_texts(tmp_path, monkeypatch, capsys):
    """``python -OO`` showed policies as ``BR0(horizon: 'int' = 0, ...)``, and flags without their meaning."""
    (tmp_path / "mine.py").write_text('class Mine:\n    """Says what it does."""\n\npolicy = Mine\n')
    words = [f"{name} --help" for name in names.members("cli")]
    words += ["policy list", "policy list --kind scheduling", "policy show br-0", f"policy show {tmp_path}/mine.py"]
    monkeypatch.setenv("COLUMNS", "80")
    found = printed(words, "-OO")
    assert "Says what it does." in found[1]
    code = max(cli.main(line.split()) for line in words)
    assert found == (code, *capsys.readouterr())


def test_a_python_that_drops_docstrings_reads_a_class_whose_lines_are_not_indented(tmp_path):
    """The source of such a class cannot be parsed by itself: an IndentationError ended the command."""
    text = 'if True:\n    class Mine:\n        """Says\nwhat it does."""\n\npolicy = Mine\n'
    (tmp_path / "mine.py").write_text(text)
    code, _, errors = printed([f"policy show {tmp_path}/mine.py"], "-OO")
    assert (code, errors) == (0, "")
