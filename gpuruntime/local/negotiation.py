"""Which form of an answer a client accepts."""

from collections.abc import Mapping
from typing import Final

from gpuruntime.kube.transport import JSON
from gpuruntime.local.forms import Form, MetadataForm, WholeForm
from gpuruntime.local.registry import Kind
from gpuruntime.local.status import not_acceptable

ANYTHING: Final = ("*/*", "application/*", JSON)
NO_FORM: Final = "406: Not Acceptable\n\nAvailable representations: application/json"
NO_SUCH_FORM: Final = "only the following media types are accepted: application/json"


def form_of(kind: Kind, accept: str, *, is_list: bool) -> Form:
    """The first that this server has, in the client's order."""
    refusal = NO_FORM
    for clause in accept.split(",") if accept else [JSON]:
        media_type, parameters = _parsed(clause)
        if media_type not in ANYTHING:
            continue
        match parameters.get("as"), parameters.get("g"), parameters.get("v"):
            case None, _, _:
                return WholeForm(kind)
            case "PartialObjectMetadata", "meta.k8s.io", "v1":
                return MetadataForm()
            case "PartialObjectMetadataList", "meta.k8s.io", "v1":
                if not is_list:
                    raise not_acceptable(
                        "you requested PartialObjectMetadataList, but the requested object is not "
                        f"a list ({kind.kind})"
                    )
                return MetadataForm()
            case _:
                refusal = NO_SUCH_FORM
    raise not_acceptable(refusal)


def _parsed(clause: str) -> tuple[str, Mapping[str, str]]:
    media_type, *parameters = (part.strip() for part in clause.split(";"))
    pairs = (parameter.partition("=") for parameter in parameters)
    return media_type.lower(), {name: value for name, _, value in pairs}
