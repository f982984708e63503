"""The sections of a gateway's config: plain frozen values, one for each key of the file that holds more than one thing."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar, Literal

_MIB = 1 << 20


@dataclass(frozen=True, slots=True)
class Tls:
    """A certificate to show.

    Args:
        certificate: PEM file, the chain included.
        key: PEM file of its key, without a passphrase; empty = it is in the certificate's file.
        client_ca: PEM file of authorities; clients must show a certificate of one of them. Empty = they need none.
    """

    certificate: str
    key: str = ""
    client_ca: str = ""


@dataclass(frozen=True, slots=True)
class Listen:
    """Where clients come in.

    Args:
        host: address to listen at; 0.0.0.0 = every interface.
        port: port to listen at; 0 = any free one.
        tls: certificate; without one, plain HTTP.
    """

    host: str = "127.0.0.1"
    port: int = 8000
    tls: Tls | None = None


@dataclass(frozen=True, slots=True)
class Admin:
    """Where operators come in: metrics, admin API.

    Args:
        enabled: whether the admin port is opened at all.
        host: address to listen at.
        port: port to listen at; 0 = any free one.
        key: what `Authorization: Bearer` must carry, as env:NAME, file:PATH, sha256:HEX or itself; empty = nothing, which
            only a loopback address may have.
        tls: certificate; without one, plain HTTP.
    """

    enabled: bool = True
    host: str = "127.0.0.1"
    port: int = 8090
    key: str = ""
    tls: Tls | None = None


@dataclass(frozen=True, slots=True)
class Engines:
    """How engines are spoken to.

    Args:
        connect_s: longest wait for a connection.
        first_byte_s: longest wait for the first token of an answer, from the time a request is sent.
        silence_s: longest time between two tokens of a stream; comments and chunks without a token do not count.
        answer_s: longest wait for a whole answer, without a stream, and for that of a prefill leg.
        idle_s: how long an unused connection is kept.
        connections: most unused connections kept for each engine.
        scrape_s: seconds between readings of an engine's metrics.
        scrape_timeout_s: longest wait for one reading.
        ca: PEM file of authorities for https; the system's when left out.
        verify: whether certificates of engines are checked.
    """

    connect_s: float = 3.0
    first_byte_s: float = 120.0
    silence_s: float = 60.0
    answer_s: float = 600.0
    idle_s: float = 60.0
    connections: int = 512
    scrape_s: float = 1.0
    scrape_timeout_s: float = 1.5
    ca: str = ""
    verify: bool = True


@dataclass(frozen=True, slots=True)
class Limits:
    """What a client may do.

    Args:
        head_bytes: largest request head; beyond it status 431.
        body_bytes: largest request body; beyond it status 413.
        head_s: longest time from the first byte of a head to its end; then status 408.
        body_s: longest time from the end of the head to that of the body; then status 408.
        body_bytes_per_s: slowest body, on average after the first two seconds, else status 408; 0 = no floor.
        idle_s: how long a connection without a request is kept.
        connections: most open connections; a further one is closed at once.
        buffer_bytes: bytes of an answer that may wait for a client that reads slowly; at a quarter of them the gateway
            stops reading from the engine.
        stalled_s: longest time in which a client with unread bytes reads nothing.
        drain_s: longest wait for running requests when the gateway stops; then they end with an error.
    """

    head_bytes: int = 64 * 1024
    body_bytes: int = 32 * _MIB
    head_s: float = 10.0
    body_s: float = 60.0
    body_bytes_per_s: int = 1024
    idle_s: float = 75.0
    connections: int = 20_000
    buffer_bytes: int = _MIB
    stalled_s: float = 300.0
    drain_s: float = 60.0

    RETIRED: ClassVar[dict[str, str]] = {"fast_path": "The fast path is gone. Remove this setting."}


@dataclass(frozen=True, slots=True)
class ApiKey:
    """A key that clients show as bearer.

    Args:
        key: the key, as env:NAME, file:PATH, sha256:HEX (of the key) or itself.
        tenant: the tenant that its requests count for; limits are per tenant. Not empty.
        classes: classes it may ask for by the header x-evenstep-class; `*` = every one, empty = no class. A request without
            the header gets the first, or no class where `*` is first.
    """

    key: str
    tenant: str
    classes: list[str] = field(default_factory=list[str])


@dataclass(frozen=True, slots=True)
class RequestClass:
    """A class of requests; its number for policies is its place in the file, from 1; 0 = no class.

    Args:
        weight: its share of the slots while more wait than fit, for policies that share by weight, such as `best`. Requests
            without a class have share 1.
        ttft_s: seconds to the first token that it should keep to; 0 = no target. If the answer is not streamed, to its end.
        tpot_s: seconds per further token that it should keep to; 0 = no target. Only of streamed answers.
    """

    weight: float = 1.0
    ttft_s: float = 0.0
    tpot_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Decisions:
    """The decision log.

    Args:
        path: file; empty = no log. JSON lines where the name ends in .jsonl, else msgpack. Of several models, each after
            the first has a file with its name added, and a number where two such names are equal.
        part_bytes: size from which a new part is begun; 0 = never.
        keep: newest parts kept; 0 = all.
        retry_s: wait before a log that could not be written, on a full disk for example, is tried again. Requests are
            served meanwhile; their decisions are not in the log.
        plain_keys: hash prompts without a salt, so that logs of several gateways can be joined (research).
        salt: secret of this installation for hashes of prompts, as env:NAME, file:PATH or itself; drawn once and kept in
            the user's state folder when left out.
    """

    path: str = ""
    part_bytes: int = 256 * _MIB
    keep: int = 0
    retry_s: float = 60.0
    plain_keys: bool = False
    salt: str = ""


@dataclass(frozen=True, slots=True)
class Log:
    """What the gateway says on stderr.

    Args:
        format: text, or json lines.
        level: least severity that is written.
        access: a line for each request: id, status, tokens, seconds; never text of prompts or answers.
        status_s: seconds between status lines: requests, tokens a second, waiting, time lost at the barrier (or load
            imbalance), workers; 0 = no such lines.
    """

    format: Literal["text", "json"] = "text"
    level: Literal["debug", "info", "warning", "error"] = "info"
    access: bool = False
    status_s: float = 60.0


@dataclass(frozen=True, slots=True)
class Traces:
    """OpenTelemetry: one span a request (`pip install 'evenstep[otel]'`).

    Args:
        endpoint: OTLP/HTTP collector, e.g. http://127.0.0.1:4318/v1/traces; empty = no traces.
        share: share of the requests, 0 to 1, that get a span where the client's traceparent does not say.
        service: the spans' service.name.
    """

    endpoint: str = ""
    share: float = 1.0
    service: str = "evenstep"
