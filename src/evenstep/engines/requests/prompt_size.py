"""Estimates the tokens of a prompt from its size and the model's earlier prompts, before an engine reports them."""

from __future__ import annotations

from collections import OrderedDict

#: Bytes of a token of an unknown model; English text has about as many with common tokenizers.
PRIOR_BYTES_PER_TOKEN = 4.0
#: Weight of the prior, as tokens of a prompt.
_PRIOR_TOKENS = 200.0
#: Factor for the weight of earlier prompts at each new prompt.
_KEEP = 0.99
#: Most models remembered; the one that learned longest ago is dropped first.
MODELS = 1024


class PromptSizes:
    """Estimates bytes per token of each model's prompts from the counts that engines report.

    Each new prompt lowers the weight of the model's earlier prompts by 1 %, and the prior weighs 200 tokens. The 1024 models
    that learned last are kept.

    Args:
        prior: bytes per token of an unknown model; 1 if sizes are tokens of a `TokenizerFile`, not bytes.
    """

    def __init__(self, prior: float = PRIOR_BYTES_PER_TOKEN) -> None:
        self._prior = prior
        self._known: OrderedDict[str, tuple[float, float, float]] = OrderedDict()  # bytes, tokens, their ratio

    def bytes_per_token(self, model: str) -> float:
        """Mean bytes of one token of this model's prompts and the prior; the prior for a model without a prompt so far."""
        found = self._known.get(model)
        return self._prior if found is None else found[2]

    def estimate(self, model: str, prompt_bytes: int) -> int:
        """Estimated tokens of a prompt of `prompt_bytes` bytes: bytes over bytes per token, rounded, at least 1."""
        return round(prompt_bytes / self.bytes_per_token(model)) or 1

    def learn(self, model: str, prompt_bytes: int, prompt_tokens: int) -> None:
        """Learn from the size of a prompt and the tokens that an engine reported; ignored if one of them is 0 or less."""
        if prompt_bytes <= 0 or prompt_tokens <= 0:
            return
        known = self._known
        past_bytes, past_tokens, _ = known.get(model, (0.0, 0.0, 0.0))
        total, tokens = _KEEP * past_bytes + prompt_bytes, _KEEP * past_tokens + prompt_tokens
        known[model] = total, tokens, (total + self._prior * _PRIOR_TOKENS) / (tokens + _PRIOR_TOKENS)
        if len(known) > 1:
            known.move_to_end(model)
            if len(known) > MODELS:
                known.popitem(last=False)
