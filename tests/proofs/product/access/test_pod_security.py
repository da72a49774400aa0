"""Admission of a real control plane accepts all our Pods, at both levels and under a quota."""

import http.client
import json
import ssl
from collections.abc import Iterator
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from gpuruntime.models.encoding import codec
from gpuruntime.models.encoding.json import JsonObject, JsonValue
from gpuruntime.models.kinds.units import selector_of
from gpuruntime.models.kubernetes.pods import PODS
from gpuruntime.models.kubernetes.secrets import SECRETS, Secret
from gpuruntime.models.kubernetes.volumes import JOBS
from gpuruntime.reconcilers.functions.worker_secret_plan import patch_of_secret
from gpuruntime.reconcilers.storage.children import accessor_deployment
from gpuruntime.reconcilers.unit.children import deployment_of
from tests import specs
from tests.dry_runs import (
    Ask,
    as_stored,
    children_of_storage,
    children_of_unit,
    pod_from,
    second_writes,
    secret_of,
    written_once,
)
from tests.eventually import equals, eventually_blocking
from tests.proofs.real_cluster.controlplane import ControlPlane
from tests.proofs.real_cluster.product import Installation, installation

pytestmark = pytest.mark.cluster

NAME = "hardened"
UNITS, STORAGES = 60, 40
OPTIONS = {
    level: specs.options(is_restricted=level == "restricted")
    for level in ("baseline", "restricted")
}
SANDBOX = {
    "apiVersion": "node.k8s.io/v1",
    "kind": "RuntimeClass",
    "metadata": {"name": specs.RUNTIME_CLASS},
    "handler": "sandbox",
}


UNPRIVILEGED: JsonObject = {
    "runAsNonRoot": True,
    "runAsUser": 1000,
    "seccompProfile": {"type": "RuntimeDefault"},
}
PLAIN: JsonObject = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}


class RefusedError(Exception):
    """The server rejected an object; the message is the server's."""


@pytest.fixture(scope="module")
def made(
    cluster: ControlPlane, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Installation]:
    """Yield an installation with two more namespaces, each with a level and without a quota."""
    levels = [
        {
            "apiVersion": "v1",
            "kind": "Namespace",
            "metadata": {
                "name": namespace_of(level),
                "labels": {"pod-security.kubernetes.io/enforce": level},
            },
        }
        for level in OPTIONS
    ]
    with installation(cluster, tmp_path_factory.mktemp(NAME), NAME) as one:
        apply(one, SANDBOX, *levels)
        for level in OPTIONS:
            eventually_blocking(lambda: has_account(one, namespace_of(level)))  # noqa: B023  # called at once
        yield one


@pytest.fixture(scope="module")
def ask(made: Installation) -> Iterator[Ask]:
    """Yield a function that posts dry runs over one connection, which saves the TLS handshakes."""
    plane = made.plane
    tls = ssl.create_default_context(cafile=plane.certificate)
    host = plane.url.removeprefix("https://")
    connection = http.client.HTTPSConnection(host, context=tls, timeout=30)
    headers = {"Authorization": f"Bearer {plane.token}", "Content-Type": "application/json"}

    def post(path: str, body: JsonObject) -> dict[str, Any]:
        connection.request("POST", f"{path}?dryRun=All", json.dumps(body), headers)
        answer = connection.getresponse()
        document: dict[str, Any] = json.loads(answer.read())
        if answer.status != 201:
            raise RefusedError(document["message"])
        return document

    yield post
    connection.close()


def namespace_of(level: str) -> str:
    return f"{NAME}-{level}"


def apply(one: Installation, *documents: Any) -> None:
    one.plane.kubectl("apply", "-f", "-", stdin="---\n".join(map(yaml.safe_dump, documents)))


def has_account(one: Installation, namespace: str) -> bool:
    """Return whether the default account exists; without it the server accepts no Pod."""
    accounts = one.objects("serviceaccounts", namespace)
    return any(each["metadata"]["name"] == "default" for each in accounts)


@pytest.mark.parametrize("level", OPTIONS)
def test_each_level_rejects_a_pod_that_violates_it(ask: Ask, level: str) -> None:
    """The tests below prove something only because this one passes."""
    containers: JsonValue = [{"name": "c", "image": "x"}]
    spec: JsonObject = {"containers": containers, "hostNetwork": True}
    body: JsonObject = {"metadata": {"name": "bad"}, "spec": spec}
    with pytest.raises(RefusedError, match=f'violates PodSecurity "{level}:latest"'):
        ask(PODS.path(namespace=namespace_of(level)), body)


@pytest.mark.parametrize("level", OPTIONS)
@settings(max_examples=UNITS)
@given(data=st.data())
def test_every_valid_unit_is_accepted_and_not_written_twice(
    ask: Ask, level: str, data: st.DataObject
) -> None:
    namespace = namespace_of(level)
    unit = data.draw(specs.units(namespace))
    options, placement = data.draw(OPTIONS[level]), data.draw(specs.placements)
    assert as_stored(ask, unit).spec == unit.spec
    assert second_writes(ask, namespace, children_of_unit(unit, options, placement)) == []
    if unit.spec.is_function_worker:
        body = secret_of(unit, options)
        answer = ask(SECRETS.path(namespace=namespace), body)
        assert patch_of_secret(codec.decode(codec.encode(answer), Secret), body) == {}
    deployment = deployment_of(unit, options, placement, selector_of(unit))
    assert ask(PODS.path(namespace=namespace), pod_from(deployment.body))


@pytest.mark.parametrize("level", OPTIONS)
@settings(max_examples=STORAGES)
@given(data=st.data())
def test_every_valid_storage_is_accepted_and_not_written_twice(
    ask: Ask, level: str, data: st.DataObject
) -> None:
    namespace = namespace_of(level)
    storage = data.draw(specs.storages(namespace))
    options, placing = data.draw(OPTIONS[level]), data.draw(specs.placings)
    assert as_stored(ask, storage).spec == storage.spec
    children = children_of_storage(storage, options, placing)
    assert second_writes(ask, namespace, children) == []
    accessor = accessor_deployment(storage, options, placing)
    assert ask(PODS.path(namespace=namespace), pod_from(accessor.body))
    for resource, body in written_once(storage, options, placing):
        assert ask(resource.path(namespace=namespace), body)
        if resource is JOBS:
            assert ask(PODS.path(namespace=namespace), pod_from(body))


def test_a_quota_and_the_strictest_level_accept_everything_that_the_product_runs(
    made: Installation,
) -> None:
    """Reservations, a unit, a worker, a prepare, a copy and a file server all start."""
    for namespace in (made.stock, made.instance):
        labels = "pod-security.kubernetes.io/enforce=restricted"
        made.plane.kubectl("label", "namespace", namespace, labels, "--overwrite")
    broker = {"url": "nats://nats.queue.svc:4222"}
    made.manager(podSecurity="restricted", nats=broker).wait_until_ready()
    apply(made, *orders(made))
    for kind, count in (("gpuunits", 2), ("gpustorages", 2)):
        eventually_blocking(lambda: ready(made, kind), lambda names: len(names) == count)  # noqa: B023  # called at once
    eventually_blocking(
        lambda: made.objects("stockpools", made.stock), lambda seen: available(seen) == 2
    )
    eventually_blocking(
        lambda: made.objects("deployments", made.instance), lambda seen: serving(seen) == 3
    )
    for namespace, pods in ((made.stock, "2"), (made.instance, "3")):
        refused = [
            each["message"]
            for each in made.objects("events", namespace)
            if each["reason"] == "FailedCreate"
        ]
        assert refused == []
        eventually_blocking(lambda: pods_counted(made, namespace), equals(pods))  # noqa: B023  # called at once
    (secret,) = made.objects("secrets", made.instance)
    assert secret["metadata"]["name"] == "unit-echo-w-1"


def test_a_foreign_pod_without_sizes_gets_default_sizes(made: Installation, ask: Ask) -> None:
    """The quota would reject a Pod without sizes."""
    containers: JsonValue = [{"name": "c", "image": "x", "securityContext": PLAIN}]
    spec: JsonObject = {"containers": containers, "securityContext": UNPRIVILEGED}
    body: JsonObject = {"metadata": {"name": "stranger"}, "spec": spec}
    answer = ask(PODS.path(namespace=made.instance), body)
    (container,) = answer["spec"]["containers"]
    assert container["resources"]["limits"] == {
        "cpu": "1",
        "memory": "1Gi",
        "ephemeral-storage": "1Gi",
    }


def orders(made: Installation) -> Iterator[Any]:
    fill = {"fromImage": "busybox:1.36", "command": ["true"]}
    yield thing("StockPool", made.stock, "pool", specName="g1.1", gpu=1, replicas=2)
    yield thing("GPUStorage", made.instance, "filled", size="1Gi", prepare=fill)
    yield thing(
        "GPUStorage",
        made.instance,
        "copied",
        size="1Gi",
        prepare={"fromStorageName": "filled"},
        accessor={"enabled": True},
    )
    worker_of = {"name": "echo", "uid": specs.UID}
    yield thing(
        "GPUUnit",
        made.instance,
        "echo-w-1",
        specName="g1.1",
        serverless={"requestID": "echo", "workerOf": worker_of},
    )
    yield thing(
        "GPUUnit",
        made.instance,
        "unit",
        specName="g1.1",
        gpu=1,
        storageMounts=[{"name": "filled", "mountPath": "/data"}],
        template={"ports": [{"name": "http", "port": 80}]},
    )


def thing(kind: str, namespace: str, name: str, **spec: Any) -> JsonObject:
    return {
        "apiVersion": "runtime.lokiwager.io/v1alpha1",
        "kind": kind,
        "metadata": {"name": name, "namespace": namespace},
        "spec": spec,
    }


def ready(made: Installation, kind: str) -> list[str]:
    return [
        each["metadata"]["name"]
        for each in made.objects(kind, made.instance)
        if each.get("status", {}).get("phase") == "Ready"
    ]


def pods_counted(made: Installation, namespace: str) -> str:
    """Return the Pods that the quota counts; it leaves out Pods that have ended."""
    (quota,) = made.objects("resourcequotas", namespace)
    return str(quota["status"]["used"]["pods"])


def available(pools: list[Any]) -> int:
    return sum(each.get("status", {}).get("available", 0) for each in pools)


def serving(deployments: list[Any]) -> int:
    return sum(each["status"].get("readyReplicas", 0) for each in deployments)
