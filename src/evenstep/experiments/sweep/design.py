"""The design of a sweep: every point with its settings and contenders, all checked before the first run."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast, get_args, get_type_hints

from evenstep import names
from evenstep.config.layers import Layer, Settled, settle
from evenstep.config.yaml_file import Document
from evenstep.errors import InputError, check_known, nearest
from evenstep.experiments.contenders import Contender, contender
from evenstep.experiments.settings import CompareSettings, checked
from evenstep.experiments.sweep.file import SweepFile, sampling
from evenstep.experiments.sweep.points import Axis, axis_of, grid_points, latin_points
from evenstep.experiments.sweep.until import Until, parse_until
from evenstep.measure.swept import value_text

#: Most points of a sweep; more would fill the memory before the first run.
MOST_POINTS = 1_000_000
#: Package of the policies or predictors that an option's prefix stands for.
ROOMS = {"policy": "routing", "predictor": "predict"}


@dataclass(frozen=True, slots=True)
class Point:
    """One point of a sweep."""

    values: tuple[Any, ...]  # one for each parameter, in their order
    settled: Settled[CompareSettings]  # its settings with their origin
    settings: CompareSettings  # the same after `settings.checked`: in range, with the arrivals they imply
    contenders: tuple[Contender, ...]  # its policies with their swept options, in the order asked; names are those asked for
    label: str  # its name in messages: ``workers=8, pool=32``


@dataclass(frozen=True, slots=True)
class Design:
    """A sweep, ready to be run."""

    file: SweepFile  # the file's content: the swept parameters, the policies and metrics as asked, and the most replicates
    points: tuple[Point, ...]  # at least one; on a grid the last parameter varies fastest
    until: Until | None  # the stopping rule for replicates, or None


def design_of(found: SweepFile, document: Document) -> Design:
    """The design of a sweep file that `read_sweep` gave. Every policy is built once with the options of each point.

    `InputError` for bad content, or settings that do not fit together.
    """
    known = metric_names()
    for name in found.metrics:
        check_known(document.where("metrics"), "metrics", name, known, "a known metric")
    asked = _policies(found, document)
    axes = [_axis(name, given, asked, document) for name, given in found.over.items()]
    cube = sampling(found, document)
    many = math.prod(len(axis.values) or axis.points or 1 for axis in axes) if cube is None else cube[0]
    if many > MOST_POINTS:
        raise InputError(document.where("over"), "points", many, f"at most {MOST_POINTS:,} in all")
    values = grid_points(axes) if cube is None else latin_points(axes, *cube)
    until = parse_until(found.until, known, document.where("until")) if found.until is not None else None
    layers = [_layer(document, "fixed", name, value) for name, value in found.fixed.items()]
    layers += [_layer(document, "", "source", found.source)] if found.source else []
    points = [_point(tuple(found.over), one, layers, asked, document) for one in values]
    judged = [name for name in found.metrics if name in SLO_METRICS]
    if judged and any(point.settings.slo is None for point in points):
        hint = "Give --slo ttft=2s,tpot=50ms, or fixed.slo."
        raise InputError(document.where("metrics"), "metrics", judged[0], "objectives (slo), which this metric needs", hint)
    _check_contenders(points, found, document)
    seeds = points[0].settings.seeds
    if until is not None and not 2 <= seeds <= found.most_seeds:
        where = document.where("fixed.seeds")
        raise InputError(where, "fixed.seeds", seeds, f"an integer from 2 to most_seeds, {found.most_seeds}")
    return Design(found, tuple(points), until)


#: Metrics that need an objective.
SLO_METRICS = ("slo_share", "goodput_requests_per_s", "goodput_tokens_per_s")


def metric_names() -> tuple[str, ...]:
    """Names of all metrics that a sweep can show or wait for: the numbers in a summary, with those of an objective."""
    from evenstep.measure.metrics import Slo
    from evenstep.measure.records import Conditions, Totals
    from evenstep.measure.tally import Tally

    empty = Tally(Conditions(1, 1, 1, (1,), (0.0,), 0.0, "saturated", 1, 0, ""), slo=Slo())
    summary = empty.summary(Totals(0, 0, 0, 0, 0.0, 0.0, 0, 0, 0))
    return tuple(name for name, value in summary.items() if not isinstance(value, bool | dict | list))


def _policies(found: SweepFile, document: Document) -> list[Contender]:
    """The contenders of the file's policies, not built; `InputError` for an empty list, a repeated or an unknown name."""
    if not found.policies:
        raise InputError(document.where("policies"), "policies", "empty", "at least one policy")
    made: list[Contender] = []
    for index, name in enumerate(found.policies):
        where = document.where(f"policies[{index}]")
        if found.policies.count(name) > 1:
            raise InputError(where, "policies", name, "each policy once")
        try:
            made.append(contender(name))
            for room in ROOMS.values():
                _kind(made[-1], room)
        except InputError as error:
            raise _placed(error, where) from None
    return made


def _check_contenders(points: list[Point], found: SweepFile, document: Document) -> None:
    """Build every policy and predictor once with the options of its points; an `InputError` names the line at fault."""
    built: set[str] = set()
    for point in points:
        for index, one in enumerate(point.contenders):
            if repr(one) in built:
                continue
            built.add(repr(one))
            try:
                one.build()
            except InputError as error:
                options = {name.partition(".")[2].replace("-", "_"): name for name in found.over}
                swept = options.get(error.field)
                field = f"policies[{index}]" if swept is None else f"over.{swept}"
                raise _placed(error, document.where(field)) from None


def _placed(error: InputError, where: str) -> InputError:
    """A copy of the error with the place `where` in the file; the former place becomes the field's name or a part of it."""
    field = error.where if error.where in ROOMS else f"{error.field} of {error.where}"
    return InputError(where, field, error.value, error.expected, error.hint)


def _axis(name: str, given: Any, asked: list[Contender], document: Document) -> Axis:
    """The axis of a parameter of ``over``; `InputError` for an option that no policy (predictor) has, or a spec sets."""
    where = document.where(f"over.{name}")
    prefix, dot, option = name.partition(".")
    if not dot:
        return axis_of(name, given, where, number=_number(get_type_hints(CompareSettings)[name]))
    room, key = ROOMS[prefix], option.replace("-", "_")
    kinds = [kind for one in asked if (kind := _kind(one, room)) is not None]
    having = [kind for kind in kinds if key in _options(kind)]
    if not having:
        every = sorted({known for kind in kinds for known in _options(kind)})
        none = f"No {prefix} here takes any." if not every else nearest(key, every)
        raise InputError(where, f"over.{name}", option, f"an option that a {prefix} of this sweep has", none)
    for one in asked:
        if key in (_spec(one, room) or ()):
            raise InputError(where, f"over.{name}", f"also in {one.name}", "one of the two places")
    return axis_of(name, given, where, number=_number(get_type_hints(having[0])[key]))


def _point(
    parameters: tuple[str, ...], values: tuple[Any, ...], layers: list[Layer], asked: list[Contender], document: Document
) -> Point:
    given = dict(zip(parameters, values, strict=True))
    label = ", ".join(f"{name}={value_text(value)}" for name, value in given.items())
    own = [_layer(document, "over", name, value) for name, value in given.items() if "." not in name]
    settled = settle(CompareSettings, *layers, *own)
    settings = checked(settled)
    made = tuple(_with_options(one, given) for one in asked)
    return Point(values, settled, settings, made, label)


def _with_options(one: Contender, given: Mapping[str, Any]) -> Contender:
    """The contender with those swept options that its policy or predictor has."""
    for name, value in given.items():
        prefix, dot, option = name.partition(".")
        room, key = ROOMS.get(prefix, ""), option.replace("-", "_")
        if dot and key in _options(_kind(one, room)):
            one = dataclasses.replace(one, **{prefix: {**(_spec(one, room) or {}), key: value}})
    return one


def _spec(one: Contender, room: str) -> Mapping[str, Any] | None:
    """The spec of a contender's policy (`room` ``routing``), or of its predictor, else its policy's usual one, else None."""
    if room == "routing":
        return cast("Mapping[str, Any]", one.policy)
    if one.predictor is not None:
        return one.predictor
    usual = getattr(_kind(one, "routing"), "usual_predictor", None)
    return None if usual is None else {"name": usual}


def _kind(one: Contender, room: str) -> Any:
    """The class of `_spec`, or None without a spec; `InputError` for an unknown name."""
    spec = _spec(one, room)
    return None if spec is None else names.find(room, str(spec["name"]))


def _options(kind: Any) -> list[str]:
    """Names of the options that a class of policies or predictors takes; empty if it is not a dataclass."""
    return [f.name for f in dataclasses.fields(kind) if f.init] if dataclasses.is_dataclass(kind) else []


def _layer(document: Document, section: str, name: str, value: Any) -> Layer:
    return Layer(document.where(f"{section}.{name}".lstrip(".")), {name: value})


def _number(hint: Any) -> type[int] | type[float] | None:
    """The type, int or float, of numbers in a range of a field with this type hint; None if it is not numeric."""
    options = get_args(hint) or (hint,)
    return float if float in options else int if int in options else None
