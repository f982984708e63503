"""Combines defaults, a YAML file, the environment and flags into one config, and keeps each value's origin.

A later source overrides single settings: ``limits.body_bytes`` of the environment leaves ``limits.head_s`` of the file in
force. Lists and mappings (``workers``, ``keys``, ``tenants``, ``classes``) are replaced as a whole.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, get_args, get_origin, get_type_hints

import msgspec

from evenstep.config.convert import convert, of_text
from evenstep.config.fields import record_in, renamed, types_of
from evenstep.config.layers import Settled
from evenstep.config.messages import check_utf_8, expectation, unless_secret
from evenstep.config.yaml_file import Document, read_yaml
from evenstep.errors import InputError, nearest
from evenstep.gateway.config.config import GatewayConfig, checked
from evenstep.gateway.config.worker import Worker, worker_of

#: Prefix of the gateway's environment variables.
PREFIX = "EVENSTEP_"
#: Variables that Kubernetes sets in its pods if a service is called ``evenstep-admin``.
_OF_KUBERNETES = re.compile(r"\w*?(_SERVICE_(HOST|PORT)(=|_)|_PORT_\d+_(TCP|UDP)(=|_)|_PORT=(tcp|udp)://)")


@dataclass(frozen=True, slots=True)
class Sources:
    """The sources of a gateway's config, read again at every reload.

    Args:
        file: path of a YAML file; empty = no file.
        environment: variables; those of settings are used (`variable_of`). An unknown variable is an error if it begins with
            ``EVENSTEP_`` and the first word of a known one. Others are ignored, as are those that Kubernetes sets.
        flags: dotted setting -> the flag as users see it in messages, e.g. ``command line --port``, and the value it gives:
            text, which is converted as in the environment, or the value itself.
    """

    file: str = ""
    environment: Mapping[str, str] = field(default_factory=dict[str, str])
    flags: Mapping[str, tuple[str, Any]] = field(default_factory=dict[str, tuple[str, Any]])

    def settled(self, before_rules: Callable[[GatewayConfig], None] = lambda config: None) -> Settled[GatewayConfig]:
        """Read and merge all sources; returns the checked config, and the origin of each dotted setting as text.

        A flag overrides the environment, which overrides the file, which overrides the default. `before_rules` is called
        with the merged config before policy and predictor are checked. Raises InputError for an unreadable file, an unknown
        setting or a value that does not fit.
        """
        known = dict(leaves(GatewayConfig))
        origin = dict.fromkeys(known, "default")
        found: dict[str, Any] = {}
        for name, value, place in (*self._of_file(), *self._of_environment(known), *self._of_flags(known)):
            for other in [o for o in (*found, *origin) if o.startswith(f"{name}.") or name.startswith(f"{o}.")]:
                found.pop(other, None)  # a later ``listen.tls: null`` replaces the whole section, and a later leaf the null
                origin.pop(other, None)
            found[name], origin[name] = value, place
        values: dict[str, Any] = {}
        for name, value in found.items():
            _put(values, name, value)
        try:
            return Settled(checked(convert(Document("config", values), GatewayConfig), before_rules), origin)
        except InputError as error:
            raise placed(error, origin) from None

    def _of_file(self) -> Iterator[tuple[str, Any, str]]:
        """Yield (dotted setting, value, origin) for each setting in the YAML file."""
        if not self.file:
            return
        document = read_yaml(self.file)
        convert(document, GatewayConfig)
        yield from _flat(document.values, GatewayConfig, "", document)

    def _of_environment(self, known: Mapping[str, Any]) -> Iterator[tuple[str, Any, str]]:
        """Yield (dotted setting, value, origin) for each variable of a setting; `known`: dotted setting -> its type."""
        by_variable = {variable_of(name): name for name in known}
        sections = {variable.split("_")[1] for variable in by_variable}
        for variable, text in sorted(self.environment.items()):
            if _OF_KUBERNETES.match(f"{variable}={text}"):
                continue
            if variable in by_variable:
                name, place = by_variable[variable], f"environment {variable}"
                yield name, _read(text, known[name], place, name), place
            elif variable.startswith(PREFIX) and variable.split("_")[1] in sections:
                name = variable.removeprefix(PREFIX).lower().replace("_", ".", 1)
                hint = _renamed(name) or nearest(variable, by_variable)
                raise InputError("environment", "variable", variable, "a known variable", hint)

    def _of_flags(self, known: Mapping[str, Any]) -> Iterator[tuple[str, Any, str]]:
        """Yield (dotted setting, value, origin) for each flag; `known`: dotted setting -> its type."""
        for name, (place, value) in self.flags.items():
            if name not in known:
                hint = _renamed(name) or nearest(name, known)
                raise InputError(place, "setting", name, "a known setting", hint)
            read = _read(value, known[name], place, name) if isinstance(value, str) else msgspec.to_builtins(value)
            yield name, read, place


def leaves(kind: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the dotted name and type of every setting that is not a section, in the order of the fields.

    `kind` is a dataclass of settings, and `path` the dotted name of its section, put before each name; empty = the whole
    config.
    """
    for field_name, hint in types_of(kind).items():
        name, section = f"{path}.{field_name}".lstrip("."), record_in(hint)
        if section is None:
            yield name, hint
        else:
            yield from leaves(section, name)


def _renamed(name: str) -> str:
    """A hint on what became of a dotted setting that was renamed or removed; empty for any other name."""
    kind: Any = GatewayConfig
    *parents, last = name.split(".")
    for part in parents:
        kind = record_in(get_type_hints(kind).get(part)) if kind is not None else None
    return renamed(kind, last)


def variable_of(name: str) -> str:
    """The environment variable of a setting: ``EVENSTEP_LIMITS_BODY_BYTES`` for ``limits.body_bytes``."""
    return PREFIX + name.replace(".", "_").upper()


def _flat(values: Any, kind: Any, path: str, document: Document) -> Iterator[tuple[str, Any, str]]:
    """Yield (dotted setting, value, origin) for each setting in `values`, the section `path` of class `kind`."""
    for key, value in values.items():
        name, section = f"{path}.{key}".lstrip("."), record_in(types_of(kind)[key])
        if section is not None and isinstance(value, Mapping):
            yield from _flat(value, section, name, document)
        else:
            yield name, value, document.where(name)


def _put(values: dict[str, Any], name: str, value: Any) -> None:
    """Set the dotted setting `name` in the nested mappings `values`, adding mappings that are missing."""
    *parents, last = name.split(".")
    for part in parents:
        values = values.setdefault(part, {})
    values[last] = value


def _read(text: str, hint: Any, place: str, name: str) -> Any:
    """Convert the text of a setting to a plain value of type `hint`.

    Lists of text are separated by commas, or JSON if they begin with ``[``. Workers are separated by blanks; mappings and
    other lists are JSON. Where None is allowed, empty text, none and null give it. Raises InputError, which names the origin
    `place` and the setting `name`.
    """
    check_utf_8(place, name, text)
    if hint == list[Worker]:
        return [msgspec.to_builtins(worker_of(part, place)) for part in text.split()]
    if hint == list[str] and not text.startswith("["):
        return [part.strip() for part in text.split(",") if part.strip()]
    if get_origin(hint) in (list, dict):
        try:
            value = msgspec.json.decode(text)
        except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
            raise InputError(place, name, unless_secret(name, text), "JSON that fits", f"{error}.") from None
        alone: dict[str, Any] = {}
        _put(alone, name, value)
        convert(Document(place, alone), GatewayConfig)
        return value
    if type(None) in get_args(hint) and text in ("", "none", "null"):
        return None
    try:
        return of_text(text, hint)
    except msgspec.ValidationError as error:
        raise InputError(place, name, unless_secret(name, text), expectation(str(error), hint)) from None


def placed(error: InputError, origin: Mapping[str, str]) -> InputError:
    """A new error that names the origin of the value, if `error` is about a setting in `origin` or a worker; else `error`.

    Args:
        error: about the config: its `where` is ``config``, a section, an item such as ``keys[0]``, or ``worker NAME``.
        origin: dotted setting -> its origin, as `Settled.origin`.
    """
    if error.where.startswith("worker "):
        return InputError(f"{origin['workers']}, {error.where}", error.field, error.value, error.expected, error.hint)
    whole = error.field if error.where == "config" else f"{error.where}.{error.field}"
    name = whole.partition("[")[0]
    while name and name not in origin:
        name = name.rpartition(".")[0]
    return InputError(origin[name], whole, error.value, error.expected, error.hint) if name else error
