"""``evenstep config print`` prints the settings of a gateway without secrets, and where each value comes from."""

from __future__ import annotations

import argparse

from evenstep.cli.parts.gateway_flags import add_gateway_flags, sources_of


class Config:
    summary = "print the settings of a gateway, and where each value comes from"
    description = (
        "Checks the file, the flags and the environment of `evenstep serve`, and prints every setting with its\n"
        "value and its origin. Flags override the environment, which overrides the file, which overrides defaults.\n"
        "Secrets are not shown."
    )
    examples = (
        "evenstep config print --config examples/gateway.yaml",
        "evenstep config print --worker http://127.0.0.1:8100,ranks=8 --set limits.body_bytes=1000000",
    )

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        actions = parser.add_subparsers(dest="action", metavar="print", required=True)
        shown = actions.add_parser("print", help="every setting, its value and its origin")
        add_gateway_flags(shown)
        shown.add_argument("--format", choices=["text", "json"], default="text", help="a table, or one JSON list")

    def run(self, args: argparse.Namespace) -> int:
        from evenstep.gateway.config.show import as_json, as_text

        settled = sources_of(args).settled()
        print(as_json(settled) if args.format == "json" else as_text(settled))
        return 0


command = Config()
