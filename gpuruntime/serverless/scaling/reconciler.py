"""Reconciles one function: its workers, its consumer, and the status of both.

A key is a function. A slow step delays no other function. A new leader can observe everything
again, except times.
"""

import attrs

from gpuruntime.controller.controller import Result
from gpuruntime.serverless.scaling.actions import Actions
from gpuruntime.serverless.scaling.observation import Observer
from gpuruntime.serverless.scaling.plan import decide
from gpuruntime.serverless.scaling.report import Reporter


@attrs.frozen(kw_only=True, slots=True)
class Scaler:
    observer: Observer
    actions: Actions
    reporter: Reporter

    async def reconcile(self, function: str) -> Result:
        seen = self.observer.observe(function)
        plan = decide(seen)
        retry_seconds = await self.actions.act(seen, plan)
        report_seconds = await self.reporter.report(seen, plan)
        return Result.earliest(plan.look_again_seconds, retry_seconds, report_seconds)
