"""The error for a rule of HTTP, or a limit, that a peer broke."""

from __future__ import annotations


class HttpError(Exception):
    """A peer broke a rule of HTTP, or exceeded a limit.

    Args:
        message: the reason, as a sentence.
        status: the HTTP status for a client that broke the rule; without meaning if a server did.
        code: a word for programs; empty = the message says it all.
    """

    def __init__(self, message: str, status: int = 400, code: str = "") -> None:
        super().__init__(message)
        self.message, self.status, self.code = message, status, code


def head_too_large(limit: int) -> HttpError:
    """The error, with status 431, for a head of more than `limit` bytes (RFC 6585 section 5)."""
    return HttpError(f"The request's headers are larger than {limit} bytes.", 431, "headers_too_large")


def body_too_large(limit: int) -> HttpError:
    """The error, with status 413, for a body of more than `limit` bytes (RFC 9110 section 15.5.14)."""
    return HttpError(f"The request body is larger than {limit} bytes.", 413, "request_too_large")
