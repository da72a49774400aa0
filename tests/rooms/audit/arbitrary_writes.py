"""Strategies for arbitrary writes into each kind of object that is audited."""

from typing import Any

import attrs
import msgspec
from hypothesis import strategies as st

from gpuruntime.audit.snapshot import Snapshot
from gpuruntime.models.kinds import labels
from gpuruntime.models.kinds.functions import Serverless, WorkerOf
from gpuruntime.models.kinds.storages import Holder, Prepare, PrepareStatus
from gpuruntime.models.kinds.units import StorageMount, Timeline
from gpuruntime.models.kubernetes.conditions import Condition
from gpuruntime.models.kubernetes.metadata import OwnerReference
from gpuruntime.models.kubernetes.pods import ClaimSource, PodVolume
from tests.rooms.audit.functions import FIRST, TEMPLATE
from tests.rooms.audit.values import JOB, LATER, MADE, STORAGE, change

KEYS = (
    labels.CLAIMED_BY,
    labels.CLAIM_ATTEMPT,
    labels.OPERATION_ID,
    labels.REQUEST_HASH,
    labels.CLAIMED_AT,
    labels.SOURCE_STOCK,
    labels.SOURCE_STOCK_UID,
    labels.POOL_UID,
    labels.POOL,
    labels.UNIT,
    labels.SPEC,
    labels.MANAGED_BY,
    labels.APP_NAME,
    labels.STORAGE,
    labels.ACCESSOR,
    labels.DRAINING,
)
KNOWN = (
    *("", "/", "a/b/c", "p-", "p-0", "-", "runtime-stock/p-1", "uid-p", "uid-p-1", "٣", "p-٣"),
    *("demo", "uid-demo", "uid-data", STORAGE, JOB, TEMPLATE, f"uid-{TEMPLATE}", FIRST, "True"),
    *(labels.MANAGER, labels.UNIT_APP, labels.STORAGE_APP, "Ready", "Succeeded", "Running"),
)
WORDS = st.sampled_from(KNOWN) | st.text(max_size=8)
NOTES = st.dictionaries(st.sampled_from(KEYS), WORDS)
NUMBERS = st.integers(-1, 3)
SIZES = st.integers(0, 5)


def each_of(*members: st.SearchStrategy[Any], most: int = 3) -> st.SearchStrategy[Any]:
    return st.lists(st.one_of(*members), max_size=most).map(tuple)


def some(**members: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    """Draw any of these members; all others stay as they were."""
    return st.fixed_dictionaries({}, optional=members)


NOTHING = some()
OWNERS = each_of(
    st.builds(
        OwnerReference,
        kind=st.sampled_from(("GPUUnit", "GPUStorage", "Job", "")),
        name=WORDS,
        uid=WORDS,
        controller=st.booleans(),
    )
)
METADATA = some(
    annotations=NOTES,
    labels=NOTES,
    ownerReferences=OWNERS,
    finalizers=each_of(WORDS),
    generation=NUMBERS,
    creationTimestamp=st.sampled_from((None, MADE, LATER)),
    deletionTimestamp=st.sampled_from((None, LATER)),
)
CONDITIONS = each_of(
    st.builds(
        Condition,
        type=st.sampled_from(("Ready", "Prepared", "Complete", "Failed", "odd")),
        status=st.sampled_from(("True", "False", "Unknown", "")),
        reason=WORDS,
        observedGeneration=NUMBERS,
    )
)
POD_SPEC = some(
    nodeName=WORDS,
    volumes=each_of(
        st.builds(
            PodVolume,
            persistentVolumeClaim=st.none() | st.builds(ClaimSource, claimName=WORDS),
        )
    ),
)
FUNCTION = st.none() | st.builds(
    Serverless,
    requestID=WORDS,
    minAvailableCount=SIZES,
    maxWorkers=SIZES,
    timeoutSeconds=SIZES,
    workerOf=st.none() | st.builds(WorkerOf, name=WORDS, uid=WORDS),
)
UNIT_SPEC = some(
    cpu=WORDS,
    memory=WORDS,
    gpu=NUMBERS,
    specName=WORDS,
    suspended=st.booleans(),
    serverless=FUNCTION,
    storageMounts=each_of(st.builds(StorageMount, name=WORDS, mountPath=WORDS)),
)
REPORT = {"phase": WORDS, "conditions": CONDITIONS, "observedGeneration": NUMBERS}
UNIT_STATUS = some(
    **REPORT,
    readyReplicas=NUMBERS,
    timeline=st.builds(Timeline, createdAt=st.sampled_from((None, MADE, LATER))),
)
# Specs as a server accepts them: members of the right shapes, with nulls among them.
NAMED = st.fixed_dictionaries({}, optional={"name": WORDS | st.none()})
SECRET = st.fixed_dictionaries({}, optional={"name": WORDS, "secretName": WORDS})
VOLUME = st.fixed_dictionaries(
    {},
    optional={
        "name": WORDS,
        "secret": SECRET | st.none(),
        "persistentVolumeClaim": st.none()
        | st.fixed_dictionaries({}, optional={"claimName": WORDS}),
        "projected": st.fixed_dictionaries(
            {}, optional={"sources": st.lists(st.fixed_dictionaries({"secret": SECRET}))}
        ),
    },
)
CONTAINER = st.fixed_dictionaries(
    {},
    optional={
        "name": WORDS,
        "restartPolicy": st.sampled_from(("", "Always")),
        "env": st.lists(
            st.fixed_dictionaries(
                {}, optional={"valueFrom": st.fixed_dictionaries({"secretKeyRef": SECRET})}
            )
        ),
        "envFrom": st.none() | st.lists(st.fixed_dictionaries({"secretRef": SECRET})),
        "volumeMounts": st.lists(NAMED),
    },
)
TEMPLATE_SPEC = st.fixed_dictionaries(
    {},
    optional={
        "volumes": st.none() | st.lists(VOLUME, max_size=2),
        "containers": st.none() | st.lists(CONTAINER, max_size=2),
        "initContainers": st.none() | st.lists(CONTAINER, max_size=2),
    },
)
DEPLOYMENT_SPEC = st.fixed_dictionaries(
    {},
    optional={"template": st.none() | st.fixed_dictionaries({}, optional={"spec": TEMPLATE_SPEC})},
).map(lambda spec: msgspec.Raw(msgspec.json.encode(spec)))


def scribbled(
    kind: str,
    *names: str,
    spec: st.SearchStrategy[Any] = NOTHING,
    status: st.SearchStrategy[Any] = NOTHING,
) -> st.SearchStrategy[Any]:
    return st.tuples(st.just(kind), st.sampled_from(names), METADATA, spec, status)


SCRIBBLES = st.one_of(
    scribbled("stock", "p-2", "p-4", spec=UNIT_SPEC, status=UNIT_STATUS),
    scribbled("units", "demo", "next", TEMPLATE, FIRST, spec=UNIT_SPEC, status=UNIT_STATUS),
    scribbled(
        "pools",
        "p",
        spec=some(cpu=WORDS, replicas=SIZES, refill=st.sampled_from(("Never", "Always"))),
        status=some(
            **REPORT, seeded=NUMBERS, consumed=NUMBERS, available=NUMBERS, claimed=NUMBERS
        ),
    ),
    scribbled(
        "storages",
        STORAGE,
        spec=some(size=WORDS, prepare=st.none() | st.builds(Prepare, fromStorageName=WORDS)),
        status=some(
            **REPORT,
            capacity=WORDS,
            holder=st.none() | st.builds(Holder, name=WORDS, uid=WORDS),
            mountedBy=each_of(WORDS),
            prepare=st.builds(PrepareStatus, phase=WORDS, jobName=WORDS),
        ),
    ),
    scribbled(
        "pods",
        "unit-demo-1",
        f"storage-accessor-{STORAGE}-1",
        f"unit-{FIRST}",
        spec=POD_SPEC,
        status=some(phase=WORDS),
    ),
    scribbled("jobs", JOB, status=some(conditions=CONDITIONS)),
    scribbled("claims", STORAGE),
    scribbled("services", "unit-demo"),
    scribbled("policies", "unit-demo", f"unit-{FIRST}"),
    scribbled("tombstones", "operation-old"),
)


def scribble(snapshot: Snapshot, drawn: Any) -> Snapshot:
    """Return the snapshot with one of SCRIBBLES applied."""
    kind, name, metadata, spec, status = drawn

    def how(held: Any) -> Any:
        members = {"metadata": metadata, "spec": spec, "status": status}
        parts = {
            part: attrs.evolve(getattr(held, part), **changes)
            for part, changes in members.items()
            if changes
        }
        return attrs.evolve(held, **parts)

    return change(snapshot, kind, name, how)
