"""The gateway's configuration: one frozen value, and the checks of its ranges and consistency.

`evenstep.gateway.config.layers` makes it from a YAML file, the environment and flags.
"""

from __future__ import annotations

import dataclasses
import ipaddress
import os
import re
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from msgspec.structs import asdict

from evenstep import names
from evenstep.dispatch.settings import Dispatch, Settings, Tenant, TenantLimits
from evenstep.engines.requests.tokenizer_file import TokenizerFile
from evenstep.errors import InputError, check_range, nearest
from evenstep.gateway.config import sections
from evenstep.gateway.config.worker import DEFAULT_SLOTS, Discovery, Worker, check_engine, listed_twice
from evenstep.sockets import without_user

#: The command these settings are for, as its errors name it.
WHERE = "evenstep serve"


@dataclass(frozen=True, slots=True)
class GatewayConfig:
    """The whole config of a gateway.

    It is not checked when it is made: see `checked`.

    Args:
        listen: the listener for clients.
        admin: the listener for operators.
        workers: engine endpoints. Two workers differ in URL, role or rank, so that no engine is listed twice.
        discovery: sources that find further workers, which come and go.
        slots: requests a worker runs at a time, for workers that do not set their own `slots`.
        policy: routing policy, NAME[:key=value,...].
        predictor: predictor for a policy that looks ahead; empty = the policy's default.
        dispatch: how requests wait, are decided on, and are tried again.
        engines: timeouts, connections and TLS of calls to engines.
        limits: limits on the requests and connections of clients.
        keys: API keys of clients; empty = no key is needed, and every client is the tenant `anonymous`.
        tenants: limits by tenant; `*` = every tenant that is not listed.
        classes: classes of requests, by name.
        aliases: further model name -> the model whose pool serves it, e.g. a LoRA adapter -> its base model.
        tokenizers: model, by a name that the first worker of its pool lists -> path of its tokenizer.json, to count a
            prompt's tokens before an engine reports them. All models of a pool use the one of the first such name.
        session_headers: names of headers whose value identifies a client's session, for policies that look at
            sessions. The first header with a value counts.
        allowed_origins: web origins, as https://chat.example, whose pages may ask the gateway from a browser (CORS); `*` =
            every page, also one of a stranger that a user of the gateway visits. Empty = no page.
        decisions: the decision log.
        log: the log on stderr.
        traces: OpenTelemetry.
    """

    listen: sections.Listen = field(default_factory=sections.Listen)
    admin: sections.Admin = field(default_factory=sections.Admin)
    workers: list[Worker] = field(default_factory=list[Worker])
    discovery: Discovery = field(default_factory=Discovery)
    slots: int = sections.number(DEFAULT_SLOTS, low=1)
    policy: str = "best"
    predictor: str = ""
    dispatch: Dispatch = field(default_factory=Dispatch)
    engines: sections.Engines = field(default_factory=sections.Engines)
    limits: sections.Limits = field(default_factory=sections.Limits)
    keys: list[sections.ApiKey] = field(default_factory=list[sections.ApiKey])
    tenants: dict[str, Tenant] = field(default_factory=dict[str, Tenant])
    classes: dict[str, sections.RequestClass] = field(default_factory=dict[str, sections.RequestClass])
    aliases: dict[str, str] = field(default_factory=dict[str, str])
    tokenizers: dict[str, str] = field(default_factory=dict[str, str])
    session_headers: list[str] = field(default_factory=lambda: ["x-session-id"])
    allowed_origins: list[str] = field(default_factory=list[str])
    decisions: sections.Decisions = field(default_factory=sections.Decisions)
    log: sections.Log = field(default_factory=sections.Log)
    traces: sections.Traces = field(default_factory=sections.Traces)

    def fleet(self) -> list[Worker]:
        """The workers listed in `workers`, in order, one for each rank, each with its name and slots; not discovered ones.

        Raises InputError for an entry that `Worker.each` rejects, two workers of one name, or an engine listed twice
        (`listed_twice`).
        """
        found: dict[str, Worker] = {}
        for entry in self.workers:
            for worker in entry.each():
                if worker.name in found:
                    hint = "Give one of them a name."
                    raise InputError("workers", "name", worker.name, "each worker once", hint)
                slots = self.slots if worker.slots is None else worker.slots
                found[worker.name] = dataclasses.replace(worker, slots=slots)
        for _, error in listed_twice(found.values()):
            raise error
        return list(found.values())

    def weighed_policy(self) -> str:
        """The text of `policy`, with ``class_weights`` of the classes if the policy has that option and the text lacks it.

        The weights are joined by ``/``: 1 for requests without a class, then those of the classes. Without classes nothing
        is added.
        """
        spec = names.parse(self.policy)
        shares = hasattr(names.find("routing", spec["name"]), "class_weights")
        if not (shares and self.classes) or "class_weights" in spec:
            return self.policy
        weights = "/".join(f"{weight:g}" for weight in (1.0, *(kind.weight for kind in self.classes.values())))
        return f"{self.policy}{',' if len(spec) > 1 else ':'}class_weights={weights}"

    def settings(self) -> Settings:
        """The settings of a dispatcher: the section `dispatch` and the limits of `tenants`.

        A `stale_s` that is left out becomes three times ``engines.scrape_s`` plus ``engines.scrape_timeout_s``. Raises
        InputError if a value is out of range.
        """
        tenants = {name: TenantLimits(**asdict(tenant)) for name, tenant in self.tenants.items()}
        told = asdict(self.dispatch)
        if told["stale_s"] is None:
            told["stale_s"] = _PAGES_MISSED * self.engines.scrape_s + self.engines.scrape_timeout_s
        return Settings(**told, tenants=tenants)


_HEADER = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")  # RFC 9110 section 5.6.2; `http.head` needs a package of the extra
_ORIGIN = re.compile(r"\*|[a-z][a-z0-9+.-]*://[^/?#@*\s\x00-\x1f\x7f-\U0010ffff]+", re.IGNORECASE)
_PAGES_MISSED = 3  # readings in a row of an engine's metrics that may fail before its page counts as stale


def checked(config: GatewayConfig, before_rules: Callable[[GatewayConfig], None] = lambda config: None) -> GatewayConfig:
    """Check a config for ranges and consistency, and return it unchanged.

    `before_rules` is called with the config after all checks but those of policy and predictor, which may import the
    compiler. Files are not looked at: see `check_files`. Raises InputError for a value out of range, values that contradict
    each other, or an unknown policy, predictor or engine.
    """
    _check_ranges(config)
    for worker in config.fleet():
        worker.spec(config.slots)
        with refused_as("workers", worker.engine):
            check_engine(worker)
    config.settings()
    config.discovery.sources()
    _check_callers(config)
    if config.traces.endpoint and not config.traces.endpoint.startswith(("http://", "https://")):
        expected = "a URL, e.g. http://127.0.0.1:4318/v1/traces"
        raise InputError("config", "traces.endpoint", without_user(config.traces.endpoint), expected)
    if config.admin.enabled and not config.admin.key and not is_loopback(config.admin.host):
        hint = "Give admin.key, or take 127.0.0.1."
        raise InputError("config", "admin.host", config.admin.host, "a loopback address where admin.key is empty", hint)
    before_rules(config)
    if "predictor" in (names.parse(config.policy) if config.policy else {}):
        hint = "Name it in the setting predictor (--predictor). One that sees true lengths cannot run live."
        raise InputError("config", "policy", config.policy, "a policy without its predictor", hint)
    with refused_as("policy", config.policy):
        names.build("routing", names.parse(config.policy))
    if config.predictor:
        from evenstep.predict.view import is_oracle  # loads NumPy, which the gateway's first answer does not wait for

        with refused_as("predictor", config.predictor):
            if is_oracle(names.build("predict", names.parse(config.predictor))):
                raise InputError("predict", "predictor", config.predictor, "a predictor that sees no true lengths")
    return config


@contextmanager
def refused_as(setting: str, text: str) -> Generator[None]:
    """Turn an `InputError` of the ``with`` block into one that names the dotted setting `setting` and its value `text`."""
    try:
        yield
    except InputError as error:
        instead = "" if error.value in ("missing", text) else f" as {error.field}, not {error.value!r}"
        raise InputError("config", setting, text, f"{error.expected}{instead}", error.hint) from None


def check_files(config: GatewayConfig) -> None:
    """Check that each tokenizer can be loaded, and that the decision log can be written. Raises InputError if not."""
    for model, path in config.tokenizers.items():
        try:
            TokenizerFile(Path(path))
        except InputError as error:
            raise InputError(f"tokenizers.{model}", error.field, error.value, error.expected, error.hint) from None
    if config.decisions.path:
        path = Path(config.decisions.path)
        if path.is_dir() or not os.access(path if path.exists() else path.parent, os.W_OK):
            raise InputError("config", "decisions.path", str(path), "a file that can be written", "See its folder.")


def _check_callers(config: GatewayConfig) -> None:
    """Check names of headers, origins, keys and classes. Raises InputError for an invalid one, or a number out of range."""
    for place, name in enumerate(config.session_headers):
        if _HEADER.fullmatch(name) is None:
            raise InputError("config", f"session_headers[{place}]", name, "the name of a header", "It has no blanks.")
    for place, origin in enumerate(config.allowed_origins):
        if _ORIGIN.fullmatch(origin) is None:
            expected = "an origin such as https://chat.example:8443, without a path, or *"
            raise InputError("config", f"allowed_origins[{place}]", origin, expected)
    for place, key in enumerate(config.keys):
        if not key.key.strip():
            raise InputError("config", f"keys[{place}].key", key.key, "a key that is not empty")
        if not key.tenant:
            raise InputError("config", f"keys[{place}].tenant", key.tenant, "a name")
        for name in key.classes:
            if name != "*" and name not in config.classes:
                hint = nearest(name, config.classes)
                raise InputError("config", f"keys[{place}].classes", name, "a class of `classes`", hint)


def _check_ranges(config: Any, path: str = "") -> None:
    """Check the numbers of a section and of those in it, at `path`, by the limits of their fields (`sections.number`)."""
    for setting in dataclasses.fields(config):
        name, value, limits = f"{path}{setting.name}", getattr(config, setting.name), setting.metadata
        if limits:
            low, high = (f"{limits[end]:g}" if end in limits else "" for end in ("low", "high"))
            text = f"from {low} to {high}" if high else f">= {low}" if low else f"above {limits['above']:g}"
            check_range("config", f"a number {text}", finite=True, **limits, **{name: value})
        inside = value if isinstance(value, dict) else {"": value}
        for key, part in inside.items():
            if dataclasses.is_dataclass(part):
                _check_ranges(part, f"{name}.{key}." if key else f"{name}.")


def is_loopback(host: str) -> bool:
    """Whether a host is a loopback IP address, in brackets or not, or ``localhost``. No name is looked up."""
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host == "localhost"


def value_at(config: Any, name: str) -> Any:
    """The value of a dotted setting such as ``limits.head_s``; None if its section is None.

    Raises AttributeError for an unknown setting.
    """
    for part in name.split("."):
        config = None if config is None else getattr(config, part)
    return config
