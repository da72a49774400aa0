"""Children of a unit: their names, their members and their owner."""

from typing import Any

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuruntime.models.kinds import labels
from gpuruntime.models.kinds.functions import Serverless
from gpuruntime.models.kinds.templates import Port, Template
from gpuruntime.models.kinds.units import (
    Access,
    AccessStatus,
    GPUUnit,
    GPUUnitSpec,
    GPUUnitStatus,
    child_key,
    selector_of,
)
from gpuruntime.models.kubernetes.metadata import ObjectMeta
from gpuruntime.models.kubernetes.names import is_dns_label
from gpuruntime.reconcilers.children.drift import patch_towards
from gpuruntime.reconcilers.options import UnitOptions
from gpuruntime.reconcilers.unit.children import (
    access_status,
    access_url,
    deployment_of,
    is_served,
    policy_of,
    service_of,
)
from gpuruntime.reconcilers.unit.pod_template import Placement
from gpuruntime.tickets.addresses import parse_public_url, slug_of
from tests.options import configured

OPTIONS = configured(UnitOptions)
PORTS = Template(ports=(Port(name="http", port=80), Port(name="dns", port=53, protocol="UDP")))


def unit(
    name: str = "demo", *, namespace: str = OPTIONS.instance_namespace, **spec: Any
) -> GPUUnit:
    return GPUUnit(
        metadata=ObjectMeta(name=name, namespace=namespace, uid="u1", generation=4),
        spec=GPUUnitSpec(specName="g1.1", **spec),
    )


def deployment(of: GPUUnit) -> Any:
    return deployment_of(of, OPTIONS, Placement(), selector_of(of)).body


def service(of: GPUUnit) -> Any:
    return service_of(of, OPTIONS, selector_of(of)).body if is_served(of, OPTIONS) else None


def test_children_have_the_units_name_behind_a_prefix() -> None:
    assert child_key(unit()) == (OPTIONS.instance_namespace, "unit-demo")
    longest = "a" * 58
    assert child_key(unit(longest)).name == f"unit-{longest}"


def test_two_long_names_with_the_same_beginning_have_separate_children() -> None:
    first, second = (child_key(unit("a" * 58 + end)).name for end in ("-one", "-two"))
    assert first != second
    assert first[:45] == second[:45]


@given(st.from_regex(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?", fullmatch=True))
def test_every_name_of_a_unit_gives_a_valid_name_of_a_service(name: str) -> None:
    assert is_dns_label(child_key(unit(name)).name)


def test_the_unit_is_the_controller_of_its_children() -> None:
    owner = {
        "apiVersion": "runtime.lokiwager.io/v1alpha1",
        "kind": "GPUUnit",
        "name": "demo",
        "uid": "u1",
        "controller": True,
        "blockOwnerDeletion": True,
    }
    for child in (deployment(unit()), service(unit(template=PORTS))):
        assert child["metadata"]["ownerReferences"] == [owner]
        assert child["metadata"]["labels"][labels.UNIT] == "demo"


def test_a_deployment_runs_one_pod_at_a_time_and_none_while_suspended() -> None:
    spec = deployment(unit())["spec"]
    assert (spec["replicas"], spec["strategy"]) == (1, {"type": "Recreate"})
    assert deployment(unit(suspended=True))["spec"]["replicas"] == 0


def test_the_selector_finds_the_pods_of_the_template() -> None:
    spec = deployment(unit())["spec"]
    pod_labels = spec["template"]["metadata"]["labels"]
    own = {labels.UNIT: "demo", labels.UNIT_UID: "u1"}
    assert own.items() <= pod_labels.items()
    policy: Any = policy_of(unit(), OPTIONS, selector_of(unit())).body["spec"]
    assert spec["selector"] == policy["podSelector"] == {"matchLabels": own}
    assert service(unit(template=PORTS))["spec"]["selector"] == own


def test_a_policy_admits_the_gateways_pods_once_the_gateway_has_an_address() -> None:
    public = attrs.evolve(OPTIONS, public_address=parse_public_url("https://*.units.example.com"))
    of = unit(template=PORTS)
    without, admitting = (policy_of(of, each, selector_of(of)) for each in (OPTIONS, public))
    spec: Any = admitting.body["spec"]
    [rule] = spec["ingress"]
    assert rule["from"][-1] == {
        "namespaceSelector": {
            "matchLabels": {"kubernetes.io/metadata.name": OPTIONS.system_namespace}
        },
        "podSelector": {"matchLabels": {labels.APP_NAME: "gpuruntime-gateway"}},
    }
    patch: Any = patch_towards(admitting, without.annotated())
    assert patch["spec"] == {"ingress": [rule]}
    assert patch_towards(admitting, admitting.annotated()) == {}


def test_a_child_records_its_inputs() -> None:
    first = deployment_of(unit(), OPTIONS, Placement(), selector_of(unit()))
    assert (first.generation, first.revision) == (4, OPTIONS.template_revision)
    other = deployment_of(unit(image="other"), OPTIONS, Placement(), selector_of(unit()))
    moved = deployment_of(unit(), OPTIONS, Placement(preferred_node="node-1"), selector_of(unit()))
    assert first.inputs == moved.inputs != other.inputs


def test_a_service_has_one_port_for_each_port_of_the_template() -> None:
    assert service(unit(template=PORTS))["spec"]["ports"] == [
        {"name": "http", "port": 80, "targetPort": 80, "protocol": "TCP"},
        {"name": "dns", "port": 53, "targetPort": 53, "protocol": "UDP"},
    ]


@pytest.mark.parametrize(
    "of",
    [unit(), unit(template=PORTS, namespace=OPTIONS.stock_namespace)],
    ids=["no ports", "stock"],
)
def test_a_unit_that_serves_nothing_has_no_service_and_no_address(of: GPUUnit) -> None:
    assert service(of) is None
    assert access_url(of, OPTIONS) == ""


def test_the_address_has_the_primary_port_and_the_clusters_domain() -> None:
    options = attrs.evolve(OPTIONS, cluster_domain="example.test")
    access = Access(primaryPort="dns", scheme="grpc")
    host = "unit-demo.runtime-instance.svc.example.test"
    assert access_url(unit(template=PORTS), options) == f"http://{host}:80"
    assert access_url(unit(template=PORTS, access=access), options) == f"grpc://{host}:53"


PUBLIC = attrs.evolve(OPTIONS, public_address=parse_public_url("https://*.units.example.com"))


def test_a_gateway_serves_every_tcp_port_of_a_unit_under_its_number() -> None:
    of = unit(template=PORTS)
    slug = slug_of("demo", of.metadata.uid)
    assert access_status(of, PUBLIC) == AccessStatus(
        slug=slug, urls={"http": f"https://80--{slug}.units.example.com"}
    )
    assert access_status(unit(), PUBLIC) == AccessStatus(slug=slug)


@pytest.mark.parametrize(
    ("before", "now", "after"),
    [
        pytest.param(None, None, None, id="not known yet"),
        pytest.param(None, True, True, id="ready"),
        pytest.param(True, False, False, id="no longer ready"),
        pytest.param(True, None, True, id="a new leader does not know yet"),
    ],
)
def test_the_status_says_whether_the_gateway_is_ready(
    before: bool | None, now: bool | None, after: bool | None
) -> None:
    of = unit(template=PORTS)
    of = attrs.evolve(of, status=GPUUnitStatus(access=AccessStatus(gatewayReady=before)))
    assert access_status(of, PUBLIC, is_gateway_ready=now).gatewayReady is after
    assert access_status(of, OPTIONS, is_gateway_ready=now).gatewayReady is None


def test_a_port_named_terminal_does_not_have_the_origin_of_the_terminals_page() -> None:
    template = Template(ports=(Port(name="terminal", port=7681),))
    status = access_status(unit(template=template), PUBLIC)
    assert status.urls == {"terminal": f"https://7681--{status.slug}.units.example.com"}
    assert PUBLIC.public_address is not None
    assert PUBLIC.public_address.of_terminal(status.slug) not in status.urls.values()


@pytest.mark.parametrize(
    ("of", "options"),
    [
        (unit(template=PORTS), OPTIONS),
        (unit(template=PORTS, namespace=OPTIONS.stock_namespace), PUBLIC),
        (unit(template=PORTS, serverless=Serverless(requestID="fn")), PUBLIC),
    ],
    ids=["without a gateway", "stock", "a template of workers"],
)
def test_what_no_gateway_serves_has_no_url(of: GPUUnit, options: UnitOptions) -> None:
    assert access_status(of, options) == AccessStatus()
