"""The salt: a secret of this installation that keys the hashes of prompts and names."""

from __future__ import annotations

import logging
import os
import secrets
from pathlib import Path

from evenstep.gateway.config.secrets import read_secret
from evenstep.gateway.config.sections import Decisions

_log = logging.getLogger("evenstep.gateway")
_BYTES = 32


def salt_of(decisions: Decisions) -> bytes:
    """The salt: as configured; else drawn once and kept in a file; else, if no file can be written, drawn for this process.

    The file is ``evenstep/salt`` in ``$XDG_STATE_HOME``, by default ``~/.local/state``. A drawn salt has 32 bytes. Raises
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
