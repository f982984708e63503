"""How many tokens a prompt has before an engine has told: from its size, by what earlier prompts of the model had."""

from __future__ import annotations

from array import array
from collections import OrderedDict

from evenstep.engines.prompt_size_kernel import BYTES, KEEP, PRIOR, RATE, TOKENS

#: Bytes of a token where nothing is known yet, as English text has with common tokenizers.
PRIOR_BYTES_PER_TOKEN = 4.0
#: The prior counts as much as a prompt of so many tokens.
_PRIOR_TOKENS = 200.0


class PromptSizes:
    """Bytes per token of each model, learned from what engines report; old prompts count less and less.

    Args:
        keep: share of the past that stays with every prompt, in (0, 1).
        models: so many are remembered; those used longest ago go first.
        prior: bytes per token of a model nothing is known of; 1 where sizes are counted by a `TokenizerFile`.
    """

    def __init__(self, keep: float = 0.99, models: int = 1024, prior: float = PRIOR_BYTES_PER_TOKEN) -> None:
        self._models, self._unknown = models, array("d", (0.0, 0.0, prior, keep, prior, _PRIOR_TOKENS))
        self._numbers: OrderedDict[str, array[float]] = OrderedDict()  # by model

    def bytes_per_token(self, model: str) -> float:
        """Bytes of one token of this model's prompts."""
        return self._numbers.get(model, self._unknown)[RATE]

    def estimate(self, model: str, prompt_bytes: int) -> int:
        """Tokens of a prompt of so many bytes, at least 1."""
        return round(prompt_bytes / self._numbers.get(model, self._unknown)[RATE]) or 1

    def learn(self, model: str, prompt_bytes: int, prompt_tokens: int) -> None:
        """An engine has told the tokens of a prompt."""
        if prompt_bytes <= 0 or prompt_tokens <= 0:
            return
        found = self.numbers(model)
        keep, prior = found[KEEP], found[PRIOR]
        found[BYTES] = total = keep * found[BYTES] + prompt_bytes
        found[TOKENS] = tokens = keep * found[TOKENS] + prompt_tokens
        found[RATE] = (total + prior * _PRIOR_TOKENS) / (tokens + _PRIOR_TOKENS)

    def numbers(self, model: str) -> array[float]:
        """What is known of a model, as `prompt_size_kernel` reads and writes it, until others take its place."""
        numbers = self._numbers
        found = numbers.get(model)
        if found is None:
            found = numbers[model] = array("d", self._unknown)
            if len(numbers) > self._models:
                numbers.popitem(last=False)
        elif len(numbers) > 1:
            numbers.move_to_end(model)
        return found
