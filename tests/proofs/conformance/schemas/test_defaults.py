"""Defaults of built-in kinds, and the canonical form of values."""

from typing import Any

import pytest

from gpuruntime.models.kubernetes.resources import Resource
from tests.proofs.conformance.calls import Api, Document
from tests.proofs.conformance.objects import (
    DEPLOYMENTS,
    JOBS,
    LEASES,
    NETWORK_POLICIES,
    SERVICES,
    config_map,
    deployment,
    job,
    named,
    pod_spec,
)


def service(**spec: Any) -> Document:
    return named(SERVICES, "s", spec={"ports": [{"port": 80}], **spec})


def policy(**spec: Any) -> Document:
    return named(NETWORK_POLICIES, "n", spec={"podSelector": {}, **spec})


@pytest.mark.parametrize(
    ("of", "body", "expected"),
    [
        (
            DEPLOYMENTS,
            deployment("d", replicas=0),
            {
                "strategy": {
                    "type": "RollingUpdate",
                    "rollingUpdate": {"maxSurge": "25%", "maxUnavailable": "25%"},
                },
                "revisionHistoryLimit": 10,
                "progressDeadlineSeconds": 600,
            },
        ),
        (
            DEPLOYMENTS,
            deployment("d", replicas=0, strategy={"type": "Recreate"}),
            {"strategy": {"type": "Recreate"}},
        ),
        (
            JOBS,
            job("j", suspend=True),
            {
                "backoffLimit": 6,
                "completions": 1,
                "parallelism": 1,
                "completionMode": "NonIndexed",
                "suspend": True,
            },
        ),
        (
            SERVICES,
            service(),
            {
                "type": "ClusterIP",
                "sessionAffinity": "None",
                "ports": [{"port": 80, "protocol": "TCP", "targetPort": 80}],
                "internalTrafficPolicy": "Cluster",
                "ipFamilies": ["IPv4"],
                "ipFamilyPolicy": "SingleStack",
            },
        ),
        (NETWORK_POLICIES, policy(), {"policyTypes": ["Ingress"]}),
        (NETWORK_POLICIES, policy(egress=[{}]), {"policyTypes": ["Ingress", "Egress"]}),
    ],
    ids=["deployment", "recreate", "job", "service", "ingress", "egress"],
)
async def test_absent_members_of_a_spec_are_filled_in(
    api: Api, namespace: str, of: Resource[Any], body: Document, expected: Document
) -> None:
    made = (await api.post(of.path(namespace=namespace), body)).ok(201)
    assert {name: made["spec"].get(name) for name in expected} == expected


async def template_of(api: Api, namespace: str, **container: Any) -> Document:
    body = deployment("d", replicas=0)
    body["spec"]["template"]["spec"]["containers"][0] |= container
    made = (await api.post(DEPLOYMENTS.path(namespace=namespace), body)).ok(201)
    spec: Document = made["spec"]["template"]["spec"]
    return spec


async def test_a_pod_template_is_filled_in(api: Api, namespace: str) -> None:
    spec = await template_of(api, namespace, ports=[{"containerPort": 80}])
    assert spec["restartPolicy"] == "Always"
    assert spec["dnsPolicy"] == "ClusterFirst"
    assert spec["schedulerName"] == "default-scheduler"
    assert spec["terminationGracePeriodSeconds"] == 30
    (container,) = spec["containers"]
    assert container["imagePullPolicy"] == "IfNotPresent"
    assert container["terminationMessagePath"] == "/dev/termination-log"
    assert container["terminationMessagePolicy"] == "File"
    assert container["ports"] == [{"containerPort": 80, "protocol": "TCP"}]


@pytest.mark.parametrize(
    ("image", "expected"),
    [("a", "Always"), ("a:latest", "Always"), ("a:1", "IfNotPresent"), ("h:5000/a", "Always")],
)
async def test_the_tag_of_an_image_decides_its_pull_policy(
    api: Api, namespace: str, image: str, expected: str
) -> None:
    spec = await template_of(api, namespace, image=image)
    assert spec["containers"][0]["imagePullPolicy"] == expected


async def test_a_probe_gets_its_defaults(api: Api, namespace: str) -> None:
    spec = await template_of(api, namespace, readinessProbe={"tcpSocket": {"port": 80}})
    assert spec["containers"][0]["readinessProbe"] == {
        "tcpSocket": {"port": 80},
        "timeoutSeconds": 1,
        "periodSeconds": 10,
        "successThreshold": 1,
        "failureThreshold": 3,
    }


async def test_limits_do_not_become_requests_in_a_template(api: Api, namespace: str) -> None:
    """Only Pods get requests from their limits."""
    spec = await template_of(api, namespace, resources={"limits": {"cpu": "1"}})
    assert spec["containers"][0]["resources"] == {"limits": {"cpu": "1"}}


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ("1000m", "1"),
        ("0.5", "500m"),
        ("1024Mi", "1Gi"),
        ("1.5Gi", "1536Mi"),
        ("1e3", "1e3"),
        ("1000", "1k"),
        ("0", "0"),
    ],
)
async def test_quantities_are_written_in_canonical_form(
    api: Api, namespace: str, given: str, kept: str
) -> None:
    spec = await template_of(api, namespace, resources={"limits": {"memory": given}})
    assert spec["containers"][0]["resources"]["limits"]["memory"] == kept


@pytest.mark.parametrize(
    ("given", "kept"), [("1n", "1m"), ("1000001u", "1001m"), ("1e-9", "1e-3"), ("0.0005", "1m")]
)
async def test_resources_are_rounded_up_to_thousandths(
    api: Api, namespace: str, given: str, kept: str
) -> None:
    spec = await template_of(api, namespace, resources={"limits": {"cpu": given}})
    assert spec["containers"][0]["resources"]["limits"]["cpu"] == kept


async def test_the_size_limit_of_a_volume_is_exact_to_a_billionth(
    api: Api, namespace: str
) -> None:
    volume = {"name": "v", "emptyDir": {"sizeLimit": "1n"}}
    template = pod_spec(volumes=[volume])
    body = deployment("d", replicas=0, template=template)
    made = (await api.post(DEPLOYMENTS.path(namespace=namespace), body)).ok(201)
    assert made["spec"]["template"]["spec"]["volumes"] == [volume]


async def test_a_number_is_accepted_as_a_quantity(api: Api, namespace: str) -> None:
    spec = await template_of(api, namespace, resources={"limits": {"nvidia.com/gpu": 2}})
    assert spec["containers"][0]["resources"]["limits"]["nvidia.com/gpu"] == "2"


async def test_a_service_gets_an_address_and_keeps_it(api: Api, namespace: str) -> None:
    services = SERVICES.path(namespace=namespace)
    made = (await api.post(services, service())).ok(201)
    address = made["spec"]["clusterIP"]
    assert address.count(".") == 3
    assert made["spec"]["clusterIPs"] == [address]
    ports = [{"port": 81}]
    after = (await api.patch(f"{services}/s", {"spec": {"ports": ports}})).ok(200)
    assert after["spec"]["clusterIP"] == address
    replaced = service()
    replaced["metadata"]["resourceVersion"] = after["metadata"]["resourceVersion"]
    assert (await api.put(f"{services}/s", replaced)).ok(200)["spec"]["clusterIP"] == address


async def test_the_address_of_a_service_cannot_change(api: Api, namespace: str) -> None:
    services = SERVICES.path(namespace=namespace)
    (await api.post(services, service())).ok(201)
    answer = await api.patch(f"{services}/s", {"spec": {"clusterIP": "10.96.99.99"}})
    assert ("spec.clusterIPs[0]", "FieldValueInvalid") in answer.causes


async def test_a_headless_service_has_no_address(api: Api, namespace: str) -> None:
    made = (await api.post(SERVICES.path(namespace=namespace), service(clusterIP="None"))).ok(201)
    assert made["spec"]["clusterIP"] == "None"


@pytest.mark.parametrize(
    ("spec", "cause"),
    [
        ({"ports": []}, ("spec.ports", "FieldValueRequired")),
        ({"ports": [{"port": 0}]}, ("spec.ports[0].port", "FieldValueInvalid")),
        ({"ports": [{"port": 1}, {"port": 2}]}, ("spec.ports[0].name", "FieldValueRequired")),
        ({"type": "Hidden"}, ("spec.type", "FieldValueNotSupported")),
    ],
    ids=["no port", "port 0", "unnamed ports", "type"],
)
async def test_an_invalid_service_is_refused(
    api: Api, namespace: str, spec: Document, cause: tuple[str, str]
) -> None:
    answer = await api.post(SERVICES.path(namespace=namespace), service(**spec))
    assert cause in answer.causes


@pytest.mark.parametrize("name", ["1st", "a.b", "x" * 64], ids=["digit", "dot", "long"])
async def test_a_service_needs_a_name_for_dns(api: Api, namespace: str, name: str) -> None:
    answer = await api.post(
        SERVICES.path(namespace=namespace), {**service(), "metadata": {"name": name}}
    )
    assert ("metadata.name", "FieldValueInvalid") in answer.causes


async def test_the_times_of_a_lease_keep_their_microseconds(api: Api, namespace: str) -> None:
    leases = LEASES.path(namespace=namespace)
    spec = {
        "holderIdentity": "a",
        "leaseDurationSeconds": 15,
        "acquireTime": "2026-01-02T03:04:05.000000Z",
        "renewTime": "2026-01-02T03:04:05.678901Z",
        "leaseTransitions": 1,
    }
    (await api.post(leases, named(LEASES, "l", spec=spec))).ok(201)
    assert (await api.get(f"{leases}/l")).ok(200)["spec"] == spec


async def test_null_members_are_treated_as_absent(api: Api, maps: str) -> None:
    body = {**config_map("a"), "data": None, "binaryData": None}
    body["metadata"] |= {"labels": None, "annotations": None, "finalizers": None}
    made = (await api.post(maps, body)).ok(201)
    assert made.keys() == {"apiVersion", "kind", "metadata"}
    assert not {"labels", "annotations", "finalizers"} & made["metadata"].keys()


async def test_empty_members_are_treated_as_absent(api: Api, maps: str) -> None:
    body: Document = {**config_map("a"), "data": {}, "binaryData": {}}
    body["metadata"] |= {"labels": {}, "annotations": {}, "finalizers": [], "ownerReferences": []}
    made = (await api.post(maps, body)).ok(201)
    assert made.keys() == {"apiVersion", "kind", "metadata"}
    emptied = {"labels", "annotations", "finalizers", "ownerReferences"}
    assert not emptied & made["metadata"].keys()


async def test_empty_members_of_a_pod_template_are_treated_as_absent(
    api: Api, namespace: str
) -> None:
    spec = await template_of(api, namespace, env=[], args=[], ports=[], volumeMounts=[])
    assert not {"env", "args", "ports", "volumeMounts"} & spec["containers"][0].keys()
    assert spec["containers"][0]["resources"] == {}
    assert spec["securityContext"] == {}
