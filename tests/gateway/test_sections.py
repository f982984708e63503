"""The sections of the config agree with what they are made into."""

from __future__ import annotations

import dataclasses

import msgspec

from evenstep.dispatch.settings import Settings, TenantLimits
from evenstep.gateway.config.sections import Dispatch, Tenant


def test_the_dispatch_section_has_every_setting_of_the_dispatcher_with_its_default():
    wanted = {
        f.name: f.default for f in msgspec.structs.fields(Settings) if f.name != "tenants"
    }  # tenants are a section of their own
    wanted["stale_s"] = None  # as the section of the engines has it
    assert {f.name: f.default for f in dataclasses.fields(Dispatch)} == wanted


def test_a_tenant_has_every_limit_of_the_dispatcher_with_its_default():
    wanted = {f.name: f.default for f in msgspec.structs.fields(TenantLimits)}
    assert {f.name: f.default for f in dataclasses.fields(Tenant)} == wanted
