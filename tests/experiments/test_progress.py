"""What a person sees while a comparison runs."""

from __future__ import annotations

import io
import sys

from evenstep.experiments import progress


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


LOOP = "evenstep.sim.cluster.short_loop"


def test_where_stderr_is_no_terminal_it_stays_empty_and_lines_go_elsewhere():
    stream, lines = io.StringIO(), io.StringIO()
    for bar in (progress.Bar(stream), progress.Bar(stream, lines)):
        bar.begin(3)
        bar.advance("jsq")
        bar.say("compiling")
        bar.end()
    assert stream.getvalue() == ""
    assert lines.getvalue() == "compiling\n"


def test_on_a_terminal_there_is_a_bar_with_the_policy_and_the_count():
    stream = Terminal()
    bar = progress.Bar(stream)
    bar.begin(3)
    bar.advance("jsq")
    bar.say("compiling")
    bar.end()
    seen = stream.getvalue()
    assert "jsq" in seen and "1/3" in seen and "compiling" in seen


def test_a_line_on_stderr_does_not_continue_the_line_of_the_bar():
    stream = Terminal()
    bar = progress.Bar(stream)
    bar.begin(3)
    print("evenstep: compiling kernels", file=sys.stderr)
    bar.end()
    before, found, _ = stream.getvalue().partition("evenstep: compiling kernels\n")
    assert found and before.endswith("\x1b[2K")  # the bar's line is cleared


def test_rows_on_stdout_are_neither_redirected_nor_drawn_over(capsys):
    stream = Terminal()
    bar = progress.Bar(stream)
    bar.begin(2)
    bar.hide()
    print("a row")
    bar.show()
    bar.end()
    assert capsys.readouterr().out == "a row\n"
    assert "a row" not in stream.getvalue()


def test_the_silent_one_takes_everything():
    watch = progress.Progress()
    assert [watch.begin(1), watch.say("x"), watch.advance("y"), watch.hide(), watch.show(), watch.end()] == [None] * 6
