"""Contenders: the policies that a user asks to compare, in a form that a host can run in any process.

``bf-io:horizon=20,predictor=oracle`` names a policy, its options and its predictor. The predictor's own options are written
``predictor.KEY=value``. Every run builds its predictor anew, so a learning one starts every run without data. A policy is
built anew, too, unless it is an object.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias, cast

from evenstep import names
from evenstep.errors import InputError
from evenstep.routing.view import RoutingPolicy, horizon_of

#: A spec such as ``"jsq:ties=lowest"``, the same as a mapping, a policy, or a pair of policy and predictor.
PolicySpec: TypeAlias = "str | Mapping[str, Any] | RoutingPolicy | tuple[RoutingPolicy, str | Mapping[str, Any]]"


@dataclass(frozen=True, slots=True)
class Contender:
    """One policy with its predictor, as the user asked for it."""

    #: its name in tables and reports: the spec as text, or the policy's `repr` with the predictor given for it. Of an object
    #: without a `repr` of its own it is the name of its class; `contenders` numbers it if another has that name.
    name: str
    policy: Mapping[str, Any] | RoutingPolicy  # a spec for `names.build`, or the policy itself
    #: a spec for `names.build`; None = the policy's `usual_predictor`, if it has one
    predictor: Mapping[str, Any] | None = None

    def build(self) -> tuple[RoutingPolicy, Any]:
        """Build the policy and its predictor anew, and return both. A policy given as an object is returned itself.

        The predictor is None if the user named no predictor and the policy has no `usual_predictor`. `InputError` for an
        unknown name or option, an object that cannot route, or a policy that looks ahead without a predictor.
        """
        policy: Any = self.policy
        if isinstance(policy, Mapping):
            policy = names.build("routing", cast("Mapping[str, Any]", policy))
        if isinstance(policy, type) or not callable(getattr(policy, "route", None)):
            hint = f"Write {policy.__name__}()." if isinstance(policy, type) else ""
            raise InputError(self.name, "policy", type(policy).__name__, "an object with a method `route(view)`", hint)
        spec, usual = self.predictor, getattr(policy, "usual_predictor", None)
        if spec is None and usual is not None:
            spec = {"name": usual}
        predictor = names.build("predict", spec) if spec is not None else None
        if predictor is None and horizon_of(policy) > 0:
            hint = "Name its predictor, e.g. predictor=oracle."
            expected = f"a predictor, since it looks {horizon_of(policy)} steps ahead"
            raise InputError(self.name, "predictor", "missing", expected, hint)
        return policy, predictor


def contender(asked: PolicySpec) -> Contender:
    """The contender that a spec, mapping, policy or (policy, predictor) describes. It is not built, so unknown names pass.

    `InputError` for a spec that cannot be parsed, a mapping without ``name``, or predictor options without a predictor.
    """
    if isinstance(asked, str):
        return _from_spec(asked, names.parse(asked))
    if isinstance(asked, Mapping):
        spec = dict(asked)
        if "name" not in spec:
            raise InputError("policy", "name", "missing", "a policy's name", "Write {'name': 'jsq', ...}.")
        given = spec.get("predictor")
        if isinstance(given, Mapping):
            _named(cast("Mapping[str, Any]", given))
        return _from_spec(_shown(spec), spec)
    if isinstance(asked, tuple):
        if len(asked) != 2:
            raise InputError("policy", "pair", asked, "a policy and its predictor", "Put several policies in a list.")
        policy, predictor = asked
        spec = _named(predictor)
        return Contender(f"{_name_of(policy)} with {_shown(spec)}", policy, spec)
    return Contender(_name_of(asked), asked)


def contenders(asked: Sequence[PolicySpec]) -> list[Contender]:
    """The contenders of all specs, in their order. Each is built once as a check, so that a bad spec fails before any run.

    `InputError` for an empty list, a policy given twice, a spec that cannot be parsed, or an error of `Contender.build`.
    """
    if not asked:
        raise InputError("compare", "policies", "empty", "at least one policy")
    found, objects = [*map(contender, asked)], dict[str, list[Any]]()
    for place in sorted(range(len(found)), key=lambda place: _is_unnamed(found[place].policy)):
        one = found[place]
        same = objects.setdefault(one.name, [])
        if same and _is_unnamed(one.policy) and all(one.policy is not other for other in same):
            found[place] = replace(one, name=f"{one.name} {len(same) + 1}")
        same.append(one.policy)
    check_each_once(one.name for one in found)
    for one in found:
        one.build()
    return found


def _is_unnamed(policy: object) -> bool:
    """True if the `repr` of a policy is an address in memory, which differs from process to process."""
    return type(policy).__repr__ is object.__repr__


def _name_of(policy: object) -> str:
    """A policy's `repr`, or the name of its class if the `repr` is an address."""
    return type(policy).__name__ if _is_unnamed(policy) else repr(policy)


def check_each_once(names: Iterable[str]) -> None:
    """Raise an `InputError` if a policy's name is given twice, because tables tell policies apart by name."""
    for name, count in Counter(names).items():
        if count > 1:
            raise InputError("compare", "policy", name, f"each policy once, not {count} times", "Leave the others out.")


def _from_spec(name: str, spec: dict[str, Any]) -> Contender:
    """A contender from a mapping of the policy's and the predictor's options; the predictor's are removed from `spec`."""
    given = spec.pop("predictor", None)
    inside = {k.removeprefix("predictor."): spec.pop(k) for k in [*spec] if k.startswith("predictor.")}
    if given is None:
        if inside:
            raise InputError(name, "predictor", "missing", "a predictor to take these options")
        return Contender(name, spec)
    predictor = {"name": given} if isinstance(given, str) else _named(given)
    return Contender(name, spec, {**predictor, **inside})


def _named(predictor: Any) -> dict[str, Any]:
    """The spec of a predictor as a new mapping; `InputError` if it has no ``name``, or is neither text nor a mapping."""
    if not isinstance(predictor, str | Mapping):
        hint = "Each run builds its own predictor from it."
        raise InputError("policy", "predictor", type(predictor).__name__, "a spec such as 'oracle'", hint)
    spec: dict[str, Any] = {**names.parse(predictor)} if isinstance(predictor, str) else {**predictor}
    if "name" not in spec:
        raise InputError("policy", "predictor.name", "missing", "a predictor's name", "Write {'name': 'oracle'}.")
    return spec


def _shown(spec: Mapping[str, Any]) -> str:
    """A mapping as the equivalent spec string, ``NAME:KEY=value,...``."""
    flat: dict[str, Any] = {}
    for key, value in spec.items():
        if key == "predictor" and isinstance(value, Mapping):
            inner = dict(cast("Mapping[str, Any]", value))
            flat |= {key: inner.pop("name"), **{f"{key}.{k}": v for k, v in inner.items()}}
        elif key != "name":
            flat[key] = value
    return ":".join([str(spec["name"]), ",".join(f"{k}={v}" for k, v in flat.items())]).rstrip(":")
