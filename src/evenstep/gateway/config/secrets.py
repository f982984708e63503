"""Secrets of a config: from a variable, from a file, as a hash, or written out."""

from __future__ import annotations

import hashlib
import os
import re
from pathlib import Path

from evenstep.errors import InputError

_HASH = "sha256:"
_OF_NOTHING = hashlib.sha256(b"").digest()


def read_secret(text: str, where: str, field: str) -> str:
    """The secret that ``env:NAME`` or ``file:PATH`` refers to, stripped of white space at its ends; other text as it is.

    Args:
        where, field: section and setting that an error names.

    Raises:
        InputError: no such variable or file, or nothing in it.
    """
    kind, colon, name = text.partition(":")
    if colon and kind == "env":
        found = os.environ.get(name, "").strip()
        if not found:
            raise InputError(where, field, text, "a variable that is set")
        return found
    if colon and kind == "file":
        try:
            found = Path(name).read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError) as error:
            said = error.strerror if isinstance(error, OSError) else "not UTF-8 text"
            raise InputError(where, field, text, "a readable file", f"{said}.") from None
        if not found:
            raise InputError(where, field, text, "a file that is not empty")
        return found
    return text


def digest_of(text: str, where: str, field: str) -> bytes:
    """SHA-256 of a key that clients must send, 32 bytes; `text` is ``sha256:HEX`` of the key, or as `read_secret` takes it.

    White space at the ends of a key does not count, as in what clients send.

    Raises:
        InputError: see `read_secret`; an empty key, or its hash; or not 64 hexadecimal digits after ``sha256:``.
    """
    if text.startswith(_HASH):
        digits = text.removeprefix(_HASH)
        if not re.fullmatch(r"[0-9a-fA-F]{64}", digits):
            raise InputError(where, field, "sha256:...", "64 hexadecimal digits after sha256:")
        digest = bytes.fromhex(digits)
    else:
        digest = hashlib.sha256(read_secret(text, where, field).strip().encode()).digest()
    if digest == _OF_NOTHING:
        raise InputError(where, field, text.strip(), "a key that is not empty")
    return digest


def covered(text: str) -> str:
    """What may be shown of a secret's setting: ``env:NAME``, ``file:PATH`` and empty text as they are, else ``(hidden)``."""
    return text if not text or text.startswith(("env:", "file:")) else "(hidden)"
