"""Writes what the code itself can say: ``reference/cli.md``, the JSON Schemas, and the leaderboard's page and picture from
the data it was found to have. Run by ``make reference``; ``make leaderboard`` makes that data anew."""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, get_args, get_origin, get_type_hints

import msgspec
import msgspec.inspect

from evenstep import names
from evenstep.cli.main import parser_of
from evenstep.config.fields import is_record, meaning
from evenstep.config.schema import file_schema
from evenstep.dispatch import events as ev
from evenstep.dispatch.core import Dispatcher
from evenstep.dispatch.rounds.fallback import Reason
from evenstep.dispatch.settings import WorkerSpec
from evenstep.emulator.settings import EmulatorSettings
from evenstep.experiments.compare.engine_settings import EngineSettings
from evenstep.experiments.leaderboard import file as leaderboard_file
from evenstep.experiments.leaderboard.page import page
from evenstep.experiments.leaderboard.picture import picture
from evenstep.experiments.leaderboard.table import read_table
from evenstep.experiments.recorded import papers
from evenstep.experiments.settings import CompareSettings, SimulateSettings
from evenstep.experiments.sweep import file as sweep_file
from evenstep.gateway.config.config import GatewayConfig
from evenstep.gateway.config.sections import RequestClass
from evenstep.gateway.config.worker import Worker
from evenstep.gateway.operate.logs import logged_of
from evenstep.gateway.operate.metrics_page import HELP, LABELS, OF_WORKERS, kind_of, metrics_page
from evenstep.gateway.operate.openapi import document
from evenstep.gateway.serve.ended import Attainment, Ended
from evenstep.load.settings import LoadSettings
from evenstep.report.papers import Paper
from evenstep.sim.network.description import Network
from evenstep.workload.synthetic import yaml_schema

HERE = Path(__file__).parent / "reference"
HEAD = """# Commands

`evenstep` alone lists the commands, `evenstep COMMAND --help` explains one. Every command takes `--debug`, which
shows the traceback of an error. Exit codes: 0 fine, 1 a check failed, 2 bad input (one line on stderr says where and
what to do), 70 a bug of evenstep, 130 interrupted. A command that would write a file that it also reads is refused. This
page is written by `make reference`.
"""


def pages() -> dict[Path, str]:
    """Every generated file with its text."""
    board = read_table(HERE / "leaderboard.parquet")
    image = HERE.parent / "images" / "leaderboard.svg"
    return {
        HERE / "leaderboard.md": page(board, data="leaderboard.parquet", picture=f"../images/{image.name}"),
        image: picture(board),
        HERE / "gateway.md": _gateway(),
        HERE / "papers.md": PAPERS.format(papers=_papers(papers())),
        HERE / "cli.md": "\n".join([HEAD, *(_command(name) for name in names.members("cli"))]),
        HERE / "schemas" / "compare.json": _json(file_schema(CompareSettings, "evenstep compare settings")),
        HERE / "schemas" / "compare-engine.json": _json(
            file_schema(EngineSettings, "evenstep compare settings, inside one engine")
        ),
        HERE / "schemas" / "leaderboard.json": _json(leaderboard_file.schema()),
        HERE / "schemas" / "emulate.json": _json(file_schema(EmulatorSettings, "evenstep emulate settings")),
        HERE / "schemas" / "admin-api.json": _json(document()),
        HERE / "schemas" / "gateway.json": _json(file_schema(GatewayConfig, "evenstep serve settings")),
        HERE / "schemas" / "load.json": _json(file_schema(LoadSettings, "evenstep load settings")),
        HERE / "schemas" / "simulate.json": _json(file_schema(SimulateSettings, "evenstep simulate settings")),
        HERE / "schemas" / "sweep.json": _json(sweep_file.schema()),
        HERE / "schemas" / "network.json": _json(yaml_schema.schema_of(Network, "evenstep NETWORK.yaml", {})),
        HERE / "schemas" / "workload.json": _json(yaml_schema.schema()),
    }


GATEWAY = """# Gateway

This page lists every setting, header, path, metric and log field of `evenstep serve` ([flags](cli.md)). [Run a gateway](../how-to/run-a-gateway.md) shows how to
use it, [Dispatcher](dispatcher.md) how it decides. This page is written by `make reference`.

## Settings

These are the keys of the YAML file ([schema](schemas/gateway.json), `examples/gateway.yaml`) and of `--set KEY=VALUE`. In the environment `limits.body_bytes` is
`EVENSTEP_LIMITS_BODY_BYTES`. As text, lists are separated by commas, and workers (`URL[,key=value,...]`) by blanks. Mappings and other lists are JSON.
Flags override the environment, the environment overrides the file, and the file overrides defaults. Lists and mappings are replaced as a whole. A secret
is `env:NAME`, `file:PATH` or plain text. Keys of clients and of the admin API may also be `sha256:HEX`. Relative paths start in the gateway's working folder.
{settings}
## Headers of a request

| header | meaning |
|---|---|
| `Authorization` | `Bearer` and a key of `keys`; without `keys` the header goes to the engine. The client then gets the engine's 401 or 403 if its key is wrong or missing |
| `x-evenstep-class` | class of the request; 403 if the key may not use it |
| `x-evenstep-expected-tokens` | output tokens the client expects, for the predictor |
| `x-evenstep-task`, and `session_headers` | requests with the same value belong together |
| `x-evenstep-priority` | a finite number. The smallest is served first, if `dispatch.order` is not `fcfs` |
| `X-Request-Id` | the request's id in answers, logs and engines; generated if it is missing |
| `traceparent`, `tracestate` | go to the engine; the gateway's span is a child of them |

All other headers to an engine are built anew, so a client's header cannot pick a rank. Pages in a browser may ask if their origin
is in `allowed_origins`; the gateway then answers a browser's preflight request without a key.

## Paths of the clients' port

| path | answer |
|---|---|
| `POST /v1/chat/completions`, `/v1/completions` | a generation: it waits for the policy, and is counted, retried and continued |
| `GET /v1/models`, `/v1/models/NAME` | all models that the workers serve. The gateway asks them at start, at every reload, when a metrics page can be read again, and when one answers 404 for a model that it listed. A worker then serves what it lists now; with `models` in the config it gets no requests until it lists those. A model whose workers were all removed is unknown again: 404, for requests that wait too. While they drain or are down, or where discovery may find others, it is 503 |
| any other `/v1/...`, `/tokenize`, `/detokenize`, `/pooling`, `/classify`, `/score`, `/rerank`, `/v2/rerank`, `/v2/embed` | forwarded to the healthy worker with the fewest requests, of the model that the body names (JSON, or a form with parts); not counted. What one engine keeps, such as a stored response, another does not find |
| `GET /healthz`, `/health` | 200 while the process answers |
| `GET /readyz` | 200 and `ok` once a worker serves a model and the load of one is known, until the gateway drains; else 503 and the reason. It stays 200 while engines that served before cannot be reached. Further lines are notes, which do not change the status: a worker without its engine's metrics page, or a decision log that cannot be written |

`/v1/load_lora_adapter` and `/v1/unload_lora_adapter` change a single engine and are not forwarded.

## Metrics

On the admin port under `/metrics`. `group` is the group's name, or that of a worker without a group; prefillers have none. When workers join or
leave, the counters of groups begin at 0. Fallback reasons: {reasons}.

{metrics}
## Admin API

The admin API has its own port, `admin.port`, and speaks JSON except for `/metrics` ([OpenAPI](schemas/admin-api.json)). With `admin.key` every path except `/healthz` and `/readyz`
needs the key as `Authorization: Bearer`. Without a key it answers to loopback names only. It refuses requests of pages in a browser (`Origin`). Errors: `{{"error": {{"message", "field", "value"}}}}`.

{endpoints}
`/healthz` and `/readyz` are on the port of the clients as well.

## Logs

Logs go to stderr, with `log.format` `text` or `json`: `time`, `level`, `logger`, `message` and fields. Lines that do not fit into the pipe
are dropped and counted. The line `status` has `barrier_idle`, the share of worker time lost at the barrier. That needs a step law: for workers of groups without one
it has `load_imbalance`, a share of the load that they have now, in its place or beside it. Kinds of notices of the dispatcher: `fallback`, `policy-off`, `foreign`, `divergence`,
`disagreement`, `ejected`, `recovered`, `last-healthy`. With `log.access` there is a line for each request that ended: {ended}.
Health checks, lists of models and requests with an unreadable head have no line and no span; `evenstep_answers_total` counts them too.
"""


PAPERS = """# From papers to code

This page lists every theorem, lemma, proposition, algorithm, figure and table of five papers, with its claim, our code, a command, and the
verdict of a run at full size. *Holds*: our run shows the claim. For a definition or an algorithm it means that the code implements it. *Holds
within*: it holds in part, or within the stated limit. *Does not*: our run shows the opposite. *Not ours to have*: there is nothing to run,
or the data and machines are not available. `evenstep reproduce NAME` prints figures with intervals and every free
constant; `evenstep reproduce all` writes one page for all ([how](../how-to/reproduce-a-paper.md)). Modules are below
`evenstep`. This page is written by `make reference` from `src/evenstep/experiments/papers/papers.yaml`. The verdict of an item with a
`reproduce` command follows from the claims of a full run, recorded beside it in `recorded.json`: *holds* if all hold, *does not* if no claim
holds, *holds within* else. A row may say less than its claims, with the reason, never more.

{papers}
## Substitutes for data

Azure-2024, the proprietary trace of BalanceRoute and a long piece of BurstGPT are not available. By default the
experiments draw synthetic workloads (`burst`, `heavy`, `near-cap`), and each output names their laws. `--trace FILE` takes a
real trace instead. Nearest to the papers' data are the published Azure 2023 conversation trace for Azure-2024,
BurstGPT itself, and Mooncake's conversation trace where long prompts matter. `bfio-fig5` fits the bundled length samples.

If a paper is silent or its text lost a formula, the docstring of the code gives our reading.
"""


def _papers(papers: Sequence[Paper]) -> str:
    """The papers as Markdown text: for each a heading, its title, and a table of its items with their verdicts."""
    lines: list[str] = []
    for paper in papers:
        lines += [f"## {paper.name}", "", paper.title, "", "| item | what | code | command | verdict |"]
        lines.append("|---|---|---|---|---|")
        for item in paper.rows:
            code, commands = (", ".join(f"`{name}`" for name in names) for names in (item.code, item.commands))
            judged = f"**{item.verdict}**{f': {item.why}' if item.why else ''}"
            lines.append(f"| {', '.join(item.of)} | {item.says} | {code} | {commands} | {judged} |")
        lines.append("")
    return "\n".join(lines)


def _gateway() -> str:
    sections: dict[Any, list[str]] = {}
    _settings(GatewayConfig, "", sections)
    settings = "\n".join(
        "\n".join(["", f"### {title}", "", "| setting | default | meaning |", "|---|---|---|", *lines])
        for title, lines in sections.items()
    )
    labels = {name: ", ".join(f"`{label}`" for label in used) for name, used in _labels().items()}
    metrics = [f"| `{name}` | {kind_of(name)} | {labels[name]} | {said} |" for name, said in HELP.items()]
    paths = document()["paths"]
    endpoints = [
        f"| `{method.upper()} {path}` | {item['summary']} |"
        for path, methods in paths.items()
        for method, item in methods.items()
    ]
    return GATEWAY.format(
        settings=settings + "\n",
        reasons=", ".join(f"`{reason}`" for reason in get_args(Reason) if reason),
        metrics="\n".join(["| metric | type | labels | meaning |", "|---|---|---|---|", *metrics, ""]),
        endpoints="\n".join(["| request | answer |", "|---|---|", *endpoints, ""]),
        ended=", ".join(
            f"`{name}`"
            for name in logged_of(
                Ended("", "complete", 0, arrived_s=0.0, sent_s=0.0, first_s=0.0, ended_s=1.0, output_tokens=2)
            )
        ),
    )


def _labels() -> dict[str, dict[str, None]]:
    """The labels of each metric but `le`, in order, from a page with all of them."""
    dispatcher = Dispatcher("jsq")
    dispatcher.handle(ev.WorkerAdded(now_s=0.0, spec=WorkerSpec(name="w", scraped=False)))
    dispatcher.handle(ev.Arrived(now_s=1.0, request=1, prompt_tokens=9, tenant="t"))
    dispatcher.handle(ev.Tick(now_s=1.0))
    dispatcher.handle(ev.WorkerAdded(now_s=2.0, spec=WorkerSpec(name="p", role="prefill")))
    own: dict[str, Any] = {name: {"": 0} for name in LABELS} | {name: {"w": 0} for name in OF_WORKERS}
    own["class_requests_total"] = Attainment({"c": RequestClass()}).counts()
    text = metrics_page({"models": {"m": dispatcher.snapshot()}, "gateway": own}).decode()
    found: dict[str, dict[str, None]] = {name: {} for name in HELP}
    for name, labels in re.findall(r"^(\w+?)(?:_bucket|_sum|_count)?{(.*)}", text, re.MULTILINE):
        found[name] |= dict.fromkeys(label for label in re.findall(r'(\w+)="', labels) if label != "le")
    return found


def _settings(kind: Any, path: str, found: dict[Any, list[str]]) -> None:
    """Rows of a section, then those of the sections below it and of what its lists hold."""
    said, hints, below = meaning(kind), get_type_hints(kind), []
    rows = found.setdefault(f"`{path}`" if path else "At the top", [])
    for one in msgspec.inspect.type_info(kind).fields:
        field, default = one.name, one.default if one.default_factory is msgspec.NODEFAULT else one.default_factory()
        name, hint = f"{path}.{field}".lstrip("."), hints[field]
        inner = next((k for k in _inside(hint) if is_record(k)), None)
        each = {list: "[]", dict: ".NAME"}.get(get_origin(hint), "")
        if inner is not None and not (inner is Worker and path):
            below.append((inner, name + each))
            rows += [f"| `{name}` | | {said[field]} |"] if path or each else []
            continue
        shown = "" if default in (None, "", [], {}, msgspec.NODEFAULT) or inner else f"`{json.dumps(default)}`"
        rows.append(f"| `{name}` | {shown} | {said[field].replace('|', chr(92) + '|')} |")
    for inner, name in below:
        _settings(inner, name, found)


def _inside(hint: Any) -> list[Any]:
    return [hint, *(deeper for part in get_args(hint) for deeper in _inside(part))]


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
        if not isinstance(action, argparse._SubParsersAction) and not {"--help", "--debug"} & set(action.option_strings)
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
