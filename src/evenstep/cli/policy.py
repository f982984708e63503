"""``evenstep policy``: list, show, begin and check routing policies."""

from __future__ import annotations

import argparse
import dataclasses
from typing import Any

_TRACE_ROWS, _WORKERS, _SLOTS = 300, 4, 8


class Policy:
    """The command."""

    summary = "list, show, begin and check routing policies"
    description = (
        "list shows every routing policy with its options; show explains one; new writes a policy of your own and a\n"
        "test for it; check runs every promise of a policy on random views and in a short simulation.\n"
        "check exits 1 when a promise is broken."
    )
    examples = (
        "evenstep policy list",
        "evenstep policy show br-h",
        "evenstep policy new lightest",
        "evenstep policy check lightest.py",
        "evenstep policy check br-h:horizon=20,discount=0.8",
    )

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        verbs = parser.add_subparsers(dest="verb", metavar="list|show|new|check", required=True)
        listed = verbs.add_parser("list", help="every policy, one sentence, its options with defaults")
        shown = verbs.add_parser("show", help="one policy: what it does and what its options mean")
        shown.add_argument("name", metavar="NAME", help="a policy's name, or mine.py")
        begun = verbs.add_parser("new", help="write NAME.py and test_NAME.py in this folder")
        begun.add_argument("name", metavar="NAME", help="name of the file, e.g. lightest")
        begun.add_argument(
            "--kind", choices=["routing"], default="routing", help="room the policy is for (default routing)"
        )
        checked = verbs.add_parser("check", help="run every promise; exit 1 when one is broken")
        checked.add_argument(
            "name", metavar="FILE_OR_NAME[:options]", help="e.g. mine.py or br-0:candidates=4"
        )
        for verb in (listed, shown, checked):
            verb.add_argument(
                "--format",
                choices=["table", "json"],
                default="table",
                help="what stdout gets (default table)",
            )

    def run(self, args: argparse.Namespace) -> int:
        return {"list": _list, "show": _show, "new": _new, "check": _check}[args.verb](args)


command = Policy()


def _described(name: str) -> dict[str, Any]:
    """A policy's name, sentence, source and options."""
    import inspect

    from evenstep import names
    from evenstep.config import meaning

    kind = names.find("routing", name)
    text = inspect.cleandoc(kind.__doc__ or "")
    said = meaning(kind) if dataclasses.is_dataclass(kind) else {}
    options = {
        field.name: {"default": field.default, "meaning": said.get(field.name, "")}
        for field in (dataclasses.fields(kind) if dataclasses.is_dataclass(kind) else ())
        if field.init and field.default is not dataclasses.MISSING
    }
    return {
        "name": name,
        "summary": text.split("\n\n")[0].replace("\n", " "),
        "description": text,
        "options": options,
    }


def _list(args: argparse.Namespace) -> int:
    from evenstep import names

    rows = [_described(name) for name in names.members("routing")]
    if args.format == "json":
        _print_json({"policies": [{key: row[key] for key in ("name", "summary", "options")} for row in rows]})
        return 0
    width = max(len(row["name"]) for row in rows)
    for row in rows:
        print(f"{row['name']:{width}}  {row['summary']}")
        if row["options"]:
            print(f"{'':{width}}    {_defaults(row)}")
    return 0


def _show(args: argparse.Namespace) -> int:
    row = _described(args.name)
    if args.format == "json":
        _print_json(row)
        return 0
    print(f"{row['name']}\n\n{row['description'].replace('``', '').replace('`', '')}")
    if row["options"]:
        print(f"\nDefaults: {_defaults(row)}")
    return 0


def _new(args: argparse.Namespace) -> int:
    from pathlib import Path

    from evenstep.cli._policy_template import POLICY, TEST
    from evenstep.errors import InputError

    name = args.name.removesuffix(".py").replace("-", "_")
    if not name.isidentifier() or not name.islower():
        raise InputError(
            "policy new",
            "NAME",
            args.name,
            "lower-case letters, digits and dashes, a letter first",
            "Try lightest.",
        )
    title = "".join(word.capitalize() for word in name.split("_"))
    files = {Path(f"{name}.py"): POLICY, Path(f"test_{name}.py"): TEST}
    for path in files:
        if path.exists():
            raise InputError(
                "policy new",
                "NAME",
                args.name,
                "a name whose files do not exist yet",
                f"{path} is there; move it away or take another name.",
            )
    for path, text in files.items():
        try:
            path.write_text(text.replace("NAME", name).replace("TITLE", title), encoding="utf-8")
        except OSError as error:
            raise InputError(
                "policy new", "file", str(path), "a file that can be written", f"{error.strerror}."
            ) from error
    print(f"Wrote {' and '.join(map(str, files))}.")
    print(f"Check it:   evenstep policy check {name}.py")
    print(f"Compare it: evenstep compare sample:azure-conv --limit 2000 --policy jsq --policy {name}.py")
    return 0


def _check(args: argparse.Namespace) -> int:
    from evenstep import names
    from evenstep.errors import InputError
    from evenstep.routing.checks import check

    spec = names.parse(args.name)
    if "predictor" in spec:
        raise InputError(
            args.name,
            "option",
            "predictor",
            "an option of the policy",
            "The check brings its own predictor; leave it out.",
        )
    policy = names.build("routing", spec)
    if not callable(getattr(policy, "route", None)):
        raise InputError(
            args.name,
            "policy",
            type(policy).__name__,
            "a class with a method route(view)",
            "evenstep policy new NAME writes one.",
        )
    findings = check(policy, _short_run)
    broken = [finding for finding in findings if not finding.passed]
    if args.format == "json":
        _print_json(
            {"policy": args.name, "passed": not broken, "checks": [dataclasses.asdict(f) for f in findings]}
        )
        return 1 if broken else 0
    for finding in findings:
        tail = f": {finding.message}" if finding.message else ""
        print(f"{'ok    ' if finding.passed else 'BROKEN'}  {finding.name}{tail}")
    print(
        f"{args.name}: {len(broken)} of {len(findings)} promises broken."
        if broken
        else f"{args.name}: all {len(findings)} promises kept."
    )
    return 1 if broken else 0


def _short_run(policy: Any, door: str) -> str:
    """Digest of a small saturated run with two barrier groups, through one door."""
    import numpy as np

    from evenstep.predict.oracle import Oracle
    from evenstep.request import Trace
    from evenstep.routing.view import horizon_of
    from evenstep.sim.cluster import Cluster, simulate

    rng = np.random.default_rng(7)
    prompts = np.clip(rng.lognormal(6.1, 1.15, _TRACE_ROWS), 4, 4096).astype(np.int64)
    outputs = np.clip(rng.gamma(1.5, 20, _TRACE_ROWS), 1, 200).astype(np.int64)
    cluster = Cluster(workers=_WORKERS, slots=_SLOTS, groups=(3, 1), pool=24)
    predictor = Oracle() if horizon_of(policy) else None
    run: Any = simulate(Trace(prompts, outputs), policy, cluster=cluster, predictor=predictor, door=door)  # type: ignore[arg-type]
    return run.digest


def _defaults(row: dict[str, Any]) -> str:
    return ", ".join(f"{key}={_text(option['default'])}" for key, option in row["options"].items())


def _text(value: object) -> str:
    return "none" if value is None else str(value).lower() if isinstance(value, bool) else str(value)


def _print_json(found: dict[str, Any]) -> None:
    from evenstep.cli._outputs import print_json

    print_json(found)
