"""``evenstep policy`` lists, shows, creates and checks policies: those that route, and those that schedule in an engine.

``--kind`` chooses between the two. ``list`` and ``show`` describe policies. ``new`` writes NAME.py and test_NAME.py in the
current folder, and replaces no file. ``check`` tests the promises of a policy, with exit code 1 if one is broken.
"""

from __future__ import annotations

import argparse
import ast
import dataclasses
import importlib.util
import itertools
import json
import keyword
import re
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from evenstep import names
from evenstep.cli.parts import flags, outputs
from evenstep.config.fields import docstring, meaning
from evenstep.errors import InputError, check_known

if TYPE_CHECKING:
    from evenstep.policy_checks import Finding

_TRACE_ROWS, _WORKERS, _SLOTS = 300, 4, 8
#: Kind of a policy, and the name of its method.
_KINDS = {"routing": "route", "scheduling": "form_batch"}
#: What `policy new` writes, by kind: a policy, the same as a rule, and a test.
TEMPLATES = Path(__file__).with_name("templates")


class Policy:
    summary = "list, show, create and check policies"
    description = (
        "list shows every policy with its options; show explains one; new writes a policy of your own and a\n"
        "test for it; check runs every promise of a policy on random views and in a short simulation.\n"
        "check exits 1 when a promise is broken. --kind scheduling means policies inside one engine; show and\n"
        "check need it only for names of both kinds, such as vllm."
    )
    examples = (
        "evenstep policy list",
        "evenstep policy show br-h",
        "evenstep policy new lightest",
        "evenstep policy new --rule lightest_rule",
        "evenstep policy check lightest.py",
        "evenstep policy check br-h:horizon=20,discount=0.8",
        "evenstep policy list --kind scheduling",
        "evenstep policy new --kind scheduling --rule my_batches",
        "evenstep policy check --kind scheduling vllm:watermark=0.02",
    )

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        verbs = parser.add_subparsers(dest="verb", metavar="list|show|new|check", required=True)
        listed = verbs.add_parser("list", help="every policy, one sentence, its options with defaults")
        shown = verbs.add_parser("show", help="one policy: what it does and what its options mean")
        shown.add_argument("name", metavar="NAME", help="a policy's name, or mine.py")
        begun = verbs.add_parser("new", help="write NAME.py and test_NAME.py in this folder")
        begun.add_argument("name", metavar="NAME", help="name of the file, e.g. lightest")
        begun.add_argument("--rule", action="store_true", help="write a rule, which is compiled, in place of plain Python")
        checked = verbs.add_parser("check", help="run every promise; exit 1 when one is broken")
        checked.add_argument("name", metavar="FILE_OR_NAME[:options]", help="e.g. mine.py or br-0:candidates=4")
        for verb in (listed, shown, begun, checked):
            default, said = (None, "as the policy is; routing if both") if verb in (shown, checked) else ("routing",) * 2
            verb.add_argument(
                "--kind", choices=list(_KINDS), default=default, help=f"what the policy decides (default {said})"
            )
        for verb in (listed, shown, checked):
            flags.add_format(verb)

    def run(self, args: argparse.Namespace) -> int:
        return {"list": _list, "show": _show, "new": _new, "check": _check}[args.verb](args)


command = Policy()


def _described(name: str, kind_of: str) -> dict[str, Any]:
    """A policy's name, summary (first paragraph), description (docstring), and each default with its meaning."""
    kind = names.find(kind_of, name)
    names.check_class(kind, name)
    text = docstring(kind)
    said = meaning(kind) if dataclasses.is_dataclass(kind) else {}
    options = {
        field.name: {"default": _plain_value(field.default), "meaning": said.get(field.name, "")}
        for field in (dataclasses.fields(kind) if dataclasses.is_dataclass(kind) else ())
        if field.init and field.default is not dataclasses.MISSING
    }
    return {"name": name, "summary": text.split("\n\n")[0].replace("\n", " "), "description": text, "options": options}


def _listed(name: str, kind_of: str) -> dict[str, Any]:
    """A policy as `_described`; one that another package offers and that cannot be loaded has the error as its summary."""
    try:
        return _described(name, kind_of)
    except InputError as error:
        return {"name": name, "summary": f"cannot be used: {error}", "options": {}}


def _list(args: argparse.Namespace) -> int:
    rows = [_listed(name, args.kind) for name in names.members(args.kind)]
    if args.format == "json":
        outputs.print_json({"policies": [{key: row[key] for key in ("name", "summary", "options")} for row in rows]})
        return 0
    width = max(len(row["name"]) for row in rows)
    for row in rows:
        outputs.tell([f"{row['name']:{width}}  {_plain(row['summary'])}"], width + 2)
        if row["options"]:
            outputs.tell([f"{'':{width}}  options: {_defaults(row)}"], width + 4)
    more = "" if args.kind == "routing" else f"--kind {args.kind} "
    outputs.tell([f"Options are shown with their defaults. Explained by: evenstep policy show {more}NAME"])
    return 0


def _show(args: argparse.Namespace) -> int:
    name, colon, options = args.name.partition(":")
    if colon and "=" in options:
        raise InputError("evenstep policy show", "NAME", args.name, "a name without options", f"Try {name}.")
    row = _described(args.name, _kind_of(args.name, args.kind))
    if args.format == "json":
        outputs.print_json(row)
        return 0
    text = re.sub(r"\n\n(Args|Raises):(\n .*)*", "", row["description"])
    for line in [row["name"], "", *_plain(text).splitlines()]:
        outputs.tell([line], len(line) - len(line.lstrip()))
    options = [f"    {name}: {_plain(one['meaning'])}" for name, one in row["options"].items() if one["meaning"]]
    if options:  # also those that a base class describes
        outputs.tell(["", "Options:", *options], 8)
    if row["options"]:
        outputs.tell(["", f"Defaults: {_defaults(row)}"])
    return 0


def _new(args: argparse.Namespace) -> int:
    """Write NAME.py and test_NAME.py from templates, and print the commands to go on with; returns the exit code, 0."""
    where = "policy new"
    name = args.name.removesuffix(".py").replace("-", "_")
    if not name.isidentifier() or name.startswith("_") or not name.islower() or keyword.iskeyword(name):
        expected = "lower-case letters, digits and dashes, a letter first, and no word of Python"
        raise InputError(where, "NAME", args.name, expected, "Try lightest.")
    if importlib.util.find_spec(name) is not None:
        hint = f"Your {name}.py would hide it from all Python code in this folder."
        raise InputError(where, "NAME", args.name, "a name that no installed module has", hint)
    files = {Path(f"{name}.py"): "rule" if args.rule else "policy", Path(f"test_{name}.py"): "test"}
    for path in files:
        if path.exists():
            hint = f"{path} is there; move it away or take another name."
            raise InputError(where, "NAME", args.name, "a name whose files do not exist yet", hint)
    title = "".join(word.capitalize() for word in name.split("_"))
    texts = [(TEMPLATES / f"{args.kind}_{part}.py.txt").read_text(encoding="utf-8") for part in files.values()]
    if any(title in _words(text) for text in texts):
        title += "Policy"  # a class Work would hide the Work of its file
    for path, text in zip(files, texts, strict=True):
        try:
            path.write_text(text.replace("NAME", name).replace("TITLE", title), encoding="utf-8")
        except OSError as error:
            raise InputError(where, "file", str(path), "a file that can be written", f"{error.strerror}.") from error
    rival = {"scheduling": "--engine kv-tokens=20000 --policy vllm", "routing": "--policy jsq"}[args.kind]
    print(f"Wrote {' and '.join(map(str, files))}.")
    print(f"Check it:   evenstep policy check {name}.py")
    print(f"Compare it: evenstep compare sample:azure-conv --limit 2000 {rival} --policy {name}.py")
    return 0


def _words(text: str) -> set[str]:
    """The names that Python source imports, defines as classes, or uses."""
    nodes = list(ast.walk(ast.parse(text)))
    used = {node.id for node in nodes if isinstance(node, ast.Name)}
    return used | {node.name for node in nodes if isinstance(node, ast.alias | ast.ClassDef)}


def _check(args: argparse.Namespace) -> int:
    """Run all checks on a policy and print their results; returns exit code 1 if one failed, else 0."""
    spec = names.parse(args.name)
    if "predictor" in spec:
        hint = "The check brings its own predictor; leave it out."
        raise InputError(args.name, "option", "predictor", "an option of the policy", hint)
    name, options = spec.pop("name"), spec
    kind = _kind_of(name, args.kind)
    policy = names.make(names.find(kind, name), options, name)
    method = _KINDS[kind]
    if not callable(getattr(policy, method, None)):
        other = next((other for other, one in _KINDS.items() if hasattr(policy, one)), "")
        hint = f"Take --kind {other}." if other else f"evenstep policy new --kind {kind} NAME writes one."
        raise InputError(args.name, "policy", type(policy).__name__, f"a class with a method {method}(view)", hint)
    findings = _findings(kind, policy)
    broken = [finding for finding in findings if not finding.passed]
    if args.format == "json":
        outputs.print_json({"policy": args.name, "passed": not broken, "checks": [dataclasses.asdict(f) for f in findings]})
        return 1 if broken else 0
    for finding in findings:
        tail = f": {finding.message}" if finding.message else ""
        outputs.tell([f"{'ok    ' if finding.passed else 'BROKEN'}  {finding.name}{tail}"], 8)
    told = f"{len(broken)} of {len(findings)} promises broken" if broken else f"all {len(findings)} promises kept"
    print(f"{args.name}: {told}.")
    return 1 if broken else 0


def _kind_of(name: str, kind: str | None) -> str:
    """The kind given with ``--kind``, or that of the policy; ``routing`` for a name of both kinds.

    Raises InputError if `name` is only a policy of the other kind than the given one, with the right ``--kind`` as hint.
    """
    known = [one for one in _KINDS if name in names.members(one)]
    if kind is None:
        if ":" not in name and not name.endswith(".py"):
            check_known("policy", "name", name, [*itertools.chain(*map(names.members, _KINDS))], "a known policy")
        found = None if known else names.find("routing", name)
        return next(iter(known or [one for one, method in _KINDS.items() if hasattr(found, method)]), "routing")
    if known and kind not in known:
        raise InputError("evenstep policy", "NAME", name, f"a {kind} policy", f"Take --kind {known[0]}.")
    return kind


def _findings(kind: str, policy: Any) -> list[Finding]:
    """Run the checks of a kind, ``routing`` or ``scheduling``, on a policy; if it needs steps, without the short run."""
    if kind == "scheduling":
        from evenstep.scheduling.checks import check

        return check(policy, _short_engine_runs)
    from evenstep.routing import checks
    from evenstep.routing.view import needs_steps

    return checks.check(policy, None if needs_steps(policy) else _short_run)


def _short_engine_runs(policy: Any, door: str) -> str:
    """Joined digests of six short runs in an engine short of memory: each overflow rule with each first-token convention."""
    import numpy as np

    from evenstep.request import Trace
    from evenstep.sim.engine.simulation import Engine, simulate_engine

    rng = np.random.default_rng(7)
    outputs = rng.integers(1, 60, _TRACE_ROWS)
    trace = Trace(
        rng.integers(1, 120, _TRACE_ROWS),
        outputs,
        arrival_s=np.cumsum(rng.exponential(0.02, _TRACE_ROWS)),
        output_low=np.maximum(outputs - 20, 1),
        output_high=outputs + 20,
    )
    digests = ""
    for overflow, first_token in itertools.product(("recompute", "restart", "swap"), ("prefill", "decode")):
        rules: Any = {"overflow": overflow, "first_token": first_token}
        engine = Engine(token_budget=96, batch_limit=24, kv_tokens=1200, block_tokens=4, **rules)
        digests += simulate_engine(trace, policy, engine=engine, door=door).digest  # type: ignore[arg-type]
    return digests


def _short_run(policy: Any, door: str) -> str:
    """Digest of a short saturated fleet run with two barrier groups; `door` is the way the policy is called (glossary)."""
    import numpy as np

    from evenstep.predict.oracle import Oracle
    from evenstep.request import Trace
    from evenstep.routing.view import horizon_of
    from evenstep.sim.cluster.simulation import Cluster, simulate

    rng = np.random.default_rng(7)
    prompts = np.clip(rng.lognormal(6.1, 1.15, _TRACE_ROWS), 4, 4096).astype(np.int64)
    outputs = np.clip(rng.gamma(1.5, 20, _TRACE_ROWS), 1, 200).astype(np.int64)
    cluster = Cluster(workers=_WORKERS, slots=_SLOTS, groups=(3, 1), pool=24)
    predictor = Oracle() if horizon_of(policy) else None
    run: Any = simulate(Trace(prompts, outputs), policy, cluster=cluster, predictor=predictor, door=door)  # type: ignore[arg-type]
    return run.digest


def _defaults(row: dict[str, Any]) -> str:
    """The options of a `_described` policy with their defaults, as typed: ``key=value, ...``, or ``key unset``."""
    return ", ".join(
        f"{key} unset" if option["default"] in (None, ()) else f"{key}={_text(option['default'])}"
        for key, option in row["options"].items()
    )


def _plain_value(value: Any) -> Any:
    """The value itself if JSON can hold it, that of an `Enum`, else its text."""
    if isinstance(value, Enum):
        return _plain_value(value.value)
    try:
        json.dumps(value, allow_nan=False)
    except (TypeError, ValueError):
        return str(value)
    return value


def _text(value: object) -> str:
    """A default as typed: the items of a tuple joined by ``/``, a bool in lower case."""
    if isinstance(value, tuple):
        return "/".join(map(_text, cast("tuple[object, ...]", value)))
    return str(value).lower() if isinstance(value, bool) else str(value)


def _plain(text: str) -> str:
    return text.replace("`", "")
