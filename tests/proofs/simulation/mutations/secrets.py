"""Defects of secrets: who can name one, what is left of one, and what is said of one."""

from typing import Final

from tests.proofs.simulation.mutations.mutation import Mutation

USE_CASES: Final = "gpuruntime.operations.secrets"
TESTS: Final = "tests/rooms/operations/test_secrets.py"
SECRETS: Final = (
    Mutation(
        "a Secret's name leaves out the tenant",
        "gpuruntime.models.kinds.secrets",
        "digest_of(tenant, name)",
        "digest_of(name)",
        f"{TESTS}::test_two_tenants_have_secrets_of_one_name",
    ),
    Mutation(
        "a unit uses secrets without a tenant",
        "gpuruntime.reconcilers.unit.secret_references",
        'unit.metadata.labels.get(labels.TENANT, "")',
        '""',
    ),
    Mutation(
        "a deletion leaves the Secret",
        USE_CASES,
        "await self._client.delete(SECRET_METADATA, self._secret_key(name, tenant))",
        "pass",
    ),
    Mutation(
        "a Secret is written before its name",
        USE_CASES,
        "                secret, was_new = await self._list(request)\n",
        "                await self._write(request)\n"
        "                secret, was_new = await self._list(request)\n",
        f"{TESTS}::test_a_secret_of_a_process_killed_at_any_write_can_be_listed_and_deleted",
    ),
    Mutation(
        "a name is removed before its Secret",
        USE_CASES,
        "                    with suppress(NotFoundError):\n"
        "                        await self._client.delete(",
        "                    await self._put(tenant, {name: None}, index)\n"
        "                    with suppress(NotFoundError):\n"
        "                        await self._client.delete(",
        f"{TESTS}::test_a_deletion_killed_at_any_write_can_be_repeated",
    ),
    Mutation(
        "a deletion leaves a Secret whose name is not listed",
        USE_CASES,
        "if is_listed or is_dns_label(name):",
        "if is_listed:",
        f"{TESTS}::test_a_secret_whose_write_lands_after_its_deletion_can_be_deleted",
    ),
    Mutation(
        "two stores of a secret look the same to a deletion",
        USE_CASES,
        "nonce=self._rng.randbytes(NONCE_BYTES).hex()",
        'nonce=""',
        f"{TESTS}::test_a_deletion_that_meets_a_store_of_another_replica_leaves_nothing_unlisted",
    ),
    Mutation(
        "a store does not look whether its name is still listed",
        USE_CASES,
        "if name in (await self._index(tenant)).listed:",
        "if True:",
        f"{TESTS}::test_a_secret_that_another_replica_deletes_meanwhile_is_whole_or_gone",
    ),
    Mutation(
        "a refused store takes the name that another replica has listed",
        USE_CASES,
        ".listed.get(request.name) == entry:",
        ".listed.get(request.name):",
        f"{TESTS}::test_a_refused_store_leaves_the_name_that_another_replica_has_listed_meanwhile",
    ),
    Mutation(
        "a refused store leaves its name listed",
        USE_CASES,
        "if was_new and _is_refusal(error):",
        "if False:",
        f"{TESTS}::test_a_new_name_whose_secret_the_cluster_refuses_is_not_listed",
    ),
    Mutation(
        "a store keeps the keys of before",
        USE_CASES,
        '"data": {"$patch": "replace", **data}',
        '"data": data',
        f"{TESTS}::test_a_secret_sent_again_has_the_new_values_and_no_others",
    ),
    Mutation(
        "answers about Secrets have their values",
        "gpuruntime.models.kubernetes.secrets",
        "type=PartialObject",
        "type=Secret",
        f"{TESTS}::test_the_answers_to_writes_of_secrets_have_no_values",
    ),
    Mutation(
        "the cluster's words about a Secret are repeated",
        USE_CASES,
        "            with _in_our_words(key):\n",
        "            with suppress():\n",
        f"{TESTS}::test_the_clusters_words_about_a_secret_are_not_repeated",
    ),
)
