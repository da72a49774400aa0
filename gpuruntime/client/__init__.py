"""The REST API as typed Python values, with safe retries, pages and waiting."""

# Only this `__init__.py` and the one of `framework` import: programs need no deeper path.

from gpuruntime.client import waiting
from gpuruntime.client.client import Client, connect
from gpuruntime.client.errors import (
    AccessDeniedError,
    BusyError,
    Certainty,
    ClientError,
    ConflictError,
    CutOffError,
    DeadlineError,
    FailedError,
    GatewayError,
    InvalidRequestError,
    LostAnswerError,
    NotFoundError,
    NotYetError,
    PreconditionError,
    ProblemError,
    UnitRefusedError,
    UnreachableGatewayError,
    UnreachableServerError,
    UnreadableAnswerError,
    UntrustedServerError,
    UnusableInputError,
    WaitError,
)
from gpuruntime.client.messages import Page, Reply
from gpuruntime.client.options import Options
from gpuruntime.client.processes import Process, TerminalSize
from gpuruntime.client.storages import FileEntry, Files
from gpuruntime.client.units import LogFilter, UnitFilter
from gpuruntime.errors import ConfigurationError
from gpuruntime.models.kinds.functions import Framework, Serverless, WorkerOf
from gpuruntime.models.kinds.invocations import FailureClass, FunctionError, Mode, State
from gpuruntime.models.kinds.phases import PoolPhase, StepPhase, StoragePhase, UnitPhase
from gpuruntime.models.kinds.pools import Refill
from gpuruntime.models.kinds.reasons import ConditionType
from gpuruntime.models.kinds.secrets import SecretKey, SecretType
from gpuruntime.models.kinds.storages import (
    Accessor,
    AccessorStatus,
    Holder,
    Prepare,
    PrepareStatus,
)
from gpuruntime.models.kinds.templates import (
    EnvVar,
    Port,
    PortProtocol,
    SecretFile,
    Template,
)
from gpuruntime.models.kinds.units import Access, Readiness, StorageMount, Timeline
from gpuruntime.models.kubernetes.conditions import Condition
from gpuruntime.models.kubernetes.exec_streams import Output
from gpuruntime.models.requests.fields import UNSET
from gpuruntime.models.requests.invocations import Invoke
from gpuruntime.models.requests.pools import CreatePool as NewPool
from gpuruntime.models.requests.pools import SeedStock as NewStock
from gpuruntime.models.requests.pools import UpdatePool as PoolChange
from gpuruntime.models.requests.secrets import CreateSecret as NewSecret
from gpuruntime.models.requests.secrets import RegistryLogin
from gpuruntime.models.requests.storages import CreateStorage as NewStorage
from gpuruntime.models.requests.storages import UpdateStorage as StorageChange
from gpuruntime.models.requests.tickets import CreateTicket as NewTicket
from gpuruntime.models.requests.tickets import Use
from gpuruntime.models.requests.units import CreateUnit as NewUnit
from gpuruntime.models.requests.units import UpdateUnit as UnitChange
from gpuruntime.models.views.errors import ErrorDetail
from gpuruntime.models.views.flavours import FlavourView
from gpuruntime.models.views.operators import (
    ActiveCounts,
    AuditedObject,
    AuditView,
    BreachView,
    FleetView,
    GpuProductView,
    HealthStatus,
    HealthView,
    Job,
    JobStatus,
    NodeView,
    QuotaView,
    RuleView,
    SpecView,
    StockCounts,
)
from gpuruntime.models.views.pools import PoolView
from gpuruntime.models.views.secrets import SecretView
from gpuruntime.models.views.serverless import (
    AcceptedView,
    DeadLetterView,
    FunctionView,
    InvocationSummary,
    InvocationView,
    WorkersView,
)
from gpuruntime.models.views.storages import StorageView
from gpuruntime.models.views.tickets import SshAddress, TicketUnit, TicketView
from gpuruntime.models.views.units import (
    AccessView,
    EventView,
    Lifecycle,
    SourceStock,
    UnitView,
)

__all__ = [
    "UNSET",
    "AcceptedView",
    "Access",
    "AccessDeniedError",
    "AccessView",
    "Accessor",
    "AccessorStatus",
    "ActiveCounts",
    "AuditView",
    "AuditedObject",
    "BreachView",
    "BusyError",
    "Certainty",
    "Client",
    "ClientError",
    "Condition",
    "ConditionType",
    "ConfigurationError",
    "ConflictError",
    "CutOffError",
    "DeadLetterView",
    "DeadlineError",
    "EnvVar",
    "ErrorDetail",
    "EventView",
    "FailedError",
    "FailureClass",
    "FileEntry",
    "Files",
    "FlavourView",
    "FleetView",
    "Framework",
    "FunctionError",
    "FunctionView",
    "GatewayError",
    "GpuProductView",
    "HealthStatus",
    "HealthView",
    "Holder",
    "InvalidRequestError",
    "InvocationSummary",
    "InvocationView",
    "Invoke",
    "Job",
    "JobStatus",
    "Lifecycle",
    "LogFilter",
    "LostAnswerError",
    "Mode",
    "NewPool",
    "NewSecret",
    "NewStock",
    "NewStorage",
    "NewTicket",
    "NewUnit",
    "NodeView",
    "NotFoundError",
    "NotYetError",
    "Options",
    "Output",
    "Page",
    "PoolChange",
    "PoolPhase",
    "PoolView",
    "Port",
    "PortProtocol",
    "PreconditionError",
    "Prepare",
    "PrepareStatus",
    "ProblemError",
    "Process",
    "QuotaView",
    "Readiness",
    "Refill",
    "RegistryLogin",
    "Reply",
    "RuleView",
    "SecretFile",
    "SecretKey",
    "SecretType",
    "SecretView",
    "Serverless",
    "SourceStock",
    "SpecView",
    "SshAddress",
    "State",
    "StepPhase",
    "StockCounts",
    "StorageChange",
    "StorageMount",
    "StoragePhase",
    "StorageView",
    "Template",
    "TerminalSize",
    "TicketUnit",
    "TicketView",
    "Timeline",
    "UnitChange",
    "UnitFilter",
    "UnitPhase",
    "UnitRefusedError",
    "UnitView",
    "UnreachableGatewayError",
    "UnreachableServerError",
    "UnreadableAnswerError",
    "UntrustedServerError",
    "UnusableInputError",
    "Use",
    "WaitError",
    "WorkerOf",
    "WorkersView",
    "connect",
    "waiting",
]
