"""Exact prompt token counts from a tokenizer file, in place of estimates (``evenstep[tokenizers]``)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from evenstep.engines.requests.parsing import GenerationRequest
from evenstep.errors import InputError
from evenstep.wording import install_extra


class TokenizerFile:
    """Counts the tokens of prompts by a model's ``tokenizer.json``.

    Raises:
        InputError: no such file, no tokenizer in it, or the package ``tokenizers`` is not installed.
    """

    def __init__(self, path: Path) -> None:
        try:
            from tokenizers import Tokenizer  # pyright: ignore  # an extra, not there in every installation
        except ImportError:
            hint = install_extra("tokenizers")
            raise InputError("tokenizer", "package", "tokenizers", "an installed package", hint) from None
        if not path.is_file():
            raise InputError("tokenizer", "file", str(path), "an existing tokenizer.json")
        try:
            self._tokenizer: Any = Tokenizer.from_file(str(path))
        except Exception as error:  # the package raises a bare Exception
            raise InputError("tokenizer", "file", str(path), "a tokenizer.json", f"{error}.") from None
        self._tokenizer.no_truncation()  # engines do neither, even where the file says so
        self._tokenizer.no_padding()

    def count(self, request: GenerationRequest) -> int:
        """Tokens of all prompts of a request together.

        A completion is counted exactly, with special tokens; prompts of ids by their number. Of a chat only the texts of its
        messages count, without special tokens and template; `prompt_size.PromptSizes` with ``prior=1`` learns what these
        add. A prompt that cannot be read, or has a word that the tokenizer lacks, counts a token for four bytes.
        """
        if request.prompt_tokens >= 0:
            return request.prompt_tokens
        try:
            prompt = msgspec.json.decode(request.prompt)
        except (msgspec.MsgspecError, RecursionError):  # a number like 1e999, or nested too deep
            return request.prompt_bytes // 4
        texts = _texts(prompt) if request.chat else [prompt] if isinstance(prompt, str) else prompt
        try:
            return sum(len(self._tokenizer.encode(text, add_special_tokens=not request.chat).ids) for text in texts)
        except Exception:  # the package's: the vocabulary lacks a word, and a token for unknown ones
            return request.prompt_bytes // 4


def _texts(messages: Any) -> list[str]:
    """Every text in the ``content`` of a chat's messages; pictures and sounds have no text."""
    found: list[Any] = []
    for message in messages:
        content: Any = message.get("content") if isinstance(message, dict) else None
        parts: list[Any] = content if isinstance(content, list) else [{"text": content}]
        found += [part.get("text") for part in parts if isinstance(part, dict)]
    return [text for text in found if isinstance(text, str)]
