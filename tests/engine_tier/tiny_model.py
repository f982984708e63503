"""Tiny language models with a tokenizer, made on the spot: ``python tiny_model.py dense|moe FOLDER``. Runs beside vLLM.

A byte is a token, so a prompt's length is exact. Weights are drawn wide enough that greedy output wanders: a model that
repeats one token would hide lost and doubled ones.
"""

from __future__ import annotations

import sys

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import (
    LlamaConfig,
    LlamaForCausalLM,
    PreTrainedTokenizerFast,
    Qwen3MoeConfig,
    Qwen3MoeForCausalLM,
)

TEMPLATE = (
    "{% for message in messages %}{{ message['role'] }}: {{ message['content'] }}\n{% endfor %}"
    "{% if add_generation_prompt %}assistant: {% endif %}"
)


def tokenizer() -> PreTrainedTokenizerFast:
    """The 256 bytes and three marks, nothing merged."""
    symbols = sorted(pre_tokenizers.ByteLevel.alphabet())
    marks = ["<s>", "</s>", "<pad>"]
    inner = Tokenizer(models.BPE(vocab={text: i for i, text in enumerate(symbols + marks)}, merges=[]))
    inner.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    inner.decoder = decoders.ByteLevel()
    whole = PreTrainedTokenizerFast(tokenizer_object=inner, bos_token=marks[0], eos_token=marks[1], pad_token=marks[2])
    whole.chat_template = TEMPLATE
    return whole


def make(kind: str, folder: str) -> None:
    """Write model and tokenizer."""
    words = tokenizer()
    words.save_pretrained(folder)
    shape = {
        "vocab_size": 512,
        "hidden_size": 64,
        "intermediate_size": 128,
        "num_attention_heads": 2,
        "num_key_value_heads": 2,
        "head_dim": 32,
        "max_position_embeddings": 2048,
        "bos_token_id": words.bos_token_id,
        "eos_token_id": words.eos_token_id,
    }
    torch.manual_seed(0)
    if kind == "moe":
        model = Qwen3MoeForCausalLM(
            Qwen3MoeConfig(**shape, num_hidden_layers=1, num_experts=4, num_experts_per_tok=2, moe_intermediate_size=64)
        )
    else:
        model = LlamaForCausalLM(LlamaConfig(**shape, num_hidden_layers=2))
    for name, weights in model.named_parameters():
        if weights.dim() > 1:
            torch.nn.init.normal_(weights, 0.0, 1.0 if "embed" in name or "lm_head" in name else 0.35)
    model.to(torch.bfloat16).save_pretrained(folder)


if __name__ == "__main__":
    make(*sys.argv[1:])
