"""Settings in layers, such as a YAML file below the command line; the origin of each value is kept."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from evenstep.config.convert import of_text, refuse_too_large, refuse_unknown
from evenstep.config.fields import types_of
from evenstep.config.messages import choices, expectation, unless_secret
from evenstep.config.number import integers
from evenstep.config.yaml_file import Document
from evenstep.errors import MOST, InputError, meant

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Layer:
    """Values from one place; later layers win.

    Args:
        origin: where they come from, as a person would say it: ``compare.yaml``, ``command line``.
        values: field name -> value; a field that is left out leaves the layers below in force.
        text: True if values are text (flags), to be converted to the type of their field; False = of that type (YAML).
    """

    origin: str
    values: Mapping[str, Any]
    text: bool = False


@dataclass(frozen=True, slots=True)
class Settled(Generic[T]):
    """Settings after all layers were merged (`settle`).

    Args:
        value: the dataclass with the merged values.
        origin: field name -> origin of the last layer that set it; ``default`` for a field that no layer set.
    """

    value: T
    origin: dict[str, str]

    def refusal(self, name: str, expected: str, hint: str = "") -> InputError:
        """Return, not raise, the error for the setting `name`; `expected` and `hint` are as in `InputError`.

        It shows the origin, the value, and the name as its origin writes it: ``--max-tokens`` on the command line.
        """
        origin = self.origin[name]
        shown = "--" + name.replace("_", "-") if origin == "command line" else name
        return InputError(origin, shown, getattr(self.value, name), expected, hint)

    def check_numbers(self, at_least: Mapping[str, float], above_zero: Sequence[str] = ()) -> None:
        """Check that numeric settings are in range, and skip those that are None.

        Args:
            at_least: setting -> least allowed value. An integer may be `MOST` at most, a float must be finite. Names without
                such a setting, and settings that are not numbers, are skipped.
            above_zero: settings that have to be finite and > 0; each must exist and be a number or None.

        Raises:
            InputError: the first number out of range (see `refusal`).
        """
        for name, low in at_least.items():
            number = getattr(self.value, name, None)
            if isinstance(number, int) and not low <= number <= MOST:
                raise self.refusal(name, integers(low, number))
            if isinstance(number, float) and not low <= number < math.inf:
                raise self.refusal(name, f"a finite number >= {low}")
        for name in above_zero:
            number = getattr(self.value, name)
            if number is not None and not 0 < number < math.inf:
                raise self.refusal(name, "a finite number > 0")


def settle(kind: type[T], *layers: Layer) -> Settled[T]:
    """Merge layers of settings, convert each value to its field's type, and remember which layer set it.

    Args:
        kind: the dataclass. Its defaults are the lowest layer; some layer must set each field without a default.
        layers: the lowest first. A later one wins for each field that it sets; a nested value is replaced as a whole.

    Raises:
        InputError: an unknown key, or a value that does not fit; it names the layer's origin.
        TypeError: no layer sets a field without a default.
    """
    merged: dict[str, Any] = {}
    origin = dict.fromkeys(types_of(kind), "default")
    for layer in layers:
        refuse_unknown("", layer.values, kind, Document(layer.origin))
        for name, value in layer.values.items():
            merged[name] = _one(kind, name, value, layer)
            origin[name] = layer.origin
    return Settled(kind(**merged), origin)


def _one(kind: Any, name: str, value: Any, layer: Layer) -> Any:
    """Convert a value to the type of the field `name` of `kind`; an `InputError` names the origin of `layer`."""
    import msgspec

    hint, flag = types_of(kind)[name], "--" + name.replace("_", "-") if layer.text else ""
    try:
        made = of_text(value, hint) if layer.text else msgspec.convert(value, hint)
    except msgspec.ValidationError as error:
        expected, question = expectation(str(error), hint), meant(str(value), choices(hint))
        raise InputError(layer.origin, flag or name, unless_secret(name, value), expected, question) from None
    refuse_too_large(name, made, hint, Document(layer.origin), flag)
    return made
