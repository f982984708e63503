"""``evenstep serve`` runs the gateway between OpenAI clients and unmodified engines until SIGTERM has drained it."""

from __future__ import annotations

import argparse

from evenstep.cli.parts.gateway_flags import add_gateway_flags, sources_of
from evenstep.cli.parts.signals import until_told


class Serve:
    summary = "run a gateway that evens out the load of vLLM or SGLang engines"
    description = (
        "Takes OpenAI requests, holds them while no engine has a slot, and sends each to the engine that the policy picks.\n"
        "It knows at every moment what each engine runs. Engines stay as they are. A request that fails before its first\n"
        "token is retried on another engine; a stream that breaks later continues there if that is exact. SIGTERM lets\n"
        "running requests end, SIGHUP reads the settings again. A second port has metrics and the admin API."
    )
    examples = (
        "evenstep serve --port 8000 --worker http://127.0.0.1:8100 --worker http://127.0.0.1:8101",
        "evenstep serve --group http://127.0.0.1:8100,http://127.0.0.1:8101,slots=72 --policy best",
        "evenstep serve --prefill http://127.0.0.1:8200 --decode http://127.0.0.1:8100",
        "evenstep serve --config examples/gateway.yaml --log-decisions decisions.evlog",
    )

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        add_gateway_flags(parser)

    def run(self, args: argparse.Namespace) -> int:
        from evenstep.sockets import need_gateway_extra, said

        need_gateway_extra("evenstep serve")
        with until_told():
            from evenstep.gateway.starting import serve

            serve(sources_of(args), said)
        return 0


command = Serve()
