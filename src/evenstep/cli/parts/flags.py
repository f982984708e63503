"""Turns the fields of a settings dataclass into flags, and the parsed flags into settings."""

from __future__ import annotations

import argparse
import dataclasses
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeVar, get_args, get_type_hints

from evenstep.config.fields import meaning
from evenstep.errors import InputError

if TYPE_CHECKING:
    from evenstep.config.layers import Layer, Settled
    from evenstep.config.yaml_file import Document
    from evenstep.workload.synthetic.yaml_file import Workload

T = TypeVar("T")

#: The name of the layer of flags in errors and reports.
ORIGIN = "command line"


class Once(argparse.Action):
    """A flag that may be given once and defaults to argparse.SUPPRESS; the second time is an `InputError` with this hint."""

    def __init__(self, *, hint: str, **options: Any) -> None:
        super().__init__(**options)
        self.hint = hint

    def __call__(self, parser: argparse.ArgumentParser, namespace: argparse.Namespace, values: Any, _: Any = None) -> None:
        if hasattr(namespace, self.dest):
            raise InputError(parser.prog, "--" + self.dest.replace("_", "-"), values, "one value", self.hint)
        setattr(namespace, self.dest, values)


def add_flags(parser: argparse.ArgumentParser, kind: type[Any], leave_out: tuple[str, ...] = ()) -> None:
    """Add a kebab-case flag for each field of a dataclass, with help from its docstring, and ``--config`` for a file.

    A flag that is not given sets no attribute (``--config``: None). A field of type list[str] becomes a flag without the
    plural's s, which may be given many times; a bool becomes a switch. The field `format_name` brings ``--columns`` too. In
    a field's metadata, ``shape`` is what help shows for the value. A field with ``once`` may be given once: its text is the
    error's hint.

    Args:
        kind: the settings dataclass.
        leave_out: fields that the command adds in its own way.
    """
    said, hints = meaning(kind), get_type_hints(kind)
    for field in dataclasses.fields(kind):
        if field.name in leave_out:
            continue
        flag = "--" + field.name.replace("_", "-")
        text = said.get(field.name, "").rstrip(".").replace("``", "").replace("%", "%%")
        if hints[field.name] is bool:
            parser.add_argument(flag, action="store_true", default=argparse.SUPPRESS, help=text)
            continue
        default = f"{field.default:g}" if isinstance(field.default, float) else field.default
        shown = "" if field.default in (None, "", dataclasses.MISSING) else f" (default {default})"
        metavar = field.metadata.get("shape") or _metavar(hints[field.name])
        if hints[field.name] == list[str]:
            add_many(parser, flag.removesuffix("s"), metavar, f"{text}; may be given many times", dest=field.name)
            continue
        once: dict[str, Any] = {"action": Once, "hint": field.metadata["once"]} if "once" in field.metadata else {}
        parser.add_argument(flag, default=argparse.SUPPRESS, metavar=metavar, help=text + shown, **once)
        if field.name == "format_name":
            add_columns_flag(parser)
    parser.add_argument("--config", metavar="FILE", help="read settings from a YAML file; flags win over it")


def add_values(parser: argparse.ArgumentParser, flags: Mapping[str, str | tuple[Any, ...]]) -> None:
    """Add flags that take one value; the attribute of a flag that is not given is its default, or None if it has none.

    `flags` maps a flag with its placeholder, such as ``--out FILE``, to help, or to a tuple: help, type, maybe a default. A
    flag without a placeholder is a switch, and its attribute a bool.
    """
    for flag, said in flags.items():
        name, _, metavar = flag.partition(" ")
        text, *more = (said,) if isinstance(said, str) else said
        options: dict[str, Any] = dict(zip(("type", "default"), more, strict=False))
        options |= {"metavar": metavar} if metavar else {"action": "store_true"}
        parser.add_argument(name, help=text, **options)


def add_many(parser: argparse.ArgumentParser, flag: str, metavar: str, text: str, **more: Any) -> None:
    """Add a flag that may be given many times, with the help `text`; its attribute is the list of values.

    `more` are options of ``add_argument``. Without a `default`, a flag that is not given sets no attribute.
    """
    options: dict[str, Any] = {"default": argparse.SUPPRESS, **more}
    parser.add_argument(flag, action="append", metavar=metavar, help=text, **options)


def add_source(parser: argparse.ArgumentParser) -> None:
    """Add the trace as an optional positional argument, `source`; if it is left out, no attribute is set."""
    text = "trace file, workload YAML or sample:azure-conv"
    parser.add_argument("source", nargs="?", default=argparse.SUPPRESS, metavar="FILE", help=text)


def need_source(where: str, source: str) -> None:
    """Raise an `InputError` if `source`, the trace, is empty; `where` is the command, for the message."""
    if not source:
        raise InputError(where, "FILE", "missing", "a trace, a workload or a sample", "Try sample:azure-conv.")


def add_format(parser: argparse.ArgumentParser, *kinds: str) -> None:
    """Add ``--format`` with the choices `kinds` (when left out: table and json); its default is table in any case."""
    choices = [*(kinds or ("table", "json"))]
    parser.add_argument("--format", choices=choices, default="table", help="what stdout gets (default table)")


def add_processes(parser: argparse.ArgumentParser) -> None:
    """Add ``--processes`` to a command that runs many simulations; its attribute is None if it is not given."""
    text = "processes to run in; left out = all cores for a long run"
    parser.add_argument("--processes", type=int, metavar="N", help=text)


def add_columns_flag(parser: argparse.ArgumentParser) -> None:
    """Add ``--columns``, which names the columns of a CSV file; `format_of` turns it into a format's name."""
    parser.add_argument(
        "--columns",
        default=argparse.SUPPRESS,
        metavar="KEY=NAME,...",
        help="columns of any CSV file: prompt, output, and where it has them time, unit (s, ms, us, ns), request_class, "
        "session, max_tokens; e.g. prompt=in,output=out,time=ts,unit=ms",
    )


def add_reading(parser: argparse.ArgumentParser, *format_names: str) -> None:
    """Add a trace and the flags that say how to read it, for `workload_of`; `format_names` also mean ``--format-name``."""
    parser.add_argument("file", metavar="FILE", help="a trace, a WORKLOAD.yaml, or sample:azure-conv")
    text = "format of FILE, with options if any: mooncake:ticks=keep"
    parser.add_argument(*format_names, "--format-name", dest="format_name", metavar="NAME", help=text)
    add_columns_flag(parser)
    parser.add_argument("--skip-bad-rows", action="store_true", help="leave out and count rows that cannot be read")
    parser.add_argument("--limit", type=int, metavar="ROWS", help="only the first ROWS requests")
    parser.add_argument("--seed", type=int, default=0, help="key of what is drawn or spread (0)")


def workload_of(args: argparse.Namespace) -> Workload:
    """Open the workload that the arguments of `add_reading` describe; `InputError` if it cannot be read."""
    from evenstep.workload.sources import open_source

    form = format_of(args, args.format_name)
    return open_source(args.file, form, skip_bad_rows=args.skip_bad_rows, limit=args.limit, seed=args.seed)


def format_of(args: argparse.Namespace, named: str | None) -> str | None:
    """The name of a trace's format: ``columns:...`` if ``--columns`` is given, else `named`, the value of ``--format-name``.

    None means that the format has to be detected. `InputError` if both flags are given, or ``--columns`` names no column.
    """
    columns = getattr(args, "columns", None)
    if columns is None:
        return named
    if named is not None:
        raise InputError(ORIGIN, "--format-name", named, "no value with --columns")
    if "=" not in columns:
        raise InputError(ORIGIN, "--columns", columns, "KEY=NAME,...", "Write prompt=COLUMN,output=COLUMN.")
    return f"columns:{columns}"


def document_of(args: argparse.Namespace) -> Document | None:
    """The file of ``--config``, None without the flag; read once, since it may be a pipe, and kept as `args.document`."""
    from evenstep.config.yaml_file import read_yaml

    if not hasattr(args, "document"):
        args.document = None if args.config is None else read_yaml(args.config)
    return args.document


def settled(args: argparse.Namespace, kind: type[T], below: Layer | None = None) -> Settled[T]:
    """Merge the settings of a command: defaults, `below`, the ``--config`` file, then flags; the last one wins.

    The result also has the origin of each setting. Ranges are not checked.

    Args:
        args: parsed by a parser with the flags of `add_flags`.
        kind: the settings dataclass.
        below: a further layer, such as a decision log's, or None.

    Raises:
        InputError: an unknown key in the file, or a value that does not fit.
    """
    from evenstep.config.layers import Layer, settle

    layers: list[Layer] = [] if below is None else [below]
    document = document_of(args)
    if document is not None:
        layers.append(Layer(document.path, document.values))
    given = {f.name: getattr(args, f.name) for f in dataclasses.fields(kind) if hasattr(args, f.name)}  # type: ignore[arg-type]
    if hasattr(args, "columns"):
        given["format_name"] = format_of(args, given.get("format_name"))
    hints = get_type_hints(kind)
    for name, value in given.items():
        if hints[name] == list[int] or (list[int] in get_args(hints[name]) and "," in value):
            try:
                given[name] = [int(part) for part in value.split(",")]
            except ValueError:
                raise InputError(ORIGIN, f"--{name}", value, "integers with commas between, e.g. 4,4,8") from None
    layers.append(Layer(ORIGIN, given, text=True))
    return settle(kind, *layers)


def _metavar(hint: Any) -> str:
    """The placeholder in help for a value of this type: choices as ``a|b``, else ``N``, ``X``, ``NAME`` or ``N,N,...``."""
    choices = [str(choice) for choice in get_args(hint) if isinstance(choice, str)]
    if choices:
        return "|".join(choices)
    kinds = {list[int]: "N,N,...", int: "N", float: "X", str: "NAME"}
    return next(kinds[option] for option in (hint, *get_args(hint)) if option in kinds)
