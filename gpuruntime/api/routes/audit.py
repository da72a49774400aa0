"""The route that checks the invariants against the caches."""

from collections.abc import Callable
from datetime import datetime
from typing import Final

from gpuruntime.api.auth.access import AUDIT, Access, Place, Verb
from gpuruntime.api.http.routing import READ, Answer, Call, NoQuery, Reply, Route
from gpuruntime.api.routes.stock import OPERATOR
from gpuruntime.audit.auditor import Auditor, Report
from gpuruntime.audit.breach import Breach
from gpuruntime.audit.rules import RULES
from gpuruntime.models.views.operators import AuditedObject, AuditView, BreachView, RuleView

# Breaches that are listed; the counts include all of them.
MOST_LISTED: Final = 100


def audit_route(auditor: Auditor, now: Callable[[], datetime]) -> Route:
    async def read_audit(_: Call[NoQuery, None]) -> Reply:
        return Reply(data=audit_view(await auditor.audit(), now()))

    return Route(
        name="getAudit",
        access=Access(verb=Verb.GET, resource=AUDIT, place=Place.ALL),
        method="GET",
        path=f"{OPERATOR}/audit",
        handler=read_audit,
        summary="The invariants and their breaches",
        answers=(
            Answer(
                status=200,
                description=f"As of the caches; at most {MOST_LISTED} breaches are listed.",
                model=AuditView,
            ),
        ),
        errors=READ,
        tag="status",
    )


def audit_view(report: Report, now: datetime, *, most_listed: int = MOST_LISTED) -> AuditView:
    return AuditView(
        rules=[
            RuleView(
                name=rule.name,
                description=rule.description,
                checked=rule.name in report.counts,
                breaches=report.counts.get(rule.name, 0),
            )
            for rule in RULES
        ],
        breaches=[_breach_view(each) for each in report.breaches[:most_listed]],
        suspicions=report.suspicion_count,
        checkedAt=now,
        objects=report.object_count,
    )


def _breach_view(breach: Breach) -> BreachView:
    objects = [
        AuditedObject(kind=each.kind, namespace=each.namespace, name=each.name, uid=each.uid)
        for each in breach.objects
    ]
    return BreachView(
        rule=breach.rule, objects=objects, message=breach.message, remedy=breach.remedy
    )
