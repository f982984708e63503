"""Writes what the code itself can say: ``reference/cli.md``, the JSON Schemas, and the leaderboard's page and picture from
the data it was found to have. Run by ``make reference``; ``make leaderboard`` makes that data anew."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from evenstep import names
from evenstep.cli.main import parser_of
from evenstep.config import schema
from evenstep.emulator.settings import EmulatorSettings
from evenstep.experiments import leaderboard_file, sweep_file
from evenstep.experiments.leaderboard_page import page
from evenstep.experiments.leaderboard_picture import picture
from evenstep.experiments.leaderboard_table import read_table
from evenstep.experiments.settings import CompareSettings, SimulateSettings
from evenstep.gateway.config import GatewayConfig
from evenstep.load.settings import LoadSettings
from evenstep.workload import yaml_schema

HERE = Path(__file__).parent / "reference"
HEAD = """# Commands

`evenstep` alone lists the commands, `evenstep COMMAND --help` explains one. Every command takes `--debug`, which
shows the traceback of an error. Exit codes: 0 fine, 1 a check failed, 2 bad input (one line on stderr says where and
what to do), 70 a bug of evenstep, 130 interrupted. This page is written by `make reference`.
"""


def pages() -> dict[Path, str]:
    """Every generated file with its text."""
    board = read_table(HERE / "leaderboard.parquet")
    image = HERE.parent / "images" / "leaderboard.svg"
    return {
        HERE / "leaderboard.md": page(board, data="leaderboard.parquet", picture=f"../images/{image.name}"),
        image: picture(board),
        HERE / "cli.md": "\n".join([HEAD, *(_command(name) for name in names.members("cli"))]),
        HERE / "schemas" / "compare.json": _json(schema(CompareSettings, "evenstep compare settings")),
        HERE / "schemas" / "leaderboard.json": _json(leaderboard_file.schema()),
        HERE / "schemas" / "emulate.json": _json(schema(EmulatorSettings, "evenstep emulate settings")),
        HERE / "schemas" / "gateway.json": _json(schema(GatewayConfig, "evenstep serve settings")),
        HERE / "schemas" / "load.json": _json(schema(LoadSettings, "evenstep load settings")),
        HERE / "schemas" / "simulate.json": _json(schema(SimulateSettings, "evenstep simulate settings")),
        HERE / "schemas" / "sweep.json": _json(sweep_file.schema()),
        HERE / "schemas" / "workload.json": _json(yaml_schema.schema()),
    }


def _json(value: object) -> str:
    return json.dumps(value, indent=2) + "\n"


def _command(name: str) -> str:
    parser = parser_of(name)
    lines = [f"## evenstep {name}", "", parser.description or "", "", *_arguments(parser)]
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for inner, child in action.choices.items():
                lines += [f"### evenstep {name} {inner}", "", *_arguments(child)]
    examples = names.find("cli", name).examples
    return "\n".join([*lines, "Examples:", "", "```text", *examples, "```", ""])


def _arguments(parser: argparse.ArgumentParser) -> list[str]:
    rows = [
        f"| `{_shown(action)}` | {(action.help or '').replace('%%', '%').replace('|', chr(92) + '|')} |"
        for action in parser._actions
        if not isinstance(action, argparse._SubParsersAction)
        and not {"--help", "--debug"} & set(action.option_strings)
    ]
    return ["| argument | meaning |", "|---|---|", *rows, ""] if rows else []


def _shown(action: argparse.Action) -> str:
    value = action.metavar if isinstance(action.metavar, str) else None
    if value is None and action.choices is not None:
        value = ", ".join(map(str, action.choices))
    if value is None and action.nargs != 0:
        value = action.dest.upper()
    words = [*action.option_strings[-1:], *([value] if value and action.nargs != 0 else [])]
    return " ".join(words).replace("|", ", ")


if __name__ == "__main__":
    for path, text in pages().items():
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
        print(path)
