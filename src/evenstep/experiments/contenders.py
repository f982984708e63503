"""Contenders: the policies a user asks to compare, in a form that a host can run in any process.

``bf-io:horizon=20,predictor=oracle`` names a policy, its options and its predictor. The predictor is parsed here, never
by the policy; its own options are written ``predictor.KEY=value``. Policies are built again for every run, so that a
learning predictor starts every run without data.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias, cast

from evenstep import names
from evenstep.errors import InputError
from evenstep.routing.view import RoutingPolicy, horizon_of

#: A spec such as ``"jsq:ties=lowest"``, the same as a mapping, a policy, or a pair of policy and predictor.
PolicySpec: TypeAlias = "str | Mapping[str, Any] | RoutingPolicy | tuple[RoutingPolicy, str | Mapping[str, Any]]"


@dataclass(frozen=True, slots=True)
class Contender:
    """One policy with its predictor, as the user asked for it.

    Args:
        name: what tables and reports call it: the spec as written, or the policy's `repr`.
        policy: a spec for `names.build`, or the policy itself.
        predictor: a spec for `names.build`, or None: the one the policy names as its `usual_predictor`, if it does.
    """

    name: str
    policy: Mapping[str, Any] | RoutingPolicy
    predictor: Mapping[str, Any] | None = None

    def build(self) -> tuple[RoutingPolicy, Any]:
        """Build the policy and its predictor anew. A policy given as an object is returned itself.

        The predictor is None if the user named no predictor and the policy has no `usual_predictor`.

        Raises:
            InputError: an unknown name or option, something that cannot route, or a policy that looks ahead without a
                predictor.
        """
        policy: Any = self.policy
        if isinstance(policy, Mapping):
            policy = names.build("routing", cast("Mapping[str, Any]", policy))
        if not callable(getattr(policy, "route", None)):
            raise InputError(self.name, "policy", type(policy).__name__, "an object with a method `route(view)`")
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
    """The contender that a spec, mapping, policy or pair describes. No policy is built, so unknown names pass here.

    Raises:
        InputError: a spec that cannot be parsed, a mapping without ``name``, or options of a predictor that is not named.
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
        policy, predictor = asked
        spec = _named(predictor)
        return Contender(f"{policy!r} with {_shown(spec)}", policy, spec)
    return Contender(repr(asked), asked)


def contenders(asked: Sequence[PolicySpec]) -> list[Contender]:
    """The contenders of all specs, in their order. Each is built once and dropped, so that a bad one fails before any run.

    Raises:
        InputError: no policy, one twice, or see `Contender.build`.
    """
    if not asked:
        raise InputError("compare", "policies", "empty", "at least one policy")
    found = [contender(one) for one in asked]
    check_each_once(one.name for one in found)
    for one in found:
        one.build()
    return found


def check_each_once(names: Iterable[str]) -> None:
    """Refuse a policy that is given twice with an `InputError`, because its rows would hide each other."""
    for name, count in Counter(names).items():
        if count > 1:
            raise InputError("compare", "policy", name, f"each policy once, not {count} times", "Leave the others out.")


def _from_spec(name: str, spec: dict[str, Any]) -> Contender:
    given = spec.pop("predictor", None)
    inside = {k.removeprefix("predictor."): spec.pop(k) for k in [*spec] if k.startswith("predictor.")}
    if given is None:
        if inside:
            raise InputError(name, "predictor", "missing", "a predictor to take these options")
        return Contender(name, spec)
    predictor = {"name": given} if isinstance(given, str) else _named(given)
    return Contender(name, spec, {**predictor, **inside})


def _named(predictor: str | Mapping[str, Any]) -> dict[str, Any]:
    """The spec of a predictor as a mapping with its name."""
    spec: dict[str, Any] = {**names.parse(predictor)} if isinstance(predictor, str) else dict(predictor)
    if "name" not in spec:
        raise InputError("policy", "predictor.name", "missing", "a predictor's name", "Write {'name': 'oracle'}.")
    return spec


def _shown(spec: Mapping[str, Any]) -> str:
    """A mapping as the spec string that means the same."""
    flat: dict[str, Any] = {}
    for key, value in spec.items():
        if isinstance(value, Mapping):
            inner = dict(cast("Mapping[str, Any]", value))
            flat |= {key: inner.pop("name"), **{f"{key}.{k}": v for k, v in inner.items()}}
        elif key != "name":
            flat[key] = value
    return ":".join([str(spec["name"]), ",".join(f"{k}={v}" for k, v in flat.items())]).rstrip(":")
