"""The secret of this installation, under which prompts and names are hashed."""

from __future__ import annotations

import os
import secrets
from pathlib import Path

from evenstep.gateway.secrets import read_secret
from evenstep.gateway.sections import Decisions

_BYTES = 32


def salt_of(decisions: Decisions) -> bytes:
    """The salt: as configured, else drawn once and kept in the user's state folder, else of this process.

    Returns:
        At most 64 bytes; empty where hashes are to be the same everywhere.

    Raises:
        InputError: a secret that cannot be read.
    """
    if decisions.plain_keys:
        return b""
    if decisions.salt:
        return read_secret(decisions.salt, "decisions", "salt").encode()[:64]
    place = Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state") / "evenstep" / "salt"
    try:
        if place.exists():
            return place.read_bytes()[:64]
        place.parent.mkdir(parents=True, exist_ok=True)
        drawn = secrets.token_bytes(_BYTES)
        with os.fdopen(os.open(place, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.write(drawn)
    except OSError:  # a home that cannot be written: hashes last as long as the process
        drawn = secrets.token_bytes(_BYTES)
    return drawn
