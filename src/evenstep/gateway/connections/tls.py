"""TLS contexts: certificates for clients and operators, and trust for connections to engines.

A reload refreshes the certificates of running listeners, and makes a new context for engines; later connections use them.
"""

from __future__ import annotations

import functools
import ssl
from collections.abc import Callable

from evenstep.errors import InputError
from evenstep.gateway.config.sections import Engines, Tls


def server_context(tls: Tls, where: str) -> ssl.SSLContext:
    """A new context of a listener: TLS 1.2 or later, HTTP/1.1, and client certificates if there is a `client_ca`.

    `where` is the section of the config, for errors. Raises InputError if a file is unreadable or does not match.
    """
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["http/1.1"])
    load_certificate(context, tls, where)
    if tls.client_ca:
        context.verify_mode = ssl.CERT_REQUIRED
    return context


def load_certificate(context: ssl.SSLContext, tls: Tls, where: str) -> None:
    """Load certificate, key and `client_ca` into a context, again for later connections.

    An authority that was trusted before stays so, since a context cannot forget it. `where` is the section of the config,
    for errors. Raises InputError if a file is unreadable or does not match; the context is unchanged then.
    """
    fresh = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    for one in (fresh, context):  # the running one is changed only if a new one took the files
        load = functools.partial(one.load_cert_chain, tls.certificate, tls.key or None, password="")  # no prompt
        _load(load, where, "certificate", tls.certificate)
        if tls.client_ca:
            _load(functools.partial(one.load_verify_locations, tls.client_ca), where, "client_ca", tls.client_ca)


def client_context(engines: Engines) -> ssl.SSLContext:
    """The context for engines with https; do not change it, since it may be shared.

    It trusts ``engines.ca`` in addition to the system's authorities; without ``engines.verify``, every certificate. It shows
    ``engines.client_certificate``. Raises InputError if a file is unreadable, empty or does not match.
    """
    shows = engines.client_certificate or engines.client_key
    if engines.verify and not (engines.ca or shows):
        return _trusting_the_system()
    context = _asking()
    if engines.ca:
        _load(lambda: context.load_verify_locations(engines.ca), "engines", "ca", engines.ca)
    if shows:
        certificate, key = engines.client_certificate, engines.client_key or None
        _load(lambda: context.load_cert_chain(certificate, key, password=""), "engines", "client_certificate", certificate)
    if not engines.verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context


@functools.cache
def _trusting_the_system() -> ssl.SSLContext:
    """A context that trusts the system's authorities; always the same one, because loading them takes 50 ms."""
    return _asking()


def _asking() -> ssl.SSLContext:
    """A new context for connections to engines: TLS 1.2 or later, the system's authorities."""
    context = ssl.create_default_context(ssl.Purpose.SERVER_AUTH)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    return context


def _load(call: Callable[[], None], where: str, field: str, path: str) -> None:
    """Call a function that loads the file `path`; turn its error into an InputError about the setting `field`."""
    try:
        call()
    except FileNotFoundError:
        raise InputError(where, field, path, "readable PEM files", "One of them is not there.") from None
    except (OSError, ssl.SSLError) as error:
        said = getattr(error, "reason", None) or error.strerror or str(error)
        raise InputError(where, field, path, "PEM files that fit", f"{said}.") from None
