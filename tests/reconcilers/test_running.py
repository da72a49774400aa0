"""Units of both namespaces on the embedded server, with real caches and queues."""

import pytest

from tests.reconcilers.world import (
    World,
    living,
    managing,
    message_of,
    phase_of,
    reason_of,
    until,
)

pytestmark = pytest.mark.looptime


async def test_a_unit_starts_and_becomes_ready() -> None:
    world = World()
    async with living(world), managing(world):
        world.add_unit("demo")
        await until(lambda: phase_of(world.unit("demo")) == "Ready")


async def test_a_unit_takes_its_own_stock_again_when_its_claim_was_cleared() -> None:
    """Nobody else may claim what a unit names, so it would wait for ever."""
    world = World()
    async with living(world), managing(world):
        world.add_pool(replicas=1, refill="Never")
        await until(lambda: phase_of(world.pool()) == "Ready")
        source = world.stock("p-1")["spec"]
        envelope = {name: source[name] for name in ("cpu", "memory", "gpu")}
        marks = world.provenance("p-1", operation="late")
        world.add_unit("demo", annotations=marks, **envelope)
        await until(lambda: phase_of(world.unit("demo")) == "Ready")
        await until(lambda: not world.stock_names)


async def test_another_owners_deployment_is_left_alone_and_named_until_it_goes() -> None:
    world = World()
    async with living(world), managing(world):
        body = {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"name": "unit-demo", "labels": {"app.kubernetes.io/managed-by": "x"}},
            "spec": {
                "replicas": 0,
                "selector": {"matchLabels": {"a": "b"}},
                "template": {
                    "metadata": {"labels": {"a": "b"}},
                    "spec": {"containers": [{"name": "x", "image": "x"}]},
                },
            },
        }
        world.call("POST", "/apis/apps/v1/namespaces/runtime-instance/deployments", body)
        world.add_unit("demo")
        await until(lambda: reason_of(world.unit("demo")) == "DeploymentSyncFailed")
        assert "has no owner: it is left as it is" in message_of(world.unit("demo"))
        assert world.deployment("demo")["metadata"]["labels"] == body["metadata"]["labels"]  # type: ignore[index]  # JSON

        world.call("DELETE", "/apis/apps/v1/namespaces/runtime-instance/deployments/unit-demo")
        await until(lambda: phase_of(world.unit("demo")) == "Ready")
