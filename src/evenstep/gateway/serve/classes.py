"""Counts for each class how many requests met its targets."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from evenstep.gateway.config.sections import RequestClass
from evenstep.gateway.serve.ended import Ended


class Attainment:
    """Counts of requests that met the targets of their class, and of requests that did not; `classes`: name -> class.

    A request that was refused or ended with an error missed its targets. A request is not counted if its client left, if it
    has no class, or if it was refused before it reached a pool. The target on further tokens applies only to requests with
    more than one token.

    Attributes:
        counted: number of requests by (class name, whether they met its targets).
    """

    def __init__(self, classes: Mapping[str, RequestClass]) -> None:
        self._classes = classes
        self.counted: Counter[tuple[str, bool]] = Counter()

    def reload(self, classes: Mapping[str, RequestClass]) -> None:
        """Use other classes and targets from now on. Counts are kept by class name."""
        self._classes = classes

    def ended(self, one: Ended) -> None:
        """Count a request that ended, by the targets of its class in force now. It serves as a `Sink`.

        The class is looked up by its name, because a reload may have given its number to another one.
        """
        kind = self._classes.get(one.class_name)
        if kind is None or one.outcome == "cancelled":
            return
        self.counted[one.class_name, one.outcome == "complete" and _met(kind, one)] += 1

    def weights(self) -> dict[str, float]:
        """The weight of each class in the config now in force, by its name, also of those without a counted request."""
        return {name: kind.weight for name, kind in self._classes.items()}

    def counts(self) -> list[dict[str, object]]:
        """For each class in force two entries: ``class``, ``met`` ("true", then "false") and ``value``, a request count."""
        return [
            {"class": name, "met": "true" if met else "false", "value": self.counted[name, met]}
            for name in self._classes
            for met in (True, False)
        ]


def _met(kind: RequestClass, one: Ended) -> bool:
    """Whether a complete request kept to both targets of its class. A target of 0 is always met."""
    late_to_start = kind.ttft_s > 0 and not one.ttft_s <= kind.ttft_s
    slow_to_go_on = kind.tpot_s > 0 and one.tpot_s > kind.tpot_s
    return not (late_to_start or slow_to_go_on)
