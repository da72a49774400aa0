"""The types and reasons of our conditions, each with the sentence that defines it."""

from enum import StrEnum


class ConditionType(StrEnum):
    # The object is as its spec asks; an active unit with ports can also be reached.
    READY = "Ready"
    # The volume of a storage was filled as its prepare asks, or no prepare was requested.
    PREPARED = "Prepared"
    # The files of a storage can be reached through its accessor.
    ACCESSOR_READY = "AccessorReady"
    # Every storage that the unit mounts exists, is prepared and is held by this unit.
    STORAGE_READY = "StorageReady"
    # The function that the unit declares has the workers it needs now.
    SERVERLESS_READY = "ServerlessReady"


class UnitReason(StrEnum):
    """Reasons of a unit's condition Ready; the first two have the status True."""

    # The Deployment's one Pod is ready.
    DEPLOYMENT_READY = "DeploymentReady"
    # The unit declares a function that can be called; ServerlessReady reports on its workers.
    FUNCTION_DECLARED = "FunctionDeclared"
    # The children exist and the Pod is starting, as far as the manager can see.
    DEPLOYMENT_PROGRESSING = "DeploymentProgressing"
    # The unit is suspended: the spec asks for no Pod, and none is left.
    SCALED_TO_ZERO = "ScaledToZero"
    # A field of the spec is not usable; the message names it. The unit waits for a new spec.
    INVALID_SPEC = "InvalidSpec"
    # A container cannot start or terminates repeatedly; the message is the container's.
    POD_STARTUP_FAILED = "PodStartupFailed"
    # No node accepts the Pod; the message is the scheduler's.
    POD_UNSCHEDULABLE = "PodUnschedulable"
    # The Pod's state could not be read.
    POD_STATUS_SYNC_FAILED = "PodStatusSyncFailed"
    # The Service could not be written, or the Service of that name has another owner.
    SERVICE_SYNC_FAILED = "ServiceSyncFailed"
    # The Deployment could not be written, or the Deployment of that name has another owner.
    DEPLOYMENT_SYNC_FAILED = "DeploymentSyncFailed"
    # The NetworkPolicy could not be written, or the policy of that name has another owner.
    NETWORK_POLICY_SYNC_FAILED = "NetworkPolicySyncFailed"
    # A storage does not exist, is not prepared, or is held by another unit. The unit waits for it.
    STORAGE_NOT_READY = "StorageNotReady"
    # The storage mounts contradict each other or the unit. The unit waits for a new spec.
    STORAGE_MOUNT_INVALID = "StorageMountInvalid"
    # The declaration of the function is not usable, or an older unit owns its requestID.
    SERVERLESS_CONFIG_INVALID = "ServerlessConfigInvalid"
    # The manager's configuration names no broker, so no function can be called.
    QUEUE_UNKNOWN = "QueueUnknown"
    # The worker's configuration, or its login at the broker, could not be written.
    WORKER_SYNC_FAILED = "WorkerSyncFailed"
    # Another unit of the same operation goes first; this one never starts.
    OPERATION_CONFLICT = "OperationConflict"
    # The unit has lost the stock that it names; the manager claims other stock for it.
    CLAIM_LOST = "ClaimLost"


class PoolReason(StrEnum):
    """Reasons of a pool's condition Ready."""

    # Every unit that the pool keeps or still has is ready. Only this reason has the status True.
    STOCK_READY = "StockReady"
    # Units are being created, are not ready yet, or still follow a change of the pool.
    STOCK_PROGRESSING = "StockProgressing"
    # No unit exists and none will be created: all were consumed, or none was requested.
    STOCK_CONSUMED = "StockConsumed"
    # Units cannot start; the message is from one of them. They are kept and retried slowly.
    STOCK_FAILED = "StockFailed"
    # No node accepts some units; the message has their number and the scheduler's words.
    STOCK_UNSCHEDULABLE = "StockUnschedulable"
    # A unit could not be written or deleted.
    STOCK_SYNC_FAILED = "StockSyncFailed"
    # A field of the spec is not usable; the message names it. The pool waits for a new spec.
    INVALID_SPEC = "InvalidSpec"
    # Another pool gives the same specName another envelope; this one seeds nothing.
    SPEC_CONFLICT = "SpecConflict"


class StorageReason(StrEnum):
    """Reasons of a storage's conditions."""

    # Ready, status True: the volume is bound and prepared, so a unit may mount it.
    VOLUME_READY = "VolumeReady"
    # Ready, status True: as above, but smaller than requested, since the class allows no growth.
    EXPANSION_REFUSED = "ExpansionRefused"
    # The volume is being created, or waits for the first Pod that mounts it.
    VOLUME_PENDING = "VolumePending"
    # The volume is lost for good, with everything on it.
    VOLUME_LOST = "VolumeLost"
    # The claim or the storage is being deleted; the volume is deleted with its last Pod.
    VOLUME_ENDING = "VolumeEnding"
    # The claim could not be written, or the claim of that name has another owner.
    VOLUME_SYNC_FAILED = "VolumeSyncFailed"
    # The NetworkPolicy could not be written, and the volume is not filled without one.
    NETWORK_POLICY_SYNC_FAILED = "NetworkPolicySyncFailed"
    # A field of the spec is not usable; the message names it. The storage waits for a new spec.
    INVALID_SPEC = "InvalidSpec"
    # Prepared, status True: no prepare was requested.
    NOTHING_TO_PREPARE = "NothingToPrepare"
    # Prepared, status True: the prepare has succeeded.
    PREPARE_SUCCEEDED = "PrepareSucceeded"
    # The prepare is running or about to run.
    PREPARE_PROGRESSING = "PrepareProgressing"
    # The Job that fills the volume could not be created, or the Job of that name has another
    # owner.
    PREPARE_SYNC_FAILED = "PrepareSyncFailed"
    # The storage to copy from is not ready yet. The prepare waits for it.
    SOURCE_NOT_READY = "SourceNotReady"
    # The prepare has failed, until a recovery is requested; the message is the Pod's.
    PREPARE_FAILED = "PrepareFailed"
    # AccessorReady, status True: the accessor's Pod is ready.
    ACCESSOR_SERVING = "AccessorServing"
    # No accessor was requested.
    ACCESSOR_OFF = "AccessorOff"
    # The accessor is starting, or waits for the volume.
    ACCESSOR_PROGRESSING = "AccessorProgressing"
    # The accessor's Pod cannot start; the message is the Pod's.
    ACCESSOR_FAILED = "AccessorFailed"


class MountReason(StrEnum):
    """Reasons of a unit's condition StorageReady."""

    # Every storage is ready and held by this unit. Only this reason has the status True.
    STORAGES_HELD = "StoragesHeld"
    # A storage does not exist. The unit waits for it.
    STORAGE_MISSING = "StorageMissing"
    # A storage is being created or filled. The unit waits for it.
    STORAGE_NOT_READY = "StorageNotReady"
    # A storage has failed; the message is the storage's. The unit waits until it is repaired.
    STORAGE_FAILED = "StorageFailed"
    # Another unit holds a storage, or is earlier in the line. The unit waits for its turn.
    STORAGE_HELD = "StorageHeldElsewhere"


class FunctionReason(StrEnum):
    """Reasons of a unit's condition ServerlessReady."""

    # As many workers are ready as are needed now, perhaps none. Only this one has the status True.
    WORKERS_READY = "WorkersReady"
    # Workers are starting or unavailable; the message says why.
    WORKERS_MISSING = "WorkersMissing"
    # Enough workers are ready, but some run an earlier image, template, framework or concurrency.
    WORKERS_OUTDATED = "WorkersOutdated"
    # The activator has not decided yet how many workers are needed.
    NOT_SCALED_YET = "NotScaledYet"
    # The function cannot be called; Ready has the same message.
    NOT_DECLARED = "NotDeclared"
