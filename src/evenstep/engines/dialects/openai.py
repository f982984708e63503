"""Any engine that has OpenAI's two endpoints and nothing more, such as ``transformers serve``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from evenstep.engines.view import Dialect, EngineSample


@dataclass(frozen=True, slots=True)
class OpenAI:
    """An engine that may report neither usage nor ids in its chunks; its tokens are then estimated.

    Args:
        finish_reasons: it gives every choice a finish_reason; else ``[DONE]`` alone ends a stream.
    """

    health_path: ClassVar[str] = "/v1/models"  #: every such server has it
    metrics_path: ClassVar[str] = ""
    rank_header: ClassVar[str] = ""

    finish_reasons: bool = True

    @property
    def dialect(self) -> Dialect:
        """The dialect: the engine is asked for no counts or ids, unless the client asks; else tokens are estimated."""
        return Dialect(counts=False, finish_reasons=self.finish_reasons)

    def samples(self, page: bytes) -> tuple[EngineSample, ...]:
        """Return an empty tuple, because the server has no metrics page."""
        return ()


#: The object that `names.find` returns for this file.
adapter = OpenAI
