"""The settings of `evenstep load`; each field is an argument and a key of the YAML file."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Literal
from urllib.parse import urlsplit

from evenstep.config.layers import Settled
from evenstep.errors import InputError, nearest
from evenstep.sockets import in_url, without_user

#: Latencies that a goodput objective may limit.
OBJECTIVES = ("ttft", "tpot", "e2el")


@dataclass(frozen=True, slots=True)
class LoadSettings:
    """A load test of an OpenAI endpoint.

    Args:
        source: a trace file, a workload YAML or sample:azure-conv.
        url: URL of the server, e.g. http://127.0.0.1:8000; its /v1 may be left out.
        model: name of the served model; the first of /v1/models when left out.
        endpoint: completions or chat.
        open: open loop: requests start at the trace's times, however many are still running; the default without --closed.
        closed: closed loop with this many users, each with one session or request of the trace at a time; 0 = open loop.
        rate: open loop with Poisson arrivals at this many requests a second in place of the trace's times.
        speed: factor by which the trace's times and thinking times are shortened.
        limit: use only the first rows of the trace, or draw only so many requests.
        seed: seed of prompts, of Poisson arrivals and of a workload's draws.
        prompts: text (common short words, one token each in most vocabularies) or ids (exact with any; completions only).
        dialect: vllm requests ignore_eos, so that answers get the trace's lengths, and usage in every chunk (SGLang supports
            both); openai requests neither.
        token_ids: request token ids as well, and compare their number with the usage; vLLM supports this.
        timeout_s: most seconds from sending a request to the end of its answer.
        goodput: latency limits in ms that a request must meet to count in goodput, e.g. ttft:500,tpot:50; also e2el.
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
        """True if requests go to the chat endpoint, False for completions."""
        return self.endpoint == "chat"

    def objectives(self) -> dict[str, float]:
        """Parse `goodput` into limits in milliseconds by name (ttft, tpot, e2el); empty without objectives.

        An unknown or repeated name, and a limit that is not a finite number > 0, raise `InputError`.
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
    """The server that requests go to."""

    host: str  # name or address; IPv6 without brackets
    port: int
    secure: bool  # uses TLS
    base: str  # path before ``/v1``, without a slash at its end; may be empty

    @property
    def authority(self) -> str:
        """Host and port as in a URL or the header ``Host``; the scheme's default port is left out."""
        host = in_url(self.host)
        return host if self.port == (443 if self.secure else 80) else f"{host}:{self.port}"


def target_of(url: str) -> Target:
    """Parse a server's URL. The default port is 80, or 443 for https; a ``/v1`` at the end of the path is dropped.

    An invalid URL, one of another scheme, and one with a user, a query or a fragment raise `InputError`.
    """
    expected = "an http or https URL, e.g. http://127.0.0.1:8000"
    try:
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port
        host.encode("idna")  # as the look-up will encode it
    except ValueError:
        raise InputError("evenstep load", "--url", without_user(url), expected) from None
    fits = parts.scheme in ("http", "https") and host and port != 0 and not (parts.query or parts.fragment)
    if not fits or "@" in parts.netloc or not url.isascii() or not url.isprintable() or " " in url:
        raise InputError("evenstep load", "--url", without_user(url), expected, "Keys go into --api-key.")
    secure = parts.scheme == "https"
    path = parts.path.rstrip("/").removesuffix("/v1").rstrip("/")
    return Target(host, port or (443 if secure else 80), secure, path)


def checked(settled: Settled[LoadSettings]) -> LoadSettings:
    """Check that the settings are in range and consistent; returns their value unchanged.

    The first wrong field raises `InputError`, which names the field as its layer (flag, file or default) writes it.
    Errors about source, URL, goodput and API key always name the flag, even if a file sets the value.
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
    if value.model is not None and not (value.model and value.model.isprintable()):
        raise settled.refusal("model", "a name that can be printed")
    if value.api_key is not None:
        check_key(value.api_key, settled.origin["api_key"], "--api-key")
    return value


def check_key(key: str, where: str, field: str) -> None:
    """Check that a key can stand in a header; else raise an `InputError`, which does not show it."""
    if not (key.isascii() and key.isprintable() and key):
        raise InputError(where, field, "(hidden)", "printable ASCII")
