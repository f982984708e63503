"""A scheduler whose steps last as in the papers: a fixed part and a part for every resident KV token.

The tiny model's own step hardly depends on its load. ``ENGINE_LAB_LAW`` holds both parts, seconds: ``0.005,0.00002``.
"""

from __future__ import annotations

import os
import time
from typing import Any

from vllm.v1.core.sched.scheduler import Scheduler


class StepLaw(Scheduler):
    """vLLM's scheduler, and a sleep before each step that does something."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        fixed, per_token = os.environ["ENGINE_LAB_LAW"].split(",")
        self.fixed_s, self.per_token_s = float(fixed), float(per_token)

    def schedule(self, *args: Any, **options: Any) -> Any:
        output = super().schedule(*args, **options)
        if output.total_num_scheduled_tokens:
            resident = sum(request.num_computed_tokens for request in self.running)
            time.sleep(self.fixed_s + self.per_token_s * resident)
        return output
