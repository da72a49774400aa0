"""The product's audit, run on demand for one installation on a control plane."""

from gpuruntime.audit.auditor import Report
from gpuruntime.roles.audit import audit
from gpuruntime.settings.schema import KubernetesSettings, NamespaceSettings, Settings
from gpuruntime.settings.values import Label
from tests.proofs.real_cluster.product import Installation


async def audited(made: Installation, *, watch_seconds: float = 0.0) -> Report:
    """Audit every kind with an account that may read everything."""
    settings = Settings(
        kubernetes=KubernetesSettings(kubeconfig=str(made.plane.kubeconfig)),
        namespaces=NamespaceSettings(
            stock=Label(made.stock), instance=Label(made.instance), system=Label(made.system)
        ),
    )
    return await audit(settings, watch_seconds=watch_seconds)


def told(report: Report) -> list[str]:
    """Return one line for each breach."""
    return [f"{each.rule}: {each.message}" for each in report.breaches]
