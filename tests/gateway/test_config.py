"""A gateway's config is seen to be in range and to fit together."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator
from typing import Any

import pytest

from evenstep import names
from evenstep.dispatch.settings import Dispatch, Tenant, TenantLimits
from evenstep.errors import InputError
from evenstep.gateway.config import sections
from evenstep.gateway.config.config import GatewayConfig, check_files, checked, is_loopback
from evenstep.gateway.config.sections import Admin, ApiKey, Decisions, Engines, Limits, Listen, RequestClass, Traces
from evenstep.gateway.config.worker import Discovery, Dns, Kubernetes, Worker


def test_the_defaults_are_in_range():
    assert checked(GatewayConfig()) == GatewayConfig()


def test_every_worker_gets_the_slots_that_the_config_says_unless_it_says_its_own():
    config = GatewayConfig(workers=[Worker("http://a:1"), Worker("http://b:1", slots=3)], slots=9)
    assert [(w.name, w.slots) for w in config.fleet()] == [("a:1", 9), ("b:1", 3)]


def test_a_page_is_stale_after_three_readings_and_a_time_out_unless_the_config_says_otherwise():
    assert GatewayConfig().settings().stale_s == 4.5
    engines = Engines(scrape_s=5.0, scrape_timeout_s=2.0)
    assert GatewayConfig(engines=engines).settings().stale_s == 17.0
    assert GatewayConfig(engines=engines, dispatch=Dispatch(stale_s=3.0)).settings().stale_s == 3.0


def test_two_workers_of_one_name_are_refused():
    with pytest.raises(InputError, match=r"workers: name is 'a:1'; expected each worker once"):
        checked(GatewayConfig(workers=[Worker("http://a:1"), Worker("http://a:1/")]))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (Worker("http://a:1"), Worker("http://a:1/", name="b")),
        (Worker("http://a"), Worker("http://A:80", name="b")),
        (Worker("http://a:1", ranks=2), Worker("http://a:1", name="b", rank=1)),
        (Worker("http://a:1", rank=1), Worker("http://a:1", name="b")),
        (Worker("http://a:1"), Worker("http://a.:1")),
        (Worker("http://localhost:1", name="a:1"), Worker("http://127.0.0.1:1")),
        (Worker("http://127.0.0.1:1", name="a:1"), Worker("http://[::1]:1")),
        (Worker("http://[::1]:1", name="a:1"), Worker("http://LOCALHOST:1")),
        (Worker("http://10.0.0.1:1", name="a:1"), Worker("http://[::ffff:10.0.0.1]:1")),
        (Worker("http://[fe80::1]:1", name="a:1"), Worker("http://[FE80:0::1]:1")),
    ],
)
def test_an_engine_that_is_listed_twice_is_refused(one, other):
    with pytest.raises(InputError, match=r"workers: url is .*; expected each engine once. a:[180]+(#1)? is there already"):
        checked(GatewayConfig(workers=[one, other]))


@pytest.mark.parametrize("engine", ["sglang", "openai"])
def test_a_prefiller_whose_engine_cannot_hand_over_kv_is_refused(engine):
    with pytest.raises(InputError, match=f"workers is '{engine}'; expected an engine that hands over the KV of its prompts"):
        checked(GatewayConfig(workers=[Worker("http://p:1", role="prefill", engine=engine), Worker("http://d:1")]))
    assert checked(GatewayConfig(workers=[Worker("http://p:1", role="prefill"), Worker("http://d:1", engine=engine)]))


@pytest.mark.parametrize("more", [{"ranks": 2}, {"rank": 0}])
def test_ranks_of_an_engine_without_a_rank_header_are_refused(more):
    with pytest.raises(InputError, match="workers is 'openai'; expected an engine with a header that picks a rank"):
        checked(GatewayConfig(workers=[Worker("http://a:1", engine="openai", **more)]))
    source = Dns("a", worker=Worker("http://", engine="openai", **more))
    with pytest.raises(InputError, match="worker.engine is 'openai'; expected an engine with a header that picks a rank"):
        checked(GatewayConfig(discovery=Discovery(dns=[source])))


def test_ranks_roles_and_paths_of_one_url_are_engines_of_their_own():
    one = Worker("http://a:1", ranks=4096)
    others = (Worker("http://a:1", name="p", role="prefill"), Worker("http://a:1/x", name="x"))
    assert len(checked(GatewayConfig(workers=[one, *others])).fleet()) == 4098
    assert len(checked(GatewayConfig(workers=[Worker("http://127.0.0.1:1"), Worker("http://127.0.0.2:1")])).fleet()) == 2


def test_a_policy_that_shares_by_weight_is_told_the_weights_of_the_classes():
    classes = {"fast": RequestClass(weight=4.0), "slow": RequestClass(weight=0.5)}
    assert GatewayConfig(policy="best", classes=classes).weighed_policy() == "best:class_weights=1/4/0.5"
    own = "best:horizon=9,class_weights=1/1/1"
    assert GatewayConfig(policy=own, classes=classes).weighed_policy() == own
    assert GatewayConfig(policy="best:horizon=9").weighed_policy() == "best:horizon=9"
    told = GatewayConfig(policy="best:horizon=9", classes=classes).weighed_policy()
    assert names.build("routing", names.parse(told)).class_weights == (1.0, 4.0, 0.5)
    assert GatewayConfig(policy="br-0", classes=classes).weighed_policy() == "br-0"
    own = GatewayConfig(policy="evenstep.routing.policies.best:Best", classes=classes).weighed_policy()
    assert names.build("routing", names.parse(own)).class_weights == (1.0, 4.0, 0.5)


def test_dispatchers_are_told_the_limits_of_tenants():
    config = GatewayConfig(tenants={"a": Tenant(concurrent=3)}, dispatch=Dispatch(gather_ms=0.0))
    assert config.settings().tenants == {"a": TenantLimits(concurrent=3)}
    assert config.settings().gather_ms == 0.0


@pytest.mark.parametrize(
    ("config", "said"),
    [
        (GatewayConfig(listen=Listen(port=70000)), "listen.port is 70000; expected a number from 0 to 65535"),
        (GatewayConfig(limits=Limits(head_s=0.0)), "limits.head_s is 0.0; expected a number above 0"),
        (GatewayConfig(limits=Limits(body_bytes=0)), "limits.body_bytes is 0; expected a number >= 1"),
        (GatewayConfig(dispatch=Dispatch(retries=-1)), "retries is -1; expected a number >= 0"),
        (
            GatewayConfig(policy="bf-io:horizon=20,predictor=survival"),
            "expected a policy without its predictor. Name it in the setting predictor",
        ),
        (GatewayConfig(policy="brh"), "policy is 'brh'; expected a known policy. Did you mean br-h"),
        (GatewayConfig(predictor="surival"), "predictor is 'surival'; expected a known predictor"),
        (GatewayConfig(admin=Admin(host="0.0.0.0")), "admin.host is '0.0.0.0'; expected a loopback address"),
        *[
            (
                GatewayConfig(session_headers=["x-a", name]),
                rf"session_headers\[1\] is '{name}'; expected the name of a header",
            )
            for name in ("a b", "", "x-ä", "x:")
        ],
        *[
            (GatewayConfig(allowed_origins=["*", name]), r"allowed_origins\[1\] is .*; expected an origin such as")
            for name in ("chat.example", "https://chat.example/", "https://*.example", "https://a\r\nb", "https://ä", "")
        ],
        (GatewayConfig(keys=[ApiKey("k", "")]), r"keys\[0\].tenant is ''"),
        (GatewayConfig(keys=[ApiKey("k", "t", ["fast"])]), r"keys\[0\].classes is 'fast'"),
        (GatewayConfig(classes={"a": RequestClass(weight=0.0)}), "classes.a.weight is 0.0"),
        (GatewayConfig(tenants={"a": Tenant(per_s=-1.0)}), "per_s is -1.0"),
        (GatewayConfig(traces=Traces(endpoint="foo")), "traces.endpoint is 'foo'; expected a URL"),
        (GatewayConfig(discovery=Discovery(dns=[Dns("", port=5)])), r"discovery.dns\[0\]: name is ''"),
        (GatewayConfig(discovery=Discovery(kubernetes=[Kubernetes("")])), r"discovery.kubernetes\[0\]: selector is ''"),
        (GatewayConfig(workers=[Worker("http://a:1", slots=0)]), "slots is 0; expected an integer >= 1"),
    ],
)
def test_a_value_out_of_range_is_refused_by_name(config, said):
    with pytest.raises(InputError, match=said):
        checked(config)


def test_an_open_admin_port_needs_a_key_and_a_loopback_one_does_not():
    open_port = Admin(host="0.0.0.0", key="env:ADMIN_KEY")
    assert checked(GatewayConfig(admin=open_port)).admin == open_port
    checked(GatewayConfig(admin=dataclasses.replace(open_port, key="", enabled=False)))
    assert [is_loopback(h) for h in ("127.0.0.1", "::1", "localhost", "10.0.0.1", "example.org")] == [
        True,
        True,
        True,
        False,
        False,
    ]


def test_files_that_are_needed_later_are_looked_at_before(tmp_path):
    (tmp_path / "bad.json").write_text("{")
    check_files(GatewayConfig(decisions=Decisions(path=str(tmp_path / "log.jsonl"))))
    for config, said in (
        (GatewayConfig(decisions=Decisions(path=str(tmp_path))), "decisions.path is"),
        (
            GatewayConfig(decisions=Decisions(path="/no/such/folder/log")),
            "expected a file that can be written",
        ),
        (GatewayConfig(tokenizers={"m": str(tmp_path / "bad.json")}), "tokenizers.m: "),
    ):
        with pytest.raises(InputError, match=said):
            check_files(config)


def _numbers(section: Any, before: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """The paths of all settings that are numbers by default, but for `dispatch`, which checks itself."""
    for field in dataclasses.fields(section):
        value, path = getattr(section, field.name), (*before, field.name)
        if dataclasses.is_dataclass(value):
            yield from _numbers(value, path)
        elif isinstance(value, int | float) and not isinstance(value, bool):
            yield path


def _with(section: Any, path: tuple[str, ...], value: float) -> Any:
    name, *rest = path
    return dataclasses.replace(section, **{name: _with(getattr(section, name), tuple(rest), value) if rest else value})


@pytest.mark.parametrize("path", [*_numbers(GatewayConfig())], ids=".".join)
@pytest.mark.parametrize("value", [-1, math.nan])
def test_every_number_has_a_range(path, value):
    """A setting that is in no table of ranges in config.py would take any number."""
    with pytest.raises(InputError):
        checked(_with(GatewayConfig(), path, value))


def test_every_number_of_a_section_has_a_range():
    kinds = [kind for kind in vars(sections).values() if dataclasses.is_dataclass(kind)]
    numbers = [
        field for kind in (GatewayConfig, *kinds) for field in dataclasses.fields(kind) if field.type in ("int", "float")
    ]
    assert len(numbers) > 20 and [field.name for field in numbers if not field.metadata] == []
