"""Compile every kernel side by side, so that no test waits for one: a minute on two cores, a second from the cache."""

from __future__ import annotations

import importlib
import os
import re
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import evenstep

#: Modules that share code, one after the other in one process; the longest first.
CHAINS = (("sim.cluster.loop",),)

#: A module that compiles something when it is imported.
COMPILED = re.compile(r"^@(?:compiled\.)?(?:declared|route_kernel|batch_kernel|jit)|\bdeclared\(", re.MULTILINE)


def load(modules: tuple[str, ...]) -> None:
    """Import the modules of a chain, which compiles them."""
    for module in modules:
        importlib.import_module(f"evenstep.{module}")


def chains() -> list[tuple[str, ...]]:
    """The chains above, then every other module that compiles something, by itself."""
    root = Path(evenstep.__file__).parent
    named = {module for chain in CHAINS for module in chain}
    every = (
        ".".join(path.relative_to(root).with_suffix("").parts)
        for path in root.rglob("*.py")
        if path.name != "compiled.py" and COMPILED.search(path.read_text(encoding="utf-8"))
    )
    return [*CHAINS, *((module,) for module in sorted(every) if module not in named)]


def compile_rules(room: str, *members: str) -> None:
    """Compile the rules of built-in policies, one after the other, if their files have one."""
    from evenstep import compiled, names

    for name in members:
        compiled.kernel_of(names.build(room, {"name": name}))


def members() -> list[tuple[str, ...]]:
    """Room and name of every built-in policy; policies that share most of their code stand together."""
    from evenstep import names

    every = [(room, name) for room in ("routing", "scheduling") for name in names.members(room)]
    together = [("routing", "bf-io", "best"), ("routing", "br-h", "br-0")]
    named = {(room, name) for room, *those in together for name in those}
    return [*together, *(one for one in every if one not in named)]


def decide(policy: str) -> None:
    """Decide as a live dispatcher does: its helpers are compiled at their first call."""
    from evenstep.dispatch.warming import warm

    warm(policy)


def main() -> None:
    with ProcessPoolExecutor(os.cpu_count(), get_context("spawn")) as pool:
        jobs = [pool.submit(load, chain) for chain in chains()]
        jobs += [pool.submit(compile_rules, *one) for one in members()]
        for done in jobs:
            done.result()
        for done in [pool.submit(decide, policy) for policy in ("best", "br-0")]:
            done.result()


if __name__ == "__main__":
    main()
