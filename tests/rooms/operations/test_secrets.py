"""Secrets are stored without a read of one, and a crash leaves none without a listed name."""

import base64
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import count
from random import Random
from typing import Any

import attrs
import pytest

from gpuruntime.kube.client import Client
from gpuruntime.kube.errors import UnreachableError
from gpuruntime.kube.transport import Request, Response, Transport
from gpuruntime.models.kinds import labels
from gpuruntime.models.kinds.secrets import MOST_SECRETS, secret_name_of
from gpuruntime.models.requests.secrets import CreateSecret, RegistryLogin
from gpuruntime.operations.errors import (
    ClusterUnavailableError,
    NameTakenError,
    OperationsError,
    RefusedError,
    SecretNotFoundError,
    TooManySecretsError,
    UnknownOutcomeError,
)
from gpuruntime.operations.secrets import Secrets
from gpuruntime.strict.structure import StrictError
from tests.rooms.operations.cluster import INSTANCE, SYSTEM, Cluster, replica

pytestmark = pytest.mark.looptime

CANARY = "canary4711"
SEEDS = count()
HUB = CreateSecret(name="hub", data={"token": CANARY})


@attrs.define
class Between:
    """A transport that can stop before a write, or act just before one."""

    inner: Transport
    sent: list[str] = attrs.field(factory=list)
    dies_before: int = 1_000
    before: dict[int, Any] = attrs.field(factory=dict)
    answer: Response | None = None

    async def request(self, request: Request) -> Response:
        if request.method == "GET":
            return await self.inner.request(request)
        number = len(self.sent)
        if number >= self.dies_before:
            raise UnreachableError("the process was killed here")
        self.sent.append(f"{request.method} {request.path}")
        if number in self.before:
            await self.before.pop(number)()
        if self.answer is not None and f"{INSTANCE}/secrets" in request.path:
            return self.answer
        return await self.inner.request(request)

    def stream(self, request: Request) -> Any:
        return self.inner.stream(request)

    def socket(self, request: Request, protocol: str) -> Any:
        return self.inner.socket(request, protocol)


@asynccontextmanager
async def process(cluster: Cluster) -> AsyncIterator[tuple[Secrets, Between]]:
    async with replica(cluster) as made:
        between = Between(made.transport)
        rng = Random(next(SEEDS))  # as with processes, no two have one
        context = attrs.evolve(made.context, client=Client(between), rng=rng)
        yield Secrets(context), between


def stored(cluster: Cluster) -> dict[str, Any]:
    """Return each Secret of the instance namespace, decoded, by its name."""
    found = cluster.call("GET", f"/api/v1/namespaces/{INSTANCE}/secrets")["items"]
    return {
        each["metadata"]["name"]: {
            key: base64.b64decode(text).decode() for key, text in each["data"].items()
        }
        for each in found
    }


def key_of(name: str, tenant: str = "") -> str:
    return secret_name_of(tenant, name)


async def test_a_secret_is_listed_by_name_and_its_index_has_no_value() -> None:
    cluster = Cluster()
    async with process(cluster) as (secrets, _):
        _, is_new = await secrets.store(attrs.evolve(HUB, tenant="a"))
        assert is_new
        assert list(await secrets.of_tenant("a")) == ["hub"]
    assert stored(cluster) == {key_of("hub", "a"): {"token": CANARY}}
    [index] = cluster.call("GET", f"/api/v1/namespaces/{SYSTEM}/configmaps")["items"]
    assert index["metadata"]["labels"][labels.TENANT] == "a"
    assert CANARY not in json.dumps(index)


async def test_a_secret_sent_again_has_the_new_values_and_no_others() -> None:
    cluster = Cluster()
    async with process(cluster) as (secrets, _):
        await secrets.store(HUB)
        listed, is_new = await secrets.store(attrs.evolve(HUB, data={"other": "b"}))
        assert not is_new
        assert listed.createdAt <= listed.updatedAt
    assert stored(cluster) == {key_of("hub"): {"other": "b"}}


async def test_two_tenants_have_secrets_of_one_name() -> None:
    cluster = Cluster()
    async with process(cluster) as (secrets, _):
        for tenant in ("", "a", "b"):
            await secrets.store(attrs.evolve(HUB, tenant=tenant, data={"of": tenant}))
        await secrets.delete("hub", "a")
        assert not await secrets.of_tenant("a")
        assert list(await secrets.of_tenant("b")) == ["hub"]
    assert stored(cluster) == {key_of("hub"): {"of": ""}, key_of("hub", "b"): {"of": "b"}}


def test_no_two_pairs_of_tenant_and_name_share_a_name_in_kubernetes() -> None:
    pairs = [("", "a-b"), ("a", "b"), ("a-b", ""), ("", "a"), ("a", ""), ("ab", "c"), ("a", "bc")]
    assert len({secret_name_of(*pair) for pair in pairs}) == len(pairs)


async def test_a_registry_login_becomes_a_docker_config() -> None:
    cluster = Cluster()
    login = RegistryLogin(server="registry.example.com", username="ann", password=CANARY)
    async with process(cluster) as (secrets, _):
        await secrets.store(CreateSecret(name="images", type="registry", registry=login))
    [found] = cluster.call("GET", f"/api/v1/namespaces/{INSTANCE}/secrets")["items"]
    assert found["type"] == "kubernetes.io/dockerconfigjson"
    config = json.loads(base64.b64decode(found["data"][".dockerconfigjson"]))
    pair = base64.b64encode(f"ann:{CANARY}".encode()).decode()
    assert config == {
        "auths": {"registry.example.com": {"username": "ann", "password": CANARY, "auth": pair}}
    }


async def test_a_secret_keeps_its_type() -> None:
    login = RegistryLogin(server="registry.example.com", username="ann", password=CANARY)
    async with process(Cluster()) as (secrets, _):
        await secrets.store(HUB)
        with pytest.raises(NameTakenError, match="of type opaque"):
            await secrets.store(CreateSecret(name="hub", type="registry", registry=login))


async def test_a_tenant_has_at_most_so_many_secrets_and_can_still_change_them() -> None:
    async with process(Cluster()) as (secrets, _):
        for number in range(MOST_SECRETS):
            await secrets.store(attrs.evolve(HUB, name=f"n{number}"))
        with pytest.raises(TooManySecretsError):
            await secrets.store(HUB)
        await secrets.store(attrs.evolve(HUB, name="n0"))
        await secrets.delete("n1", "")
        await secrets.store(HUB)


@pytest.mark.parametrize("name", ["hub", "../hub", "Hub", ""])
async def test_an_unknown_secret_is_not_found_and_its_index_is_not_written(name: str) -> None:
    async with process(Cluster()) as (secrets, between):
        with pytest.raises(SecretNotFoundError):
            await secrets.delete(name, "")
        deletion = f"DELETE /api/v1/namespaces/{INSTANCE}/secrets/{key_of('hub')}"
        assert between.sent == ([deletion] if name == "hub" else [])


async def test_a_secret_whose_write_lands_after_its_deletion_can_be_deleted() -> None:
    """The process is killed after the write, and so never looks whether its name is listed."""
    cluster = Cluster()
    async with process(cluster) as (secrets, between), process(cluster) as (others, _):

        async def delete() -> None:
            await others.delete("hub", "")

        between.before = {1: delete}
        between.dies_before = 2
        with pytest.raises(ClusterUnavailableError):
            await secrets.store(HUB)
        assert not await others.of_tenant("")
        assert stored(cluster) == {key_of("hub"): {"token": CANARY}}
        await others.delete("hub", "")
        assert stored(cluster) == {}
        with pytest.raises(SecretNotFoundError):
            await others.delete("hub", "")


async def test_a_deletion_of_an_unlisted_secret_leaves_no_listed_name_without_one() -> None:
    """Another replica stores the secret whole just before its unlisted Secret is deleted."""
    cluster = Cluster()
    async with process(cluster) as (secrets, between), process(cluster) as (others, _):
        await secrets.store(HUB)
        [index] = cluster.call("GET", f"/api/v1/namespaces/{SYSTEM}/configmaps")["items"]
        path = f"/api/v1/namespaces/{SYSTEM}/configmaps/{index['metadata']['name']}"
        cluster.call("PATCH", path, {"data": {"hub": None}})

        async def store() -> None:
            await others.store(HUB)

        between.before = {len(between.sent): store}
        await secrets.delete("hub", "")
        assert set(stored(cluster)) == {key_of(name) for name in await secrets.of_tenant("")}


@pytest.mark.parametrize("writes", range(3))
async def test_a_secret_of_a_process_killed_at_any_write_can_be_listed_and_deleted(
    writes: int,
) -> None:
    cluster = Cluster()
    async with process(cluster) as (secrets, between):
        between.dies_before = writes
        if writes < 2:
            with pytest.raises(ClusterUnavailableError):
                await secrets.store(HUB)
        else:
            await secrets.store(HUB)
    async with process(cluster) as (secrets, _):
        listed = await secrets.of_tenant("")
        assert set(stored(cluster)) <= {key_of(name) for name in listed}
        for name in listed:
            await secrets.delete(name, "")
    assert stored(cluster) == {}


@pytest.mark.parametrize("writes", range(3))
async def test_a_deletion_killed_at_any_write_can_be_repeated(writes: int) -> None:
    cluster = Cluster()
    async with process(cluster) as (secrets, between):
        await secrets.store(HUB)
        between.dies_before = len(between.sent) + writes
        if writes < 2:
            with pytest.raises(ClusterUnavailableError):
                await secrets.delete("hub", "")
            assert "hub" in await secrets.of_tenant("")
        else:
            await secrets.delete("hub", "")
    async with process(cluster) as (secrets, _):
        for name in await secrets.of_tenant(""):
            await secrets.delete(name, "")
        assert not await secrets.of_tenant("")
    assert stored(cluster) == {}


@pytest.mark.parametrize("write", range(4))
async def test_a_secret_that_another_replica_deletes_meanwhile_is_whole_or_gone(
    write: int,
) -> None:
    """The other replica's whole deletion comes just before each write of a second store."""
    cluster = Cluster()
    async with process(cluster) as (secrets, between), process(cluster) as (others, _):
        await secrets.store(HUB)

        async def delete() -> None:
            await others.delete("hub", "")

        between.before = {len(between.sent) + write: delete}
        await secrets.store(attrs.evolve(HUB, data={"token": "second"}))
        is_listed = "hub" in await secrets.of_tenant("")
    assert stored(cluster) == ({key_of("hub"): {"token": "second"}} if is_listed else {})
    assert is_listed


async def test_a_deletion_that_meets_a_store_of_another_replica_leaves_nothing_unlisted() -> None:
    cluster = Cluster()
    async with process(cluster) as (secrets, between), process(cluster) as (others, _):
        await secrets.store(HUB)

        async def store() -> None:
            await others.store(attrs.evolve(HUB, data={"token": "second"}))

        between.before = {len(between.sent) + 1: store}
        await secrets.delete("hub", "")
        assert set(stored(cluster)) == {key_of(name) for name in await secrets.of_tenant("")}


async def test_an_entry_that_was_edited_by_hand_can_be_deleted() -> None:
    cluster = Cluster()
    async with process(cluster) as (secrets, _):
        await secrets.store(HUB)
        [index] = cluster.call("GET", f"/api/v1/namespaces/{SYSTEM}/configmaps")["items"]
        path = f"/api/v1/namespaces/{SYSTEM}/configmaps/{index['metadata']['name']}"
        cluster.call("PUT", path, {**index, "data": {"hub": "edited"}})
        assert list(await secrets.of_tenant("")) == ["hub"]
        await secrets.delete("hub", "")
    assert stored(cluster) == {}


async def test_the_answers_to_writes_of_secrets_have_no_values() -> None:
    async with replica(Cluster()) as made:
        answers: list[bytes] = []

        class Recording(Between):
            async def request(self, request: Request) -> Response:
                answer = await Between.request(self, request)
                answers.append(answer.body)
                return answer

        context = attrs.evolve(made.context, client=Client(Recording(made.transport)))
        secrets = Secrets(context)
        await secrets.store(HUB)
        await secrets.store(HUB)
        await secrets.delete("hub", "")
    coded = base64.b64encode(CANARY.encode())
    assert answers
    assert not [each for each in answers if coded in each or CANARY.encode() in each]


def refusal(status: int, reason: str) -> Response:
    words = f"the value {CANARY} is not allowed"
    body = {"kind": "Status", "apiVersion": "v1", "code": status, "reason": reason}
    return Response(status=status, body=json.dumps({**body, "message": words}).encode())


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (refusal(422, "Invalid"), StrictError),
        (refusal(400, "BadRequest"), StrictError),
        (refusal(403, "Forbidden"), RefusedError),
        (refusal(503, "ServiceUnavailable"), ClusterUnavailableError),
        (refusal(500, "InternalError"), UnknownOutcomeError),
        (Response(status=201, body=f"<{CANARY}>".encode()), UnknownOutcomeError),
    ],
    ids=["invalid", "bad request", "forbidden", "unavailable", "internal error", "no JSON"],
)
async def test_the_clusters_words_about_a_secret_are_not_repeated(
    answer: Response, error: type[Exception]
) -> None:
    async with process(Cluster()) as (secrets, between):
        between.answer = answer
        with pytest.raises(error) as caught:
            await secrets.store(HUB)
    shown: list[str] = []
    cause: BaseException | None = caught.value
    while cause is not None:
        shown.append(f"{cause} {cause!r}")
        cause = cause.__cause__ or (None if cause.__suppress_context__ else cause.__context__)
    assert shown
    assert CANARY not in " ".join(shown)


REFUSED = [refusal(422, "Invalid"), refusal(403, "Forbidden"), refusal(429, "TooManyRequests")]


@pytest.mark.parametrize("answer", REFUSED, ids=["invalid", "forbidden", "too many requests"])
async def test_a_new_name_whose_secret_the_cluster_refuses_is_not_listed(answer: Response) -> None:
    cluster = Cluster()
    async with process(cluster) as (secrets, between):
        between.answer = answer
        with pytest.raises((StrictError, OperationsError)):
            await secrets.store(HUB)
        assert await secrets.of_tenant("") == {}
        between.answer = None
        assert (await secrets.store(HUB))[1], "the name is new again"


async def test_a_name_stays_listed_if_a_change_is_refused_or_its_outcome_is_unknown() -> None:
    async with process(Cluster()) as (secrets, between):
        between.answer = refusal(500, "InternalError")
        with pytest.raises(UnknownOutcomeError):
            await secrets.store(HUB)
        assert "hub" in await secrets.of_tenant("")
        between.answer = refusal(422, "Invalid")
        with pytest.raises(StrictError):
            await secrets.store(HUB)
        assert "hub" in await secrets.of_tenant("")


async def test_a_refused_store_leaves_the_name_that_another_replica_has_listed_meanwhile() -> None:
    cluster = Cluster()
    async with process(cluster) as (secrets, between), process(cluster) as (other, _):
        between.answer = refusal(403, "Forbidden")
        between.before[1] = lambda: other.store(HUB)
        with pytest.raises(RefusedError):
            await secrets.store(HUB)
        assert "hub" in await other.of_tenant("")
    assert set(stored(cluster)) == {key_of("hub")}


def test_a_request_is_printed_without_its_values() -> None:
    login = RegistryLogin(server="registry.example.com", username="ann", password=CANARY)
    request = CreateSecret(
        name="hub", data={"token": CANARY}, binaryData={"b": CANARY}, registry=login
    )
    assert CANARY not in f"{request} {request!r}"
