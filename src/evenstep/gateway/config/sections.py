"""The sections of a gateway's config, each a frozen dataclass."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

_MIB = 1 << 20


def number(default: float, **limits: float) -> Any:
    """A setting with this default; `limits` are those of its range, as `errors.check_range` takes them."""
    return field(default=default, metadata=limits)


@dataclass(frozen=True, slots=True)
class Tls:
    """Certificate of a listener.

    Args:
        certificate: PEM file with the certificate and its chain.
        key: PEM file of its private key, without a passphrase; empty = the key is in the certificate's file.
        client_ca: PEM file of authorities; clients must show a certificate of one of them. Empty = clients need no
            certificate.
    """

    certificate: str
    key: str = ""
    client_ca: str = ""


@dataclass(frozen=True, slots=True)
class Listen:
    """The listener for clients.

    Args:
        host: address to listen at; 0.0.0.0 = every interface.
        port: port to listen at; 0 = any free one.
        tls: certificate; left out = plain HTTP.
    """

    host: str = "127.0.0.1"
    port: int = number(8000, low=0, high=65535)
    tls: Tls | None = None


@dataclass(frozen=True, slots=True)
class Admin:
    """The listener for operators: metrics page and admin API.

    Args:
        enabled: whether the admin port is opened at all.
        host: address to listen at.
        port: port to listen at; 0 = any free one.
        key: bearer token that operators must send, as env:NAME, file:PATH, sha256:HEX or itself. Empty = no key is needed,
            which is allowed only at a loopback address.
        tls: certificate; left out = plain HTTP.
    """

    enabled: bool = True
    host: str = "127.0.0.1"
    port: int = number(8090, low=0, high=65535)
    key: str = ""
    tls: Tls | None = None


@dataclass(frozen=True, slots=True)
class Engines:
    """Timeouts, connections and TLS of calls to engines.

    Args:
        connect_s: longest wait for a connection; the first of several addresses of a name has half of it.
        first_byte_s: longest wait for the first token of a stream, from the time the request is sent.
        silence_s: longest time between two tokens of a stream (comments and empty chunks do not count), or forwarded pieces.
        answer_s: longest wait for a whole answer that does not stream (of one forwarded in pieces: the first), or a prefill.
        idle_s: how long an unused connection stays open.
        connections: most unused connections kept open for each engine.
        scrape_s: seconds between readings of an engine's metrics.
        scrape_timeout_s: longest wait for one reading.
        ca: PEM file of authorities trusted for https, besides those of the system.
        verify: whether certificates of engines are checked.
        client_certificate: PEM file with the certificate and its chain that the gateway shows to engines; empty = none.
        client_key: PEM file of its private key, without a passphrase; empty = the key is in the certificate's file.
    """

    connect_s: float = number(3.0, above=0)
    first_byte_s: float = number(120.0, above=0)
    silence_s: float = number(60.0, above=0)
    answer_s: float = number(600.0, above=0)
    idle_s: float = number(60.0, above=0)
    connections: int = number(512, low=0)
    scrape_s: float = number(1.0, above=0)
    scrape_timeout_s: float = number(1.5, above=0)
    ca: str = ""
    verify: bool = True
    client_certificate: str = ""
    client_key: str = ""


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits on the requests and connections of clients.

    Args:
        head_bytes: largest request head; a larger one gets status 431.
        body_bytes: largest request body; a larger one gets status 413.
        head_s: longest time from the first byte of a head to its end; then status 408.
        body_s: longest time from the end of the head to the end of the body; then status 408.
        body_bytes_per_s: least mean rate of a body, not counting its first two seconds; a slower one gets status 408. 0 = no
            such limit.
        idle_s: how long a connection without a request stays open.
        connections: most open connections; a further one is closed at once. Each may need two open files: its own and one to
            an engine. The start tells if the system allows fewer.
        buffer_bytes: bytes of an answer that may wait for a slow client. With more, the gateway stops reading from the
            engine until a quarter of them is left. What was read by then, and an answer that does not stream, still waits.
        stalled_s: longest time in which a slow client reads nothing of its answer; then its connection is closed. It is
            looked at four times in that time, so it may take a quarter longer. Over TLS `idle_s` limits the reading of a
            whole answer, since what waits there is not known.
        drain_s: longest wait for running requests when the gateway stops; then they end with an error.
    """

    head_bytes: int = number(64 * 1024, low=512)
    body_bytes: int = number(32 * _MIB, low=1)
    head_s: float = number(10.0, above=0)
    body_s: float = number(60.0, above=0)
    body_bytes_per_s: int = number(1024, low=0)
    idle_s: float = number(75.0, above=0)
    connections: int = number(20_000, low=1)
    buffer_bytes: int = number(256 * 1024, low=4096)
    stalled_s: float = number(300.0, above=0)
    drain_s: float = number(60.0, low=0)

    RETIRED: ClassVar[dict[str, str]] = {"fast_path": "The fast path is gone. Remove this setting."}


@dataclass(frozen=True, slots=True)
class ApiKey:
    """An API key, which clients send as bearer token.

    Args:
        key: the key, as env:NAME, file:PATH, sha256:HEX (of the key) or itself.
        tenant: the tenant whose limits its requests count against. Not empty.
        classes: classes that its requests may ask for in the header x-evenstep-class; `*` = every class, empty = no class. A
            request without the header gets the first of them, or no class where `*` is first.
    """

    key: str
    tenant: str
    classes: list[str] = field(default_factory=list[str])


@dataclass(frozen=True, slots=True)
class RequestClass:
    """A class of requests. Policies see its number, which is its place in the file, from 1; 0 = no class.

    Args:
        weight: its share of the slots while more requests wait than fit, for policies that share by weight, such as `best`.
            Requests without a class have weight 1.
        ttft_s: target for the seconds to the first token, or to the end of an answer that does not stream; 0 = no target.
        tpot_s: target for the seconds per further token of a streamed answer; 0 = no target.
    """

    weight: float = number(1.0, above=0)
    ttft_s: float = number(0.0, low=0)
    tpot_s: float = number(0.0, low=0)


@dataclass(frozen=True, slots=True)
class Decisions:
    """The decision log.

    Args:
        path: file; empty = no log. A name that ends in .jsonl gives JSON lines, any other msgpack. With several models, the
            file of each after the first has the model's name added, and a number where two such names are equal.
        part_bytes: bytes after which a new part begins; 0 = never. A log that others move or cut counts as failed.
        keep: number of newest parts kept; 0 = all.
        retry_s: seconds before a log that could not be written, e.g. on a full disk, is tried again. Requests are served
            meanwhile; their decisions are not in the log.
        plain_keys: hash prompts without a salt, so that logs of several gateways can be joined (research).
        salt: secret of this installation for hashes of prompts, as env:NAME, file:PATH or itself; left out = drawn once and
            kept in the user's state folder, if that can be written.
    """

    path: str = ""
    part_bytes: int = number(256 * _MIB, low=0)
    keep: int = number(0, low=0)
    retry_s: float = number(60.0, above=0)
    plain_keys: bool = False
    salt: str = ""


@dataclass(frozen=True, slots=True)
class Log:
    """The log on stderr.

    Args:
        format: text, or JSON lines.
        level: least severity that is written.
        access: write a line for each request, at level info: id, status, tokens, seconds; never text of prompts or answers.
        status_s: seconds between status lines, at level info: requests, tokens a second, waiting, time lost at the barrier
            (or load imbalance), workers; 0 = no such lines.
    """

    format: Literal["text", "json"] = "text"
    level: Literal["debug", "info", "warning", "error"] = "info"
    access: bool = False
    status_s: float = number(60.0, low=0)


@dataclass(frozen=True, slots=True)
class Traces:
    """OpenTelemetry: one span for each sampled request (in a clone: `pip install '.[otel]'`).

    Args:
        endpoint: OTLP/HTTP collector, e.g. http://127.0.0.1:4318/v1/traces; empty = no spans.
        share: share of the requests, 0 to 1, that get a span. A client's traceparent, if there is one, decides instead.
        service: service.name of the spans.
    """

    endpoint: str = ""
    share: float = number(1.0, low=0, high=1)
    service: str = "evenstep"
