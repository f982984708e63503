"""The admin API's description is that of its routes."""

from __future__ import annotations

import re

from evenstep.gateway.admin import AdminApi, NewPolicy
from evenstep.gateway.openapi import document
from evenstep.gateway.sections import Admin


def test_every_route_is_described_and_every_description_is_a_route():
    api = AdminApi(Admin(), None, None, None, None)  # type: ignore[arg-type]
    routes = {
        (route.method.lower(), route.resource.canonical)
        for route in api.app().router.routes()
        if route.resource is not None and route.method != "HEAD"
    }
    described = {(method, path) for path, item in document()["paths"].items() for method in item}
    assert described == routes


def test_every_reference_leads_somewhere():
    text = str(document())
    names = set(re.findall(r"#/components/schemas/(\w+)", text))
    assert names and names <= set(document()["components"]["schemas"])
    assert "$defs" not in text


def test_bodies_are_described_as_they_are_read():
    schemas = document()["components"]["schemas"]
    assert list(schemas["Policy"]["properties"]) == list(NewPolicy.__dataclass_fields__)
    assert schemas["Worker"]["required"] == ["url"] and schemas["Worker"]["additionalProperties"] is False
