"""Devices: allocation, consumers, taking back, and what frees a device."""

from collections.abc import AsyncIterator
from typing import Any

import attrs
import pytest
import pytest_asyncio

from tests.proofs.conformance.calls import Answer, Api, Document
from tests.proofs.conformance.objects import (
    DEVICE_CLAIM_TEMPLATES,
    DEVICE_CLAIMS,
    DEVICE_CLASSES,
    DEVICE_SLICES,
    EVENTS,
    NODES,
    PODS,
    PRIORITY_CLASSES,
    device,
    device_claim,
    device_class,
    device_slice,
    device_spec,
    named,
    node,
    pod,
)

pytestmark = pytest.mark.usefixtures("controllers")

FINALIZER = "resource.kubernetes.io/delete-protection"
STRANGER = {"apiGroup": "example.com", "resource": "things", "name": "thing", "uid": "u-1"}


@attrs.frozen
class Devices:
    """Two nodes of this test with devices of a driver of its own, and a class for them."""

    api: Api
    namespace: str
    name: str

    @property
    def pods(self) -> str:
        return PODS.path(namespace=self.namespace)

    @property
    def claims(self) -> str:
        return DEVICE_CLAIMS.path(namespace=self.namespace)

    @property
    def driver(self) -> str:
        return f"{self.name}.test"

    def node(self, number: int) -> str:
        return f"{self.name}-{number}"

    async def furnish(self, number: int, count: int, **pool: int) -> None:
        body = device_slice(self.node(number), self.driver, self.node(number), count=count, **pool)
        (await self.api.post(DEVICE_SLICES.path(), body)).ok(201)

    async def claim(self, name: str, **exactly: Any) -> None:
        class_name = exactly.pop("class_name", self.name)
        (await self.api.post(self.claims, device_claim(name, class_name, **exactly))).ok(201)

    async def pod(self, name: str, *claims: str, cpu: str = "1", **spec: Any) -> Document:
        """Create a Pod for either node that uses these claims."""
        used = [
            {"name": f"c{number}", "resourceClaimName": each} for number, each in enumerate(claims)
        ]
        container = {
            "name": "main",
            "image": "example.com/main:1",
            "resources": {
                "requests": {"cpu": cpu},
                "claims": [{"name": each["name"]} for each in used],
            },
        }
        nodes = {
            "key": "kubernetes.io/hostname",
            "operator": "In",
            "values": [self.node(0), self.node(1)],
        }
        required = {"nodeSelectorTerms": [{"matchExpressions": [nodes]}]}
        members = {
            "terminationGracePeriodSeconds": 0,
            "containers": [container],
            "resourceClaims": used,
            "tolerations": [{"key": "conformance", "operator": "Exists"}],
            "affinity": {
                "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}
            },
            **spec,
        }
        return await self.api.admit(self.pods, pod(name, **members))

    async def keeper(self, name: str = "keeper") -> Document:
        """Create a Pod with a gate, which never runs and names no claim."""
        return await self.pod(name, schedulingGates=[{"name": "example.com/keeper"}])

    async def enter(self, claim: str, *consumers: Document) -> Document:
        """Replace the claim's consumers under the guard of the version that was read."""

        async def attempt() -> Answer:
            seen = (await self.api.get(f"{self.claims}/{claim}")).ok(200)
            version = {"resourceVersion": seen["metadata"]["resourceVersion"]}
            body = {"metadata": version, "status": {"reservedFor": list(consumers)}}
            return await self.api.patch(f"{self.claims}/{claim}/status", body)

        answer: Answer = await self.api.until(attempt, lambda seen: seen.status != 409)
        return answer.ok(200)

    async def running(self, name: str) -> Document:
        return await self.api.settled(
            f"{self.pods}/{name}", lambda seen: seen["status"]["phase"] == "Running"
        )

    async def refusal(self, name: str, words: str = "") -> str:
        """Return the scheduler's message about the Pod once it contains the words."""
        seen = await self.api.settled(
            f"{self.pods}/{name}",
            lambda seen: message(seen) and words in message(seen),
        )
        return message(seen)

    async def seen(self, claim: str) -> Document:
        return (await self.api.get(f"{self.claims}/{claim}")).ok(200)

    async def freed(self, claim: str) -> Document:
        return await self.api.settled(
            f"{self.claims}/{claim}",
            lambda seen: (
                "allocation" not in seen.get("status", {})
                and FINALIZER not in seen["metadata"].get("finalizers", ())
            ),
        )

    async def delete(self, *names: str) -> None:
        for name in names:
            (await self.api.delete(f"{self.pods}/{name}")).ok(200)
            await self.api.gone(f"{self.pods}/{name}")

    async def after_another(self, name: str = "another") -> None:
        """Wait until the controllers have handled a later Pod of another claim."""
        await self.claim(name)
        await self.pod(name, name)
        await self.running(name)
        await self.delete(name)
        await self.freed(name)


def message(seen: Document) -> str:
    conditions = seen.get("status", {}).get("conditions", [])
    found: Document = next((one for one in conditions if one["type"] == "PodScheduled"), {})
    return str(found.get("message", ""))


def held(claim: Document) -> list[str]:
    """Return the claim's devices as `pool/device`."""
    allocation = claim.get("status", {}).get("allocation")
    results = allocation["devices"]["results"] if allocation else []
    return [f"{each['pool']}/{each['device']}" for each in results]


def consumers(claim: Document) -> list[str]:
    return [each["name"] for each in claim.get("status", {}).get("reservedFor", [])]


def entry(seen: Document) -> Document:
    metadata = seen["metadata"]
    return {"resource": "pods", "name": metadata["name"], "uid": metadata["uid"]}


@pytest_asyncio.fixture
async def devices(api: Api, namespace: str, unique: str) -> AsyncIterator[Devices]:
    made = Devices(api, namespace, unique)
    for number in range(2):
        (await api.post(NODES.path(), node(made.node(number), gpus=0))).ok(201)
        path = NODES.path(name=made.node(number))
        await api.settled(path, lambda one: one["status"].get("allocatable"))
    (await api.post(DEVICE_CLASSES.path(), device_class(unique, made.driver))).ok(201)
    yield made
    slices = (await api.get(DEVICE_SLICES.path())).ok(200)["items"]
    for each in slices:
        if each["spec"]["driver"] == made.driver:
            await api.delete(f"{DEVICE_SLICES.path()}/{each['metadata']['name']}")
    await api.delete(f"{DEVICE_CLASSES.path()}/{unique}")
    for number in range(2):
        await api.delete(NODES.path(name=made.node(number)))


async def test_a_pod_gets_a_device_of_its_node(devices: Devices) -> None:
    await devices.furnish(0, 1)
    await devices.claim("c")
    await devices.pod("p", "c")
    assert (await devices.running("p"))["spec"]["nodeName"] == devices.node(0)
    seen = await devices.seen("c")
    assert held(seen) == [f"{devices.node(0)}/gpu-0"]
    assert consumers(seen) == ["p"]
    assert seen["metadata"]["finalizers"] == [FINALIZER]
    term = {"key": "metadata.name", "operator": "In", "values": [devices.node(0)]}
    selector = seen["status"]["allocation"]["nodeSelector"]
    assert selector == {"nodeSelectorTerms": [{"matchFields": [term]}]}


async def test_the_device_is_freed_with_the_last_pod_and_the_claim_stays(
    devices: Devices,
) -> None:
    await devices.furnish(0, 1)
    await devices.claim("c")
    await devices.pod("one", "c")
    await devices.pod("two", "c")
    for name in ("one", "two"):
        await devices.running(name)
    await devices.delete("one")
    path = f"{devices.claims}/c"
    kept = await devices.api.settled(path, lambda seen: consumers(seen) == ["two"])
    assert held(kept) == [f"{devices.node(0)}/gpu-0"]
    await devices.delete("two")
    freed = await devices.freed("c")
    assert "reservedFor" not in freed["status"]
    assert "deletionTimestamp" not in freed["metadata"]


async def test_two_pods_share_a_claim_on_its_node(devices: Devices) -> None:
    await devices.furnish(0, 1)
    await devices.furnish(1, 1)
    await devices.claim("c")
    await devices.pod("one", "c")
    first = await devices.running("one")
    await devices.pod("two", "c")
    second = await devices.running("two")
    assert first["spec"]["nodeName"] == second["spec"]["nodeName"]
    assert sorted(consumers(await devices.seen("c"))) == ["one", "two"]


async def test_a_gated_pod_that_names_no_claim_keeps_its_device(devices: Devices) -> None:
    await devices.furnish(0, 2)
    await devices.claim("c")
    made = await devices.pod("p", "c")
    await devices.running("p")
    device_before = held(await devices.seen("c"))
    keeper = await devices.keeper()
    await devices.enter("c", entry(made), entry(keeper))
    await devices.delete("p")
    path = f"{devices.claims}/c"
    kept = await devices.api.settled(path, lambda seen: consumers(seen) == ["keeper"])
    assert held(kept) == device_before
    await devices.delete("keeper")
    await devices.after_another()
    left = await devices.seen("c")
    assert (held(left), consumers(left)) == (device_before, ["keeper"])


async def test_a_deleted_gated_pod_that_names_the_claim_frees_it(devices: Devices) -> None:
    await devices.furnish(0, 1)
    await devices.claim("c")
    made = await devices.pod("p", "c")
    await devices.running("p")
    gated = await devices.pod("gated", "c", schedulingGates=[{"name": "example.com/keeper"}])
    await devices.enter("c", entry(made), entry(gated))
    await devices.delete("p")
    path = f"{devices.claims}/c"
    await devices.api.settled(path, lambda seen: consumers(seen) == ["gated"])
    await devices.delete("gated")
    await devices.freed("c")


async def test_a_released_claim_ends_when_its_last_entry_is_removed(devices: Devices) -> None:
    await devices.furnish(0, 1)
    await devices.claim("c")
    made = await devices.pod("p", "c")
    await devices.running("p")
    keeper = await devices.keeper()
    await devices.enter("c", entry(made), entry(keeper))
    await devices.delete("p")
    path = f"{devices.claims}/c"
    await devices.api.settled(path, lambda seen: consumers(seen) == ["keeper"])
    (await devices.api.delete(path)).ok(200)
    ending = await devices.seen("c")
    assert "deletionTimestamp" in ending["metadata"]
    assert held(ending)
    await devices.enter("c")
    await devices.api.gone(path)


async def test_an_idle_claim_keeps_its_device_until_it_is_deleted(devices: Devices) -> None:
    await devices.furnish(0, 2)
    await devices.claim("c")
    made = await devices.pod("p", "c")
    await devices.running("p")
    keeper = await devices.keeper()
    await devices.enter("c", entry(made), entry(keeper))
    await devices.delete("p")
    path = f"{devices.claims}/c"
    await devices.api.settled(path, lambda seen: consumers(seen) == ["keeper"])
    await devices.enter("c")
    await devices.after_another()
    idle = await devices.seen("c")
    assert held(idle)
    assert consumers(idle) == []
    (await devices.api.delete(path)).ok(200)
    await devices.api.gone(path)


async def test_consumers_emptied_under_a_pod_are_put_back(devices: Devices) -> None:
    await devices.furnish(0, 1)
    await devices.claim("c")
    await devices.pod("p", "c")
    await devices.running("p")
    await devices.enter("c")
    path = f"{devices.claims}/c"
    await devices.api.settled(path, lambda seen: consumers(seen) == ["p"])


async def test_a_consumer_that_is_no_pod_stops_the_controller(devices: Devices) -> None:
    await devices.furnish(0, 2)
    await devices.claim("c")
    made = await devices.pod("p", "c")
    await devices.running("p")
    await devices.enter("c", entry(made), STRANGER)
    await devices.delete("p")
    path = f"{devices.claims}/c"
    (await devices.api.delete(path)).ok(200)
    await devices.after_another()
    assert consumers(await devices.seen("c")) == ["p", "thing"]
    await devices.enter("c", entry(made))
    await devices.api.gone(path)


async def fill(devices: Devices, number: int) -> None:
    """Take the cpu of a node; its Pods' own claims are not affected."""
    hostname = {"kubernetes.io/hostname": devices.node(number)}
    await devices.pod("filler", cpu="7", nodeSelector=hostname)
    await devices.running("filler")


async def held_by_keeper(devices: Devices) -> int:
    """Give claim `c` a device, entered for the keeper alone; return the number of its node."""
    await devices.furnish(0, 1)
    await devices.furnish(1, 1)
    await devices.claim("c")
    made = await devices.pod("p", "c")
    on = (await devices.running("p"))["spec"]["nodeName"]
    keeper = await devices.keeper()
    await devices.enter("c", entry(made), entry(keeper))
    await devices.delete("p")
    path = f"{devices.claims}/c"
    await devices.api.settled(path, lambda seen: consumers(seen) == ["keeper"])
    return int(on == devices.node(1))


async def test_a_claim_that_others_use_waits_for_its_node(devices: Devices) -> None:
    number = await held_by_keeper(devices)
    before = held(await devices.seen("c"))
    await fill(devices, number)
    await devices.pod("q", "c", cpu="4")
    words = await devices.refusal("q", "still not schedulable, preemption: ")
    assert "1 Insufficient cpu" in words
    assert "1 resourceclaim not available on the node" in words
    assert held(await devices.seen("c")) == before
    await devices.delete("filler")
    await devices.running("q")
    assert held(await devices.seen("c")) == before


async def test_an_idle_claim_is_taken_back_and_moves_to_another_node(devices: Devices) -> None:
    number = await held_by_keeper(devices)
    await fill(devices, number)
    await devices.enter("c")
    await devices.pod("q", "c", cpu="4")
    seen = await devices.running("q")
    assert seen["spec"]["nodeName"] == devices.node(1 - number)
    assert held(await devices.seen("c")) == [f"{devices.node(1 - number)}/gpu-0"]


async def test_removing_the_keeper_lets_a_waiting_pod_move_the_claim(devices: Devices) -> None:
    number = await held_by_keeper(devices)
    cordon = {"spec": {"unschedulable": True}}
    (await devices.api.patch(NODES.path(name=devices.node(number)), cordon)).ok(200)
    await devices.pod("q", "c")
    words = await devices.refusal("q", "still not schedulable, preemption: ")
    assert "node(s) were unschedulable" in words
    await devices.enter("c")
    await devices.running("q")
    assert held(await devices.seen("c")) == [f"{devices.node(1 - number)}/gpu-0"]


async def test_no_pod_is_preempted_for_a_device(devices: Devices) -> None:
    name = f"{devices.name}-high"
    body = named(PRIORITY_CLASSES, name, value=1000)
    (await devices.api.post(PRIORITY_CLASSES.path(), body)).ok(201)
    await devices.furnish(0, 1)
    for each in ("low", "high"):
        await devices.claim(each)
    await devices.pod("low", "low")
    await devices.running("low")
    await devices.pod("high", "high", priorityClassName=name)
    words = await devices.refusal("high", "cannot allocate all claims")
    assert "2 cannot allocate all claims" in words
    assert "Preemption is not helpful for scheduling" in words
    assert "deletionTimestamp" not in (await devices.running("low"))["metadata"]
    await devices.delete("low")
    await devices.running("high")
    await devices.api.delete(f"{PRIORITY_CLASSES.path()}/{name}")


async def test_a_copied_allocation_does_not_keep_a_device(devices: Devices) -> None:
    await devices.furnish(0, 1)
    for each in ("one", "copy", "third"):
        await devices.claim(each)
    await devices.pod("one", "one")
    await devices.running("one")
    allocation = (await devices.seen("one"))["status"]["allocation"]
    status = {"status": {"allocation": allocation}}
    (await devices.api.patch(f"{devices.claims}/copy/status", status)).ok(200)
    await devices.delete("one")
    await devices.freed("one")
    await devices.pod("third", "third")
    await devices.running("third")
    assert held(await devices.seen("third")) == held(await devices.seen("copy"))
    (await devices.api.patch(f"{devices.claims}/copy/status", {"status": None})).ok(200)


async def test_a_pod_of_a_missing_claim_waits_without_a_word(devices: Devices) -> None:
    await devices.furnish(0, 2)
    await devices.pod("p", "c")
    await devices.after_another()
    seen = (await devices.api.get(f"{devices.pods}/p")).ok(200)
    assert seen["status"]["phase"] == "Pending"
    assert message(seen) == ""
    events = (await devices.api.get(EVENTS.path(namespace=devices.namespace))).ok(200)["items"]
    assert [each for each in events if each["involvedObject"]["name"] == "p"] == []
    await devices.claim("c")
    await devices.running("p")


async def test_a_pod_of_a_terminating_claim_waits_for_the_next_one(devices: Devices) -> None:
    await devices.furnish(0, 1)
    await devices.claim("c")
    finalizers = {"metadata": {"finalizers": ["example.com/held"]}}
    (await devices.api.patch(f"{devices.claims}/c", finalizers)).ok(200)
    (await devices.api.delete(f"{devices.claims}/c")).ok(200)
    await devices.pod("p", "c")
    await devices.after_another()
    assert message((await devices.api.get(f"{devices.pods}/p")).ok(200)) == ""
    released = {"metadata": {"finalizers": None}}
    (await devices.api.patch(f"{devices.claims}/c", released)).ok(200)
    await devices.api.gone(f"{devices.claims}/c")
    await devices.claim("c")
    await devices.running("p")


async def test_a_class_that_does_not_exist_is_named_until_it_appears(devices: Devices) -> None:
    await devices.furnish(0, 1)
    late = f"{devices.name}-late"
    await devices.claim("c", class_name=late)
    await devices.pod("p", "c")
    words = await devices.refusal("p")
    assert f"request gpu: device class {late} does not exist. no new claims to de" in words
    assert words.endswith("Preemption is not helpful for scheduling.")
    (await devices.api.post(DEVICE_CLASSES.path(), device_class(late, devices.driver))).ok(201)
    await devices.running("p")
    await devices.api.delete(f"{DEVICE_CLASSES.path()}/{late}")


async def test_a_selector_that_fails_is_reported_as_an_error(devices: Devices) -> None:
    await devices.furnish(0, 1)
    selector = f"device.attributes['{devices.driver}'].nosuch == 'x'"
    await devices.claim("c", selectors=(selector,))
    await devices.pod("p", "c")
    words = await devices.refusal("p")
    why = f"claim {devices.namespace}/c: selector #0: CEL runtime error: no such key: nosuch"
    assert words == f'running "DynamicResources" filter plugin: {why}'


async def test_33_devices_exceed_the_limit_of_a_claim(devices: Devices) -> None:
    await devices.furnish(0, 2)
    await devices.claim("c", count=33)
    await devices.pod("p", "c")
    words = await devices.refusal("p")
    why = f"claim {devices.namespace}/c: number of requested devices 33 exceeds the claim limit of"
    assert words == f'running "DynamicResources" filter plugin: {why} 32'


async def test_a_request_gets_as_many_devices_as_it_asks_for_on_one_node(
    devices: Devices,
) -> None:
    await devices.furnish(0, 2)
    await devices.furnish(1, 3)
    await devices.claim("c", count=3)
    await devices.pod("p", "c")
    await devices.running("p")
    names = [f"{devices.node(1)}/gpu-{number}" for number in range(3)]
    assert sorted(held(await devices.seen("c"))) == names


async def test_selectors_choose_the_device(devices: Devices) -> None:
    await devices.furnish(0, 4)
    of = f"device.attributes['{devices.driver}']"
    memory = f"device.capacity['{devices.driver}'].memory"
    selectors = (
        f"{of}.index >= 2 && {of}.uuid != 'GPU-gpu-3'",
        f"{memory}.compareTo(quantity('40Gi')) > 0",
        "!('absent.test' in device.attributes)",
    )
    await devices.claim("c", selectors=selectors)
    await devices.pod("p", "c")
    await devices.running("p")
    assert held(await devices.seen("c")) == [f"{devices.node(0)}/gpu-2"]


async def test_the_first_alternative_that_fits_is_taken(devices: Devices) -> None:
    await devices.furnish(0, 2)
    ask = {"deviceClassName": devices.name}
    alternatives = [{"name": "many", "count": 3, **ask}, {"name": "few", "count": 2, **ask}]
    spec = {"devices": {"requests": [{"name": "gpu", "firstAvailable": alternatives}]}}
    (await devices.api.post(devices.claims, named(DEVICE_CLAIMS, "c", spec=spec))).ok(201)
    await devices.pod("p", "c")
    await devices.running("p")
    results = (await devices.seen("c"))["status"]["allocation"]["devices"]["results"]
    assert [each["request"] for each in results] == ["gpu/few", "gpu/few"]


async def test_all_devices_are_given_only_together(devices: Devices) -> None:
    await devices.furnish(0, 2)
    await devices.claim("one")
    await devices.claim("all", allocationMode="All")
    await devices.pod("one", "one")
    await devices.running("one")
    await devices.pod("all", "all")
    assert "cannot allocate all claims" in await devices.refusal("all")
    await devices.delete("one")
    await devices.running("all")
    assert len(held(await devices.seen("all"))) == 2


async def test_devices_of_one_claim_agree_in_an_attribute(devices: Devices) -> None:
    await devices.furnish(0, 0)
    halves = [{"name": "left"}, {"name": "right"}]
    groups = [
        device(f"gpu-{number}", attributes={"group": {"string": halves[number % 2]["name"]}})
        for number in range(3)
    ]
    path = f"{DEVICE_SLICES.path()}/{devices.node(0)}"
    (await devices.api.patch(path, {"spec": {"devices": groups}})).ok(200)
    spec = device_spec(devices.name, count=2)
    spec["devices"]["constraints"] = [{"matchAttribute": f"{devices.driver}/group"}]
    (await devices.api.post(devices.claims, named(DEVICE_CLAIMS, "c", spec=spec))).ok(201)
    await devices.pod("p", "c")
    await devices.running("p")
    names = [f"{devices.node(0)}/gpu-0", f"{devices.node(0)}/gpu-2"]
    assert sorted(held(await devices.seen("c"))) == names


async def test_a_pool_that_is_not_complete_is_used_for_counts_only(devices: Devices) -> None:
    await devices.furnish(0, 1, resourceSliceCount=2)
    await devices.claim("all", allocationMode="All")
    await devices.pod("all", "all")
    words = await devices.refusal("all")
    assert "asks for all devices, but resource pool" in words
    assert words.endswith("is currently being updated")
    await devices.claim("one")
    await devices.pod("one", "one")
    await devices.running("one")


async def test_slices_of_an_older_generation_are_ignored(devices: Devices) -> None:
    await devices.furnish(0, 3)
    newer = device_slice(
        f"{devices.name}-newer", devices.driver, devices.node(0), count=1, generation=2
    )
    (await devices.api.post(DEVICE_SLICES.path(), newer)).ok(201)
    await devices.claim("c", count=2)
    await devices.pod("p", "c")
    assert "cannot allocate all claims" in await devices.refusal("p")


async def test_a_new_pod_starts_on_a_device_that_was_withdrawn(devices: Devices) -> None:
    await devices.furnish(0, 1)
    await devices.claim("c")
    await devices.pod("one", "c")
    await devices.running("one")
    path = f"{DEVICE_SLICES.path()}/{devices.node(0)}"
    (await devices.api.patch(path, {"spec": {"devices": []}})).ok(200)
    await devices.pod("two", "c")
    await devices.running("two")


async def test_a_template_makes_a_claim_that_ends_with_its_pod(devices: Devices) -> None:
    await devices.furnish(0, 1)
    inner = {"metadata": {"labels": {"a": "b"}}, "spec": device_spec(devices.name)}
    templates = DEVICE_CLAIM_TEMPLATES.path(namespace=devices.namespace)
    (await devices.api.post(templates, named(DEVICE_CLAIM_TEMPLATES, "t", spec=inner))).ok(201)
    uses = [{"name": "gpu", "resourceClaimTemplateName": "t"}]
    containers = [{"name": "main", "image": "example.com/main:1"}]
    made = await devices.pod("p", resourceClaims=uses, containers=containers)
    seen = await devices.running("p")
    [status] = seen["status"]["resourceClaimStatuses"]
    claim = await devices.seen(status["resourceClaimName"])
    assert status["name"] == "gpu"
    assert claim["metadata"]["name"].startswith("p-gpu-")
    assert claim["metadata"]["labels"] == {"a": "b"}
    notes = claim["metadata"]["annotations"]
    assert notes == {"resource.kubernetes.io/pod-claim-name": "gpu"}
    [owner] = claim["metadata"]["ownerReferences"]
    assert (owner["uid"], owner["controller"]) == (made["metadata"]["uid"], True)
    assert held(claim) == [f"{devices.node(0)}/gpu-0"]
    await devices.delete("p")
    await devices.api.gone(f"{devices.claims}/{claim['metadata']['name']}")


async def test_a_finished_pod_frees_its_device(devices: Devices) -> None:
    await devices.furnish(0, 1)
    for each in ("one", "two"):
        await devices.claim(each)
    await devices.pod("one", "one")
    await devices.running("one")
    done = {"status": {"phase": "Succeeded"}}
    (await devices.api.patch(f"{devices.pods}/one/status", done)).ok(200)
    await devices.freed("one")
    await devices.pod("two", "two")
    await devices.running("two")
