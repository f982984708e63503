"""Reads secrets of a config, which are given by a variable, a file, a hash or plain text."""

from __future__ import annotations

import hashlib
import os
import re
from pathlib import Path

from evenstep.errors import InputError

_HASH = "sha256:"
_OF_NOTHING = hashlib.sha256(b"").digest()


def read_secret(text: str, where: str, field: str) -> str:
    """The secret that ``env:NAME`` or ``file:PATH`` refers to, without white space at its ends; any other text unchanged.

    Raises InputError if the variable or file is missing or empty; it names the setting `field` of the section `where`.
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
    """SHA-256 (32 bytes) of a key that clients must send, without white space at its ends.

    `text` is ``sha256:`` and 64 hexadecimal digits (the hash of the key), env:NAME, file:PATH or the key itself. Raises
    InputError for an unreadable or empty key, the hash of an empty key, or an invalid hash.
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
    """The text to show in place of a secret: ``env:NAME``, ``file:PATH`` and empty text unchanged, else ``(hidden)``."""
    return text if not text or text.startswith(("env:", "file:")) else "(hidden)"
