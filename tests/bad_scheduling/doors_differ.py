"""Its number is larger than a word: plain Python counts on, and the compiled text begins anew at 0."""

from __future__ import annotations

from dataclasses import dataclass

from evenstep.scheduling.batch import Batch
from evenstep.scheduling.policies.sarathi import decodes_first
from evenstep.scheduling.rules import Ruled, RuleView, rule


@dataclass(frozen=True, slots=True)
class DoorsDiffer(Ruled):
    pass


@rule
def form_batch(view: RuleView, options: DoorsDiffer, batch: Batch) -> None:
    requests = view.waiting.size + view.running.size
    if requests * 4611686018427387904 * 4 > 0:
        decodes_first(view, batch)


policy = DoorsDiffer
