# pyright: basic
"""The compiled twin of `answers.read_answer`, for answers that say what most do; whatever else is there is left to that."""

from __future__ import annotations

import numpy as np

from evenstep.compiled import jit
from evenstep.engines.json_kernel import end_of_value, same, spaces, value_of

_QUOTE, _BACKSLASH, _COMMA = 34, 92, 44
_MOST_TOKENS = 1 << 24  # as `chunks.Tokens`
_OPEN, _CLOSE, _OPEN_LIST, _CLOSE_LIST = 123, 125, 91, 93
_MEMBERS = b'"choices"', b'"usage"', b'"error"', b'"finish_reason"', b'"stop_reason"'
_CHOICES, _USAGE, _ERROR, _FINISH, _STOP = (np.frombuffer(name, np.uint8) for name in _MEMBERS)
_COUNTS = (
    b'"prompt_tokens"',
    b'"completion_tokens"',
    b'"prompt_tokens_details"',
    b'{"cached_tokens":',
    b"null",
)
_PROMPT, _COMPLETION, _DETAILS, _CACHED, _NULL = (np.frombuffer(name, np.uint8) for name in _COUNTS)
#: Reasons that are the end of an answer.
_ENDS = b'"stop"', b'"length"', b'"tool_calls"'
_BY_STOP, _BY_LENGTH, _BY_TOOLS = (np.frombuffer(reason, np.uint8) for reason in _ENDS)


@jit
def _next_member(data, at, stop, is_first):
    """The key of the next member of an object, from its opening brace or from behind the member before.

    Returns:
        Its place, -1 = there is none, else the place behind the closing brace; whether the object is over.
    """
    if at < 0 or at >= stop or (is_first and data[at] != _OPEN):
        return -1, True
    at = spaces(data, at + 1 if is_first else at, stop)
    if at < stop and data[at] == _CLOSE:
        return at + 1, True
    if is_first:
        return at, False
    if at >= stop or data[at] != _COMMA:
        return -1, True
    return spaces(data, at + 1, stop), False


@jit
def _tokens(data, at, stop):
    """A number of tokens, and where it ends; -1 where there is none."""
    begin, found = at, 0
    while at < stop and 48 <= data[at] <= 57 and at - begin < 8:
        found = 10 * found + np.int64(data[at]) - 48
        at += 1
    if at == begin or (data[begin] == 48 and at > begin + 1) or (at < stop and 46 <= data[at] <= 57):
        return -1, -1
    if found > _MOST_TOKENS:
        return -1, -1
    return found, at


@jit
def _is_escaped(data, at, stop):
    """Whether a key is written with escapes: it may be any then."""
    for i in range(at, stop):  # noqa: SIM110  # it is compiled
        if data[i] == _BACKSLASH:
            return True
    return False


@jit
def _read_choice(data, at, stop):
    """Behind a choice that ended as it should; -1 where it did not, or nobody knows."""
    ends, is_first = 0, True
    while True:
        at, is_over = _next_member(data, at, stop, is_first)
        is_first = False
        if is_over:
            return at if ends == 1 else -1
        value = value_of(data, at, stop)
        if value < 0 or _is_escaped(data, at, value):
            return -1
        end = end_of_value(data, value, stop)
        if same(data, at, value, _FINISH):
            ends += 1
            if not (
                same(data, value, end, _BY_STOP)
                or same(data, value, end, _BY_LENGTH)
                or same(data, value, end, _BY_TOOLS)
            ):
                return -1
        elif same(data, at, value, _STOP) and not (
            same(data, value, end, _NULL) or _tokens(data, value, end)[1] == end
        ):
            return -1
        if end < 0:
            return -1
        at = end


@jit
def _read_choices(data, at, stop):
    """Behind a list of choices, one at least, that all ended as they should; else -1."""
    if at >= stop or data[at] != _OPEN_LIST:
        return -1
    while True:
        at = _read_choice(data, spaces(data, at + 1, stop), stop)
        if at < 0:
            return -1
        at = spaces(data, at, stop)
        if at < stop and data[at] == _CLOSE_LIST:
            return at + 1
        if at >= stop or data[at] != _COMMA:
            return -1


@jit
def _is_details(data, at, end):
    """Whether these are details of a prompt that say nothing, or how much of it was cached."""
    if same(data, at, end, _NULL):
        return True
    if not same(data, at, end, _CACHED):
        return False
    at += _CACHED.size
    at = at + 4 if same(data, at, end, _NULL) else _tokens(data, at, end)[1]
    return at == end - 1


@jit
def _read_usage(data, at, stop):
    """Tokens of prompt and output, and where the usage ends; -1 where it does not tell them, or nobody knows."""
    prompt = output = -1
    told, is_first = 0, True
    while True:
        at, is_over = _next_member(data, at, stop, is_first)
        is_first = False
        if is_over:
            return prompt, output, at
        value = value_of(data, at, stop)
        end = end_of_value(data, value, stop) if value >= 0 else -1
        if end < 0 or _is_escaped(data, at, value):
            return -1, -1, -1
        is_prompt, is_output = same(data, at, value, _PROMPT), same(data, at, value, _COMPLETION)
        if is_prompt or is_output:
            tokens, behind = _tokens(data, value, end)
            if behind != end or (prompt if is_prompt else output) >= 0:
                return -1, -1, -1
            if is_prompt:
                prompt = tokens
            else:
                output = tokens
        elif same(data, at, value, _DETAILS):
            told += 1
            if told > 1 or not _is_details(data, value, end):
                return -1, -1, -1
        at = end


@jit
def read_whole(data, at, stop):
    """Tokens of prompt and output of a whole answer; -1 where it is for `read_answer` to judge.

    Args:
        data: uint8[...], with the answer from `at` to `stop`.
    """
    prompt = output = -1
    choices, usages, is_first = 0, 0, True
    while True:
        at, is_over = _next_member(data, at, stop, is_first)
        is_first = False
        if is_over:
            is_told = at == stop and choices == 1 and usages == 1
            return (prompt, output) if is_told else (-1, -1)
        value = value_of(data, at, stop)
        if value < 0 or _is_escaped(data, at, value) or same(data, at, value, _ERROR):
            return -1, -1
        if same(data, at, value, _CHOICES):
            choices += 1
            at = _read_choices(data, value, stop)
        elif same(data, at, value, _USAGE):
            usages += 1
            prompt, output, at = _read_usage(data, value, stop)
        else:
            at = end_of_value(data, value, stop)
