"""The flags of a gateway, for ``serve`` and ``config print``."""

from __future__ import annotations

import argparse
import dataclasses
import os
from typing import TYPE_CHECKING, Any

from evenstep.cli.parts.flags import add_many
from evenstep.errors import InputError

if TYPE_CHECKING:
    from evenstep.gateway.config.layers import Sources
    from evenstep.gateway.config.worker import Worker

#: flag -> (setting, what its value looks like, help). Every other setting is reached by --set.
_FLAGS = {
    "--host": ("listen.host", "ADDRESS", "address to listen at (default 127.0.0.1; 0.0.0.0 = every interface)"),
    "--port": ("listen.port", "N", "port to listen at; 0 = any free one (default 8000)"),
    "--policy": ("policy", "NAME[:KEY=VALUE,...]", "routing policy (default best)"),
    "--predictor": ("predictor", "NAME[:KEY=VALUE,...]", "predictor for a policy that looks ahead"),
    "--slots": ("slots", "N", "requests a worker runs at a time (default 256)"),
    "--admin-host": ("admin.host", "ADDRESS", "address of metrics and admin API (default 127.0.0.1)"),
    "--admin-port": ("admin.port", "N", "their port; 0 = any free one (default 8090)"),
    "--log-decisions": ("decisions.path", "FILE", "write a decision log, for evenstep replay and compare"),
}
_WORKERS = {
    "--worker": "an engine; options are those of a worker in the file, e.g. slots=72,ranks=8",
    "--prefill": "an engine that only prefills",
    "--decode": "an engine that decodes after a --prefill engine",
    "--group": "engines that share a barrier",
}


def add_gateway_flags(parser: argparse.ArgumentParser) -> None:
    """Add a gateway's flags. If left out, a repeatable one is [], ``--config`` is empty, and any other sets no attribute."""
    for flag, (_, metavar, text) in _FLAGS.items():
        parser.add_argument(flag, default=argparse.SUPPRESS, metavar=metavar, help=text)
    for flag, text in _WORKERS.items():
        shape = "URL,URL[,KEY=VALUE,...]" if flag == "--group" else "URL[,KEY=VALUE,...]"
        add_many(parser, flag, shape, f"{text}; may be given many times", default=[])
    parser.add_argument(
        "--plain-keys",
        action="store_true",
        default=argparse.SUPPRESS,
        help="hash prompts in the decision log without this installation's salt",
    )
    text = "any setting of the file, e.g. limits.body_bytes=1000000; may be given many times"
    add_many(parser, "--set", "SETTING=VALUE", text, default=[])
    parser.add_argument("--config", metavar="FILE", default="", help="YAML file; flags and environment win over it")


def sources_of(args: argparse.Namespace) -> Sources:
    """The sources of a gateway's settings: the file's path, a copy of the environment, and the parsed flags.

    The gateway reads the file at its start and at every reload; this function does not. If a setting has its own flag, that
    wins over ``--set`` of it. `InputError` for a flag's value of another form, or ``--prefill`` without ``--decode``.
    """
    from evenstep.gateway.config.layers import Sources
    from evenstep.gateway.config.worker import group_of, worker_of

    flags: dict[str, tuple[str, Any]] = {}
    for text in args.set:
        name, equals, value = text.partition("=")
        if not equals:
            raise InputError("command line", "--set", text, "SETTING=VALUE")
        flags[name.strip()] = ("command line --set", value)
    for flag, (name, _, _) in _FLAGS.items():
        attribute = flag[2:].replace("-", "_")
        if hasattr(args, attribute):
            flags[name] = (f"command line {flag}", getattr(args, attribute))
    if hasattr(args, "plain_keys"):
        flags["decisions.plain_keys"] = ("command line --plain-keys", True)
    workers: list[Worker] = [worker_of(text, "command line --worker") for text in args.worker]
    for text in args.group:
        workers += group_of(text, "command line --group")
    for role in ("prefill", "decode"):
        for text in getattr(args, role):
            workers.append(dataclasses.replace(worker_of(text, f"command line --{role}"), role=role))
    if args.prefill and not args.decode:
        raise InputError("command line", "--decode", "missing", "an engine that decodes", "--prefill needs it.")
    if workers:
        given = [f"--{flag}" for flag in ("worker", "group", "prefill", "decode") if getattr(args, flag)]
        flags["workers"] = (f"command line {' '.join(given)}", workers)
    return Sources(file=args.config, environment=dict(os.environ), flags=flags)
