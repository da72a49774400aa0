"""Requests for units: with its kind and its view, the one list of a unit's fields."""

from typing import Annotated, Any, ClassVar, TypeAlias

import attrs

from gpuruntime.models.definitions import rules
from gpuruntime.models.definitions.schemas import Check, Rule, Schema
from gpuruntime.models.definitions.texts import Image, LabelValue, Name, SpecName
from gpuruntime.models.kinds.functions import Serverless
from gpuruntime.models.kinds.templates import Template
from gpuruntime.models.kinds.units import Access, PullSecrets, StorageMounts
from gpuruntime.models.requests.fields import UNSET, ChosenName, Given, OperationID


def _platform_owner(function: Any) -> str:
    if isinstance(function, dict) and "workerOf" in function:
        return "is set by the platform when it makes a worker: leave it out"
    return ""


RequiredImage: TypeAlias = Annotated[Image, Schema(minLength=1)]
Function: TypeAlias = Annotated[Serverless, Check(_platform_owner, ".workerOf")]


@attrs.frozen(kw_only=True, slots=True)
class CreateUnit:
    """A unit that runs the image with the envelope of one ready stock unit."""

    RULES: ClassVar[tuple[Rule, ...]] = (
        rules.ONE_WORKER_FOR_STORAGE,
        rules.SOCKET_OFF_STORAGES,
        rules.FILES_OFF_STORAGES,
        rules.FILES_OFF_SOCKET,
    )
    REQUIRED: ClassVar[tuple[str, ...]] = ("operationID",)

    operationID: OperationID = ""
    name: ChosenName = ""
    namespace: Name = ""
    specName: SpecName
    stockNamespace: Name = ""
    image: RequiredImage
    template: Template = Template()
    access: Access = Access()
    storageMounts: StorageMounts = ()
    imagePullSecrets: PullSecrets = ()
    serverless: Function | None = None
    tenant: LabelValue = ""


@attrs.frozen(kw_only=True, slots=True)
class UpdateUnit:
    """Given fields replace, absent fields stay, and null clears; the envelope cannot change."""

    image: Given[Image] = UNSET
    template: Given[Template] = UNSET
    access: Given[Access] = UNSET
    storageMounts: Given[StorageMounts] = UNSET
    imagePullSecrets: Given[PullSecrets] = UNSET
    serverless: Given[Function] = UNSET
    suspended: Given[bool] = UNSET
