"""Reads secrets of a config, which are given by a variable, a file, a hash or plain text; draws and keeps the salt."""

from __future__ import annotations

import hashlib
import logging
import os
import re
import secrets
from pathlib import Path

from evenstep.config.messages import is_utf_8
from evenstep.errors import InputError
from evenstep.gateway.config.sections import Decisions

_log = logging.getLogger("evenstep.gateway")
_BYTES = 32  # of a drawn salt
_HASH = "sha256:"
_OF_NOTHING = hashlib.sha256(b"").digest()


def read_secret(text: str, where: str, field: str) -> str:
    """The secret that ``env:NAME`` or ``file:PATH`` refers to, without white space at its ends; any other text unchanged.

    Raises InputError if the variable or file is missing, empty, unreadable or no UTF-8; it names the setting `field` of the
    section `where`.
    """
    kind, colon, name = text.partition(":")
    if colon and kind == "env":
        found = os.environ.get(name, "").strip()
        if not found:
            raise InputError(where, field, text, "a variable that is set")
        if not is_utf_8(found):
            raise InputError(where, field, text, "a variable that is UTF-8 text")
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


def salt_of(decisions: Decisions) -> bytes:
    """The salt, a secret of this installation that keys the hashes of prompts and names.

    It is as configured; else drawn once and kept in a file; else, if no file can be written, drawn for this process. The
    file is ``evenstep/salt`` in ``$XDG_STATE_HOME``, by default ``~/.local/state``. A drawn salt has 32 bytes. Raises
    InputError if a configured secret cannot be read.

    Returns:
        At most 64 bytes, the first of a longer salt; empty with ``plain_keys``, so that all gateways make the same hashes.
    """
    if decisions.plain_keys:
        return b""
    if decisions.salt:
        return read_secret(decisions.salt, "decisions", "salt").encode()[:64]
    try:
        folder = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
        return _kept(Path(folder) / "evenstep" / "salt")
    except (OSError, RuntimeError) as error:  # no home, one that cannot be written, a full disk
        why = getattr(error, "strerror", None) or str(error)
        _log.info("the salt of hashes cannot be kept; it lasts as long as this process", extra={"why": why})
        return secrets.token_bytes(_BYTES)


def _kept(place: Path) -> bytes:
    """Read the salt from a file; if the file is missing or was cut short, draw a salt and store it there first."""
    found = place.read_bytes()[:64] if place.exists() else b""
    if len(found) >= _BYTES:
        return found
    place.parent.mkdir(parents=True, exist_ok=True)
    drawn = secrets.token_bytes(_BYTES)
    fresh = place.with_name(f"salt.{os.getpid()}")
    try:
        with os.fdopen(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.write(drawn)
        fresh.replace(place)
    finally:
        fresh.unlink(missing_ok=True)
    return place.read_bytes()[:64]  # another process may have replaced it since
