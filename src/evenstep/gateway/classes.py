"""Whether the requests of each class keep to its targets."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from evenstep.gateway.ended import Ended
from evenstep.gateway.sections import RequestClass


class Attainment:
    """Counts requests that kept to the targets of their class, and requests that did not.

    A request that ended with an error kept to nothing; one that its client left, or that has no class, is not counted.
    A target on further tokens holds for requests that have some.

    Args:
        classes: name -> class, in the order of their numbers.
    """

    def __init__(self, classes: Mapping[str, RequestClass]) -> None:
        self._classes = list(classes.items())
        self.counted: Counter[tuple[str, bool]] = Counter()

    def reload(self, classes: Mapping[str, RequestClass]) -> None:
        """Other targets from now on."""
        self._classes = list(classes.items())

    def ended(self, one: Ended) -> None:
        """A request is over."""
        if not 0 < one.request_class <= len(self._classes) or one.outcome == "cancelled":
            return
        name, kind = self._classes[one.request_class - 1]
        self.counted[name, one.outcome == "complete" and _met(kind, one)] += 1

    def weights(self) -> dict[str, float]:
        """Class -> its weight."""
        return {name: kind.weight for name, kind in self._classes}

    def shares(self) -> dict[str, float]:
        """Class -> share of its requests that kept to its targets; classes without requests are left out."""
        found: dict[str, float] = {}
        for name, _ in self._classes:
            met, missed = self.counted[name, True], self.counted[name, False]
            if met + missed:
                found[name] = met / (met + missed)
        return found

    def weighted_share(self) -> float:
        """Share over all classes, each request by its class's weight; 1 where there were none."""
        weights = self.weights()
        total = sum(weights.get(name, 0.0) * count for (name, _), count in self.counted.items())
        met = sum(weights.get(name, 0.0) * count for (name, met), count in self.counted.items() if met)
        return met / total if total else 1.0


def _met(kind: RequestClass, one: Ended) -> bool:
    late_to_start = kind.ttft_s > 0 and not one.ttft_s <= kind.ttft_s
    slow_to_go_on = kind.tpot_s > 0 and one.tpot_s > kind.tpot_s
    return not (late_to_start or slow_to_go_on)
