"""Content negotiation: the form of an answer that a client accepts."""

from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from typing import Final, Literal

import attrs

from gpuruntime.embedded.apiserver.status_errors import invalid_options, not_acceptable
from gpuruntime.embedded.kubectl.object_forms import Form, MetadataForm, WholeForm
from gpuruntime.embedded.kubectl.printers import printer_of
from gpuruntime.embedded.kubectl.tables import INCLUDED, TableForm
from gpuruntime.embedded.objects.registry import Kind
from gpuruntime.embedded.schemas.faults import not_supported
from gpuruntime.kube.transport import JSON

Scope = Literal["object", "list", "watch"]

ANYTHING: Final = ("*/*", "application/*", JSON)
NO_TYPE: Final = "406: Not Acceptable\n\nAvailable representations: application/json"
NO_FORM: Final = "only the following media types are accepted: application/json"


@attrs.frozen(kw_only=True, slots=True)
class AcceptedForm:
    """The form that a client accepts: its Accept header and the `includeObject` parameter."""

    accept: str = JSON
    included: str = ""

    def clauses(self) -> Iterator[Mapping[str, str]]:
        """Yield the parameters of each JSON media type, in the client's order."""
        for clause in self.accept.split(",") if self.accept.strip() else [JSON]:
            media_type, *parameters = (part.strip() for part in clause.split(";"))
            if media_type.lower() in ANYTHING:
                pairs = (parameter.partition("=") for parameter in parameters)
                yield {name: value for name, _, value in pairs}


def form_of(kind: Kind, accepted: AcceptedForm, scope: Scope, now: Callable[[], datetime]) -> Form:
    """Return the form of the first clause that this server can serve."""
    refusal = NO_TYPE
    for parameters in accepted.clauses():
        asked = parameters.get("as")
        if asked is None:
            return WholeForm(kind)
        if (parameters.get("g"), parameters.get("v")) != ("meta.k8s.io", "v1"):
            refusal = NO_FORM
        elif asked == "Table":
            return _table(kind, accepted, now)
        elif asked in ("PartialObjectMetadata", "PartialObjectMetadataList"):
            if scope == "watch" or (scope == "list") == asked.endswith("List"):
                return MetadataForm()
            is_no = "is not a list" if scope == "object" else "is a list"
            refusal = f"you requested {asked}, but the requested object {is_no} ({kind.kind})"
        else:
            refusal = NO_FORM
    raise not_acceptable(refusal)


def _table(kind: Kind, accepted: AcceptedForm, now: Callable[[], datetime]) -> TableForm:
    if accepted.included and accepted.included not in INCLUDED:
        fault = not_supported("includeObject", accepted.included, list(INCLUDED))
        raise invalid_options("TableOptions", fault)
    return TableForm(printer_of(kind), accepted.included, now)
