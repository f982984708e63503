"""The config of workers, and of sources that discover workers."""

from __future__ import annotations

import dataclasses
import ipaddress
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Literal
from urllib.parse import urlsplit, urlunsplit

from evenstep import names
from evenstep.config.convert import convert
from evenstep.config.messages import unless_secret
from evenstep.config.yaml_file import Document
from evenstep.dispatch.settings import WorkerSpec
from evenstep.engines.view import EngineAdapter
from evenstep.errors import InputError, check_range, check_range_if_given
from evenstep.gateway.config.secrets import covered, read_secret
from evenstep.sockets import in_url, without_user

#: Slots of a worker if the config does not set them.
DEFAULT_SLOTS = 256
#: Largest number of ranks at one URL.
MOST_RANKS = 4096
_HERE = {ipaddress.ip_address(one) for one in ("127.0.0.1", "::1")}


@dataclass(frozen=True, slots=True)
class Worker:
    """One engine endpoint, or several ranks at one URL.

    Args:
        url: http://host:port or https://host:port, with a path where the engine has one. Its metrics page is below it.
        name: unique name in metrics and logs; left out = host:port, followed by #rank where there are ranks.
        group: barrier group: workers with the same text share a barrier. Empty = a group of its own; with `ranks`, one for
            all of them.
        slots: requests it runs at a time; left out = the top-level setting `slots`.
        kv_tokens: KV capacity in tokens; 0 = the one its metrics report, or no limit if they report none.
        role: decode (it prefills, too, where there is no prefiller) or prefill.
        rank: data-parallel rank of this worker at its URL, from 0; left out = the worker is the whole engine there. The
            engine must have a header that picks a rank, as vllm and sglang have.
        ranks: number of ranks at the URL. Each of them, from rank 0, is a worker; all are in one group. As for `rank`, the
            engine must have a rank header.
        first_rank: number of its first rank on its metrics page: 0, except for further nodes of vLLM's hybrid load
            balancing. There the page counts the ranks of all nodes, but the rank header only those of the node.
        engine: name of the engine's dialect, with options as in vllm:version=0.32.0.
        models: names of the models it serves; left out = those of its /v1/models. In text, the key is repeated:
            models=a,models=b.
        speed: how fast it decodes compared with the other workers; 2 = half the step seconds for each KV token.
        api_key: bearer token for its engine, as env:NAME, file:PATH or plain text; read again at each reload.
        scraped: whether its metrics page is read; if not, only the requests of this gateway are counted there.
    """

    url: str
    name: str = ""
    group: str = ""
    slots: int | None = None
    kv_tokens: int = 0
    role: Literal["decode", "prefill"] = "decode"
    rank: int | None = None
    ranks: int | None = None
    first_rank: int = 0
    engine: str = "vllm"
    models: list[str] = field(default_factory=list[str])
    speed: float = 1.0
    api_key: str = ""
    scraped: bool = True

    def spec(self, slots: int = DEFAULT_SLOTS) -> WorkerSpec:
        """The worker's description for a dispatcher. Call it on a worker from `each`, whose name is set.

        `slots` is for a worker whose own `slots` is left out. Raises InputError for an empty name or a value out of range.
        """
        return WorkerSpec(
            name=self.name,
            group=self.group,
            slots=slots if self.slots is None else self.slots,
            kv_tokens=self.kv_tokens,
            role=self.role,
            speed=self.speed,
            scraped=self.scraped,
        )

    def secret(self) -> str:
        """The bearer token that `api_key` gives or refers to; empty = no token.

        Raises InputError if the secret cannot be read, or is not printable ASCII in one line.
        """
        where = f"worker {self.name}"
        found = read_secret(self.api_key, where, "api_key")
        if not (found.isascii() and found.isprintable()):
            raise InputError(where, "api_key", covered(self.api_key), "printable ASCII characters in one line")
        return found

    def each(self) -> list[Worker]:
        """The workers of this entry, each with its name: one for each rank, in order, if `ranks` is set, else one.

        With `ranks`, each is called ``name#rank``, has `rank` in place of `ranks`, and belongs to the group `group`, or if
        that is empty to a group called ``name``. Raises InputError for an invalid URL or rank, an empty model, both `rank`
        and `ranks`, or `first_rank` without either.
        """
        where = f"worker {self.name or without_user(self.url)}"
        address = _address(self.url, where)
        if "" in self.models:
            raise InputError(where, "models", "", "names that are not empty", "Leave it out to ask the engine.")
        check_range(where, "an integer >= 0", low=0, first_rank=self.first_rank)
        if self.first_rank and self.rank is None and self.ranks is None:
            hint = "Say how many ranks are behind the URL: ranks=1 or more."
            raise InputError(where, "first_rank", self.first_rank, "0 unless ranks or rank is given", hint)
        if self.ranks is None:
            check_range_if_given(where, "an integer >= 0", low=0, rank=self.rank)
            name = self.name or (address if self.rank is None else f"{address}#{self.rank}")
            return [dataclasses.replace(self, name=name)]
        if self.rank is not None:
            raise InputError(where, "ranks", self.ranks, "either ranks or rank, not both", "Leave one of them out.")
        check_range(where, f"an integer in 1..{MOST_RANKS}", low=1, high=MOST_RANKS, ranks=self.ranks)
        base = self.name or address
        return [
            dataclasses.replace(self, name=f"{base}#{rank}", rank=rank, ranks=None, group=self.group or base)
            for rank in range(self.ranks)
        ]


@cache
def adapter_of(engine: str) -> EngineAdapter:
    """The adapter for an engine's dialect, given as ``NAME[:key=value,...]``. Cached, because a search by name is slow.

    Raises InputError for an unknown engine or option.
    """
    return names.build("engines", names.parse(engine))


def check_engine(worker: Worker) -> None:
    """Raise an InputError for an unknown engine or option, a prefiller without hand-over, or ranks without a header."""
    adapter = adapter_of(worker.engine)
    if not adapter.rank_header and (worker.rank is not None or worker.ranks is not None):
        expected = "an engine with a header that picks a rank, as vllm has, for rank or ranks"
        hint = "Without it the engine itself spreads requests over its ranks: leave them out, and give its slots in all."
        raise InputError("engines", "engine", worker.engine, expected, hint)
    if worker.role == "prefill" and not adapter.dialect.handover:
        expected = "an engine that hands over the KV of its prompts, as vllm does, for role=prefill"
        raise InputError("engines", "engine", worker.engine, expected)


@dataclass(frozen=True, slots=True)
class Dns:
    """Workers at the addresses of a DNS name, one for each address or rank of it. The name is looked up repeatedly.

    Args:
        name: a host name, e.g. that of a headless service.
        port: port of the workers.
        every_s: seconds between look-ups.
        worker: settings that all of them share. Its URL gives only scheme and path; it has no name.
    """

    name: str
    port: int = 8000
    every_s: float = 10.0
    worker: Worker = field(default_factory=lambda: Worker(url="http://"))


@dataclass(frozen=True, slots=True)
class Kubernetes:
    """Workers by label: one for each ready pod that a selector finds, or for each of its ranks.

    Args:
        selector: label selector of the pods, e.g. app=vllm,tier=decode.
        namespace: namespace of the pods; left out = that of the gateway's own pod.
        port: port of the workers.
        every_s: seconds after which the pods are listed again; in between, their changes are watched.
        api: URL of the API server, for use outside the cluster; left out = the pod's environment gives server, token and
            authority.
        token: bearer token for `api`, as env:NAME, file:PATH or itself; not used without `api`.
        ca: PEM file of the authority of `api`; not used without `api`.
        group_label: label whose value is the barrier group of a pod; empty = the group of `worker`.
        worker: settings that all of them share. Its URL gives only scheme and path; it has no name.
    """

    selector: str
    namespace: str = ""
    port: int = 8000
    every_s: float = 60.0
    api: str = ""
    token: str = ""
    ca: str = ""
    group_label: str = ""
    worker: Worker = field(default_factory=lambda: Worker(url="http://"))


@dataclass(frozen=True, slots=True)
class Discovery:
    """Sources that find workers, in addition to those in `workers`.

    Args:
        dns: by DNS names.
        kubernetes: by label selectors.
    """

    dns: list[Dns] = field(default_factory=list[Dns])
    kubernetes: list[Kubernetes] = field(default_factory=list[Kubernetes])

    def sources(self) -> dict[str, Dns | Kubernetes]:
        """All sources by name, ``dns:NAME:PORT`` or ``kubernetes:NAMESPACE:SELECTOR``, those of `dns` first.

        Raises InputError for an invalid setting, or for two sources with one name.
        """
        found: dict[str, Dns | Kubernetes] = {}
        for kind, sources in (("dns", self.dns), ("kubernetes", self.kubernetes)):
            for place, source in enumerate(sources):
                where = f"discovery.{kind}[{place}]"
                if isinstance(source, Dns):
                    name, finds, expected = f"dns:{source.name}:{source.port}", ("name", source.name), "a host name"
                else:
                    name = f"kubernetes:{source.namespace}:{source.selector}"
                    finds, expected = ("selector", source.selector), "a label selector, e.g. app=vllm"
                if not finds[1]:
                    raise InputError(where, *finds, expected)
                _check_source(where, source)
                if name in found:
                    raise InputError(where, "source", name, "a source that is given once", "Remove one of the two.")
                found[name] = source
        return found


def at_address(common: Worker, host: str, port: int, name: str = "", group: str = "") -> list[Worker]:
    """The worker at an address that a discovery source found, or one for each of its ranks, as `Worker.each` returns them.

    Raises InputError for an address or settings that `Worker.each` rejects.

    Args:
        common: settings of all workers of the source. From its URL the workers take scheme and path; its name is not used.
        host: IPv4 or IPv6 address.
        name: of the worker; empty = derived from its address.
        group: its barrier group; empty = that of `common`.
    """
    scheme, _, path, _, _ = urlsplit(common.url)
    url = urlunsplit((scheme, f"{in_url(host)}:{port}", path, "", ""))
    return dataclasses.replace(common, url=url, name=name, group=group or common.group).each()


def _check_source(where: str, source: Dns | Kubernetes) -> None:
    """Check port, interval and `worker` of a source. Raises InputError, with the place `where`, if one is invalid."""
    common = source.worker
    check_range(where, "a number from 1 to 65535", above=0, below=65536, port=source.port)
    check_range(where, "a number above 0", above=0, finite=True, every_s=source.every_s)
    if urlsplit(common.url).scheme not in ("http", "https") or urlsplit(common.url).netloc:
        shown = without_user(common.url)
        raise InputError(where, "worker.url", shown, "http:// or https://, with a path where there is one")
    if common.name:
        raise InputError(where, "worker.name", common.name, "no name", "Each worker is called by its address.")
    try:
        for one in at_address(common, "127.0.0.1", source.port):
            one.spec()
    except InputError as error:
        raise InputError(where, f"worker.{error.field}", error.value, error.expected, error.hint) from None
    try:
        check_engine(common)
    except InputError as error:
        raise InputError(where, "worker.engine", common.engine, error.expected, error.hint) from None


def listed_twice(workers: Iterable[Worker]) -> Iterator[tuple[Worker, InputError]]:
    """Yield each worker whose engine an earlier worker has, with the error to raise for it. Its load would count twice.

    Two workers have the same engine if address, path, role and rank are equal; ``localhost``, ``127.0.0.1`` and ``[::1]``
    are one address. A worker without a rank has all ranks of its URL. `workers` are as `Worker.each` returns them.
    """
    found: dict[tuple[str, str, str], dict[int | None, Worker]] = {}
    for worker in workers:
        host, _, port = _address(worker.url, worker.name).rpartition(":")
        engine = f"{_one_name(host)}:{port}", urlsplit(worker.url).path.rstrip("/"), worker.role
        ranks = found.setdefault(engine, {})
        same = (None, worker.rank) if worker.rank is not None else (*ranks,)
        other = next((ranks[rank] for rank in same if rank in ranks), None)
        if other is None:
            ranks[worker.rank] = worker
        else:
            hint = f"{other.name} is there already. Leave one of them out, or give each its rank."
            yield worker, InputError("workers", "url", worker.url, "each engine once", hint)


def _one_name(host: str) -> str:
    """A host in one of its spellings, as far as that is known without looking it up; this machine is ``localhost``."""
    try:
        found = ipaddress.ip_address(host.strip("[]"))
    except ValueError:
        return host.removesuffix(".")
    found = getattr(found, "ipv4_mapped", None) or found
    return "localhost" if found in _HERE else str(found)


def _address(url: str, where: str) -> str:
    """``host:port`` of a URL, with the scheme's default port if it has none. Raises InputError if the URL is invalid."""
    shape = "http://host:port or https://host:port"
    shown = without_user(url)
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        raise InputError(where, "url", shown, shape) from None
    if parts.scheme not in ("http", "https") or not parts.hostname or port == 0:
        raise InputError(where, "url", shown, shape)
    if parts.query or parts.fragment or "@" in parts.netloc:
        raise InputError(where, "url", shown, shape, "Without user, query or fragment.")
    if re.search(r"[^\x21-\x7e]", url):
        raise InputError(where, "url", shown, shape, "In ASCII, without blanks.")
    return f"{in_url(parts.hostname)}:{port or (443 if parts.scheme == 'https' else 80)}"


def worker_of(text: str, where: str) -> Worker:
    """Parse a worker from ``URL[,key=value,...]``, as in flags and the environment; ``models`` once for each model.

    The URL is not checked, and the name may be empty; `Worker.each` handles both. Raises InputError, with the origin `where`
    of the text, for an unknown or repeated key or a value that does not fit.
    """
    url, *options = text.split(",")
    given: dict[str, Any] = {"url": url}
    for option in options:
        key, equals, value = (part.strip() for part in option.partition("="))
        if not equals or not key:
            raise InputError(where, "worker", _shown(text), "URL[,key=value,...]")
        if key == "models":
            given[key] = [*given.get(key, ()), value]
        elif key in given:
            before = unless_secret(key, given[key])
            raise InputError(where, key, unless_secret(key, value), "each option once", f"It is {before} already.")
        else:
            given[key] = value
    return convert(Document(where, given), Worker, text=True)


def _shown(text: str) -> str:
    """The text of a worker for an error; its API key and all after it become ``(hidden)``, since a key may hold a comma."""
    before, key, _ = text.partition("api_key")
    return without_user(f"{before}{key}=(hidden)" if key else text)


def group_of(text: str, where: str) -> list[Worker]:
    """Parse workers that share a barrier from ``URL,URL,...[,key=value,...]``: one for each URL, each with all options.

    Their group has the name that the option ``group`` gives, else the first ``host:port``. Raises InputError, with the
    origin `where` of the text, for a missing URL, an unknown key or a value that does not fit.
    """
    parts = text.split(",")
    urls = [part for part in parts if "://" in part.partition("=")[0]]
    options = [part for part in parts if part not in urls]
    if not urls:
        raise InputError(where, "group", _shown(text), "URL,URL,...[,key=value,...]")
    workers = [worker_of(",".join([url, *options]), where) for url in urls]
    name = workers[0].group or _address(urls[0], where)
    return [dataclasses.replace(worker, group=name) for worker in workers]
