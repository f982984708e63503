"""The settings of `evenstep load`: fields are flags and keys of a YAML file."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Literal
from urllib.parse import urlsplit

from evenstep.config import Settled
from evenstep.errors import InputError, nearest
from evenstep.sockets import in_url

#: Names that goodput knows.
OBJECTIVES = ("ttft", "tpot", "e2el")


@dataclass(frozen=True, slots=True)
class LoadSettings:
    """A load on an OpenAI endpoint.

    Args:
        source: a trace file, a workload YAML or sample:azure-conv.
        url: where the server is, e.g. http://127.0.0.1:8000; its /v1 may be left out.
        model: name of the served model; the first of /v1/models when left out.
        endpoint: completions or chat.
        open: requests start at the trace's times, however many are still running; the default without --closed.
        closed: users at a time, each with the next session (or request) of the trace; 0 = open.
        rate: open: Poisson arrivals at this many requests a second in place of the trace's times.
        speed: how many times faster than the trace its times and thinking times pass.
        limit: use only the first rows of the trace, or draw only so many requests.
        seed: key of prompts, of Poisson arrivals and of a workload's draws.
        prompts: text (common short words, one token each in most vocabularies) or ids (exact with any; completions only).
        dialect: vllm (ignore_eos gives answers the trace's lengths, and every chunk has the usage; SGLang supports both) or
            openai (requests neither).
        token_ids: request token ids as well, and compare their number with the usage; vLLM supports this.
        timeout_s: seconds from sending a request to the end of its answer.
        goodput: objectives that a good request meets, in milliseconds, e.g. ttft:500,tpot:50; also e2el.
        api_key: sent as bearer token; taken from OPENAI_API_KEY when left out.
        format_name: format of the trace file where it is not recognised, with options, e.g. mooncake:ticks=keep.
        skip_bad_rows: leave out rows that cannot be read, and say how many.
    """

    source: str = ""
    url: str = ""
    model: str | None = None
    endpoint: Literal["completions", "chat"] = "completions"
    open: bool = False
    closed: int = 0
    rate: float | None = None
    speed: float = 1.0
    limit: int | None = None
    seed: int = 0
    prompts: Literal["text", "ids"] = "text"
    dialect: Literal["vllm", "openai"] = "vllm"
    token_ids: bool = False
    timeout_s: float = 600.0
    goodput: str | None = field(default=None, metadata={"shape": "NAME:MS[,NAME:MS]"})
    api_key: str | None = None
    format_name: str | None = None
    skip_bad_rows: bool = False

    @property
    def chat(self) -> bool:
        """Whether requests go to the chat endpoint."""
        return self.endpoint == "chat"

    def objectives(self) -> dict[str, float]:
        """Goodput's objectives by name (ttft, tpot, e2el), the most milliseconds of each; empty without any.

        Raises:
            InputError: an unknown name, a duplicate name, or a number of milliseconds that is not positive.
        """
        found: dict[str, float] = {}
        for part in self.goodput.split(",") if self.goodput else ():
            name, _, value = part.strip().partition(":")
            if name not in OBJECTIVES or name in found:
                hint = nearest(name, OBJECTIVES)
                raise InputError("--goodput", "objective", name, "ttft, tpot and e2el, each at most once", hint)
            try:
                number = float(value)
            except ValueError:
                number = math.nan
            if not (math.isfinite(number) and number > 0):
                raise InputError("--goodput", name, value, "milliseconds > 0", f"As in {name}:500.")
            found[name] = number
        return found


@dataclass(frozen=True, slots=True)
class Target:
    """The server that requests go to.

    Args:
        host: name or address; IPv6 without brackets.
        secure: TLS.
        base: path in front of ``/v1``; empty or without a slash at its end.
    """

    host: str
    port: int
    secure: bool
    base: str

    @property
    def authority(self) -> str:
        """Host and port as a URL and the header ``Host`` write them; the port is left out if it is the scheme's own."""
        host = in_url(self.host)
        return host if self.port == (443 if self.secure else 80) else f"{host}:{self.port}"


def target_of(url: str) -> Target:
    """The parts of a URL. A missing port is 80 or 443; a ``/v1`` at the end of the path is dropped.

    Raises:
        InputError: it is no http or https URL of a server, or it has a user, a query or a fragment.
    """
    expected = "an http or https URL, e.g. http://127.0.0.1:8000"
    try:
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port
        host.encode("idna")  # as it is looked up
    except ValueError:
        raise InputError("evenstep load", "--url", url, expected) from None
    fits = parts.scheme in ("http", "https") and host and port != 0 and not (parts.query or parts.fragment)
    if not fits or "@" in parts.netloc or not url.isascii() or not url.isprintable() or " " in url:
        raise InputError("evenstep load", "--url", url, expected, "Keys go into --api-key.")
    secure = parts.scheme == "https"
    path = parts.path.rstrip("/").removesuffix("/v1").rstrip("/")
    return Target(host, port or (443 if secure else 80), secure, path)


def checked(settled: Settled[LoadSettings]) -> LoadSettings:
    """The settings' value, checked for ranges and consistency; nothing is filled in or changed.

    Raises:
        InputError: the first wrong field, named as its layer (flag, file or environment) writes it.
    """
    value = settled.value
    if not value.source:
        raise InputError("evenstep load", "FILE", "missing", "a trace, a workload or a sample", "Try sample:azure-conv.")
    if not value.url:
        hint = "As in --url http://127.0.0.1:8000."
        raise InputError("evenstep load", "--url", "missing", "the server's URL", hint)
    target_of(value.url)
    value.objectives()
    settled.check_numbers({"closed": 0, "limit": 1, "seed": 0}, above_zero=("rate", "speed", "timeout_s"))
    if value.closed and (value.open or value.rate is not None):
        other = "open" if value.open else "rate"
        raise settled.refusal(
            other, "no value with --closed", "A user of --closed sends a request when the last one has ended."
        )
    if value.prompts == "ids" and value.chat:
        raise settled.refusal("prompts", "text for --endpoint chat")
    if value.model == "":
        raise settled.refusal("model", "a name")
    if value.api_key is not None and not (value.api_key.isascii() and value.api_key.isprintable() and value.api_key):
        raise InputError(settled.origin["api_key"], "--api-key", "(hidden)", "printable ASCII")
    return value
