"""The fields of a log record: ``log.info("worker joined", extra=fields(worker="a"))``."""

from __future__ import annotations

from typing import Any


def fields(**values: Any) -> dict[str, Any]:
    """The ``extra`` of a logging call, ``{"fields": values}``: fields a program can read without parsing sentences."""
    return {"fields": values}
