"""The whole state of a dispatcher as bytes, so that a replay can begin where a part of a decision log begins.

The bytes are a compressed pickle (a hundredth of its size: most columns are empty). The state leaves out what belongs to a
host and what can be made anew from the rest. The reader accepts only names of a dispatcher's own classes, of predictors, of
NumPy's arrays, plain containers and what rebuilds them. So a log from elsewhere cannot run code.
"""

from __future__ import annotations

import io
import pickle
import zlib
from typing import Any

from evenstep.dispatch.parts import Parts
from evenstep.errors import InputError

_PREDICTORS = "evenstep.predict."
_QUICK = 1  #: level of zlib
_LAYOUT = 13  #: version of the state; raise it whenever a dispatcher cannot resume an earlier state
_MODULES = {
    f"evenstep.dispatch.{folder}{name}"
    for folder, names in (
        ("", "columns commands parts settings timers turn"),
        ("fleet.", "breaker fleet mirror prefill prefix_belief prefixes"),
        ("steps.", "groups state"),
        ("requests.", "deadlines exclusions pool prefill_queue rows tasks tenants"),
        ("rounds.", "barriers deciding fallback policy_call projecting projections rounds slots"),
        ("log.", "histogram journal meters"),
    )
    for name in names.split()
} | {"evenstep.routing.prefix_index"}
_NAMES = {
    (module, name)
    for module, names in (
        ("array", "array _array_reconstructor"),
        ("builtins", "dict float frozenset int list set tuple"),
        ("collections", "Counter OrderedDict deque"),
        ("msgspec._utils", "rebuild"),
        ("numpy", "dtype ndarray"),
        *((f"numpy.{core}.multiarray", "_reconstruct scalar") for core in ("core", "_core")),
        *((f"numpy.{core}.numeric", "_frombuffer") for core in ("core", "_core")),
        ("types", "GenericAlias"),
    )
    for name in names.split()
}


def dump(parts: Parts) -> bytes:
    """The state of a dispatcher between two events, as bytes for `load`.

    Empty if its predictor is not one of evenstep's own, or if the state cannot be pickled.
    """
    predictor = parts.deciding.predictor
    if predictor is not None and not type(predictor).__module__.startswith(_PREDICTORS):
        return b""
    try:
        return zlib.compress(pickle.dumps((_LAYOUT, parts), protocol=5), _QUICK)
    except (TypeError, AttributeError, pickle.PicklingError):
        return b""


def load(state: bytes) -> Parts:
    """Rebuild the parts of a dispatcher from the bytes of `dump`.

    Raises:
        InputError: bytes that are no state of a dispatcher, that name what a state may not contain, or that
            another version of the layout wrote.
    """
    try:
        whole = state if state.startswith(pickle.PROTO) else zlib.decompress(state)  # earlier logs: not compressed
        loaded = _Reader(io.BytesIO(whole)).load()
        layout, found = loaded if isinstance(loaded, tuple) else (1, loaded)
        if layout != _LAYOUT:
            hint = "Another version of evenstep wrote it; begin with part 0."
            raise InputError("decision log", "checkpoint", f"of layout {layout}", f"layout {_LAYOUT}", hint)
        if not isinstance(found, Parts):
            raise InputError("decision log", "checkpoint", type(found).__name__, "a dispatcher's state")
    except InputError:
        raise
    except Exception as error:  # a damaged pickle may raise any error
        raise InputError("decision log", "checkpoint", f"{type(error).__name__}: {error}", "a dispatcher's state") from None
    return found


class _Reader(pickle.Unpickler):
    """A pickle reader that accepts only the names in `_NAMES`, and classes of `_MODULES` and of predictors."""

    def find_class(self, module: str, name: str) -> Any:
        """The class or function of this name. Raises InputError if a state may not contain it."""
        if (module, name) in _NAMES:
            return super().find_class(module, name)
        if module in _MODULES or module.startswith(_PREDICTORS):
            found = super().find_class(module, name)
            if isinstance(found, type) and found.__module__ == module:
                return found
        raise InputError("decision log", "checkpoint", f"{module}.{name}", "the state of a dispatcher")
