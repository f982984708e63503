"""``evenstep emulate`` serves emulated vLLM or SGLang engines, which need no accelerator, until it is stopped."""

from __future__ import annotations

import argparse

from evenstep.cli.parts.flags import add_flags, settled
from evenstep.cli.parts.signals import until_told


class Emulate:
    summary = "start emulated vLLM or SGLang engines, to try gateways and policies"
    description = (
        "Listens like data-parallel inference engines whose ranks share a barrier: a step lasts as long as that of the\n"
        "heaviest rank. It has OpenAI completions and chat, streams, /metrics, KV memory with eviction, prefill and decode\n"
        "roles, and faults on command. Tokens are pseudo words, the same for the same prompt."
    )
    examples = (
        "evenstep emulate --ranks 8 --slots 72",
        "evenstep emulate --ranks 8 --groups 4,4 --port-per-rank --port 8100 --speed 10",
        "evenstep emulate --role prefill --port 8200 --prefill-per-token-s 0.00005",
        "evenstep emulate --ranks 2 --fault die:after_tokens=20,share=0.01,count=0",
    )

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        from evenstep.emulator.settings import EmulatorSettings

        add_flags(parser, EmulatorSettings)

    def run(self, args: argparse.Namespace) -> int:
        with until_told():
            from evenstep.emulator.server import serve
            from evenstep.emulator.settings import EmulatorSettings, checked
            from evenstep.sockets import said

            serve(checked(settled(args, EmulatorSettings)), said)
        return 0


command = Emulate()
