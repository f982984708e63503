"""The bar of `load` and `demo`: on a terminal only."""

from __future__ import annotations

import io
import sys

from evenstep.cli.parts.load_bar import LoadBar
from evenstep.load.run import Progress


class Terminal(io.StringIO):
    def isatty(self):
        return True


def shown(stream, monkeypatch):
    monkeypatch.setattr(sys, "stderr", stream)
    bar = LoadBar()
    bar.say("starting")
    bar.show(Progress(done=3, failed=1, running=2, total=9, tokens=50, now_s=2.0), "jsq")
    bar.end()
    return stream.getvalue()


def test_a_terminal_sees_how_far_it_is(monkeypatch):
    text = shown(Terminal(), monkeypatch)
    assert "starting" in text
    assert "jsq: 2 under way, 25 tokens/s, 1 failed" in text


def test_a_file_sees_nothing(monkeypatch):
    assert shown(io.StringIO(), monkeypatch) == ""
