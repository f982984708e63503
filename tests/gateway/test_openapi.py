"""The admin API's description is that of its routes."""

from __future__ import annotations

import asyncio
import inspect
import re
import sys

import pytest
from tests.gateway.operating import operating

from evenstep.gateway.config.sections import Admin
from evenstep.gateway.operate import admin
from evenstep.gateway.operate.admin import AdminApi, NewPolicy
from evenstep.gateway.operate.openapi import document


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


def test_every_query_parameter_that_is_read_is_described_and_no_other():
    read = set(re.findall(r'request\.query\.get\("(\w+)"', inspect.getsource(admin)))
    operations = [one for item in document()["paths"].values() for one in item.values()]
    parameters = [one for operation in operations for one in operation.get("parameters", ())]
    assert {one["name"] for one in parameters if one["in"] == "query"} == read == {"drain", "rank"}


@pytest.mark.slow
def test_the_api_does_what_its_description_says_whatever_it_is_asked(tmp_path):
    """Schemathesis asks everything the description allows, and much that it does not."""

    async def story() -> tuple[int, str]:
        async with operating(admin__key="sk-admin") as all_:
            all_.gateway.drain = lambda: None  # else nothing is ready any more, as it should be
            url = f"http://127.0.0.1:{all_.operation.port}/openapi.json"
            process = await asyncio.create_subprocess_exec(
                sys.executable,
                "-m",
                "schemathesis.cli",
                "run",
                url,
                "--checks",
                "all",
                "--max-examples",
                "25",
                "--seed",
                "1",
                "-H",
                "Authorization: Bearer sk-admin",
                "--exclude-checks",
                "positive_data_acceptance",
                "--phases",
                "examples,coverage,fuzzing",
                "--generation-database",
                "none",
                "--no-color",
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.STDOUT,
                cwd=tmp_path,
            )
            said, _ = await process.communicate()
            return process.returncode or 0, said.decode()

    code, said = asyncio.run(asyncio.wait_for(story(), 300))
    assert code == 0, said[-6000:]
