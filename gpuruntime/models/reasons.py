"""Why a condition is as it is: every reason that we write, with the sentence that defines it."""

from enum import StrEnum


class ConditionType(StrEnum):
    # The object is as its spec asks; of an active unit with ports, it can be reached.
    READY = "Ready"
    # Every storage that the unit mounts exists, is prepared and is held by this unit.
    STORAGE_READY = "StorageReady"
    # The function that the unit declares has the workers it needs now.
    SERVERLESS_READY = "ServerlessReady"


class UnitReason(StrEnum):
    """Reasons of a unit's condition Ready."""

    # The Deployment's one Pod is ready. The only reason with the status True.
    DEPLOYMENT_READY = "DeploymentReady"
    # The children are in place and the Pod is on its way, as far as anyone can tell.
    DEPLOYMENT_PROGRESSING = "DeploymentProgressing"
    # The spec asks for no Pod, and none is left: suspended, or the template of a function.
    SCALED_TO_ZERO = "ScaledToZero"
    # A field of the spec cannot be carried out; the message names it. Waits for a new spec.
    INVALID_SPEC = "InvalidSpec"
    # A container cannot start or keeps ending; the message carries its own words.
    POD_STARTUP_FAILED = "PodStartupFailed"
    # No node takes the Pod; the message carries the scheduler's words.
    POD_UNSCHEDULABLE = "PodUnschedulable"
    # The Pod's state could not be read.
    POD_STATUS_SYNC_FAILED = "PodStatusSyncFailed"
    # The Service could not be written, or the one of its name has another owner.
    SERVICE_SYNC_FAILED = "ServiceSyncFailed"
    # The Deployment could not be written, or the one of its name has another owner.
    DEPLOYMENT_SYNC_FAILED = "DeploymentSyncFailed"
    # The NetworkPolicy could not be written, or the one of its name has another owner.
    NETWORK_POLICY_SYNC_FAILED = "NetworkPolicySyncFailed"
    # A storage is not there yet, not prepared, or held by another unit. Waits for it.
    STORAGE_NOT_READY = "StorageNotReady"
    # The storage mounts contradict each other or the unit. Waits for a new spec.
    STORAGE_MOUNT_INVALID = "StorageMountInvalid"
    # The function cannot be declared like this, or an older unit owns its requestID.
    SERVERLESS_CONFIG_INVALID = "ServerlessConfigInvalid"
    # Another unit of the same operation goes first; this one never starts.
    OPERATION_CONFLICT = "OperationConflict"
    # The stock that the unit names went elsewhere; the manager claims another for it.
    CLAIM_LOST = "ClaimLost"


class PoolReason(StrEnum):
    """Reasons of a pool's condition Ready."""

    # Every unit that the pool keeps or still has is ready. The only reason with the status True.
    STOCK_READY = "StockReady"
    # Units are being made, or made and not yet ready.
    STOCK_PROGRESSING = "StockProgressing"
    # No unit is there and none will come: all were consumed, or none was asked for.
    STOCK_CONSUMED = "StockConsumed"
    # Units cannot start; the message carries the words of one. They are held and retried slowly.
    STOCK_FAILED = "StockFailed"
    # A unit could not be written or removed.
    STOCK_SYNC_FAILED = "StockSyncFailed"
    # A field of the spec cannot be carried out; the message names it. Waits for a new spec.
    INVALID_SPEC = "InvalidSpec"
    # Another pool gives the same specName another envelope; this one seeds nothing.
    SPEC_CONFLICT = "SpecConflict"
