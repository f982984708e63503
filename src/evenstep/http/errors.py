"""The violation of a rule of HTTP."""

from __future__ import annotations


class HttpError(Exception):
    """A peer broke a rule of HTTP.

    Args:
        message: the reason, as a sentence.
        status: the HTTP status for a client that broke the rule.
        code: a word for programs; empty = the message says it all.
    """

    def __init__(self, message: str, status: int = 400, code: str = "") -> None:
        super().__init__(message)
        self.message, self.status, self.code = message, status, code


def head_too_large(limit: int) -> HttpError:
    """The error for a head over its limit (RFC 6585 section 5)."""
    return HttpError(f"The request's headers are larger than {limit} bytes.", 431, "headers_too_large")


def body_too_large(limit: int) -> HttpError:
    """The error for a body over its limit (RFC 9110 section 15.5.14)."""
    return HttpError(f"The request body is larger than {limit} bytes.", 413, "request_too_large")
