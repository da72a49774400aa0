import attrs

from gpuruntime.models.encoding.members import shared_names
from gpuruntime.models.kinds import labels
from gpuruntime.models.kinds.functions import Serverless, WorkerOf
from gpuruntime.models.kinds.templates import Template
from gpuruntime.models.kinds.units import Access, GPUUnit, GPUUnitSpec, StorageMount
from gpuruntime.models.kubernetes.metadata import ObjectMeta
from gpuruntime.models.requests.units import CreateUnit
from gpuruntime.serverless.scaling.worker_units import _order

FUNCTION = Serverless(requestID="echo", maxWorkers=1)
TEMPLATE = GPUUnit(
    metadata=ObjectMeta(name="echo", uid="t", labels={labels.TENANT: "team"}),
    spec=GPUUnitSpec(
        specName="g1",
        image="v1",
        template=Template(args=("x",)),
        access=Access(scheme="ws"),
        storageMounts=(StorageMount(name="data", mountPath="/data"),),
        imagePullSecrets=("hub",),
        serverless=FUNCTION,
    ),
)


def test_a_worker_is_requested_with_every_field_of_its_template() -> None:
    order = _order(TEMPLATE, FUNCTION, "echo-w-1", "gpuruntime:worker:1")
    for name in shared_names(GPUUnitSpec, CreateUnit):
        default = attrs.fields_dict(GPUUnitSpec)[name].default
        assert getattr(TEMPLATE.spec, name) != default, f"give the template another {name}"
        if name != "serverless":
            assert getattr(order, name) == getattr(TEMPLATE.spec, name)
    owner = WorkerOf(name="echo", uid="t")
    assert order.serverless == attrs.evolve(FUNCTION, workerOf=owner)
    assert (order.name, order.tenant) == ("echo-w-1", "team")
