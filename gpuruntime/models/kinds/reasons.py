"""Why a condition is as it is: every reason that we write, with the sentence that defines it."""

from enum import StrEnum


class ConditionType(StrEnum):
    # The object is as its spec asks; of an active unit with ports, it can be reached.
    READY = "Ready"
    # The volume of a storage was filled as its prepare asks, or nothing was asked for.
    PREPARED = "Prepared"
    # The files of a storage can be reached through its accessor.
    ACCESSOR_READY = "AccessorReady"
    # Every storage that the unit mounts exists, is prepared and is held by this unit.
    STORAGE_READY = "StorageReady"
    # The function that the unit declares has the workers it needs now.
    SERVERLESS_READY = "ServerlessReady"


class UnitReason(StrEnum):
    """Reasons of a unit's condition Ready; the first two come with the status True."""

    # The Deployment's one Pod is ready.
    DEPLOYMENT_READY = "DeploymentReady"
    # The unit declares a function that can be called; whether by now, ServerlessReady tells.
    FUNCTION_DECLARED = "FunctionDeclared"
    # The children are in place and the Pod is on its way, as far as anyone can tell.
    DEPLOYMENT_PROGRESSING = "DeploymentProgressing"
    # The spec asks for no Pod, and none is left: suspended.
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
    # The manager's configuration names no broker, so no function can be called. Waits for one.
    QUEUE_UNKNOWN = "QueueUnknown"
    # What a worker is told, or how it logs in at the broker, could not be written.
    WORKER_SYNC_FAILED = "WorkerSyncFailed"
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


class StorageReason(StrEnum):
    """Reasons of a storage's conditions."""

    # The volume is bound and prepared: a unit may mount it. Of Ready, with the status True.
    VOLUME_READY = "VolumeReady"
    # As before, but smaller than asked for: the class does not let volumes grow. Ready is True.
    EXPANSION_REFUSED = "ExpansionRefused"
    # The volume is being made, or waits for the first Pod that mounts it.
    VOLUME_PENDING = "VolumePending"
    # The volume is gone for good, and what was on it too.
    VOLUME_LOST = "VolumeLost"
    # The claim, or the storage itself, is being deleted: the volume goes with its last Pod.
    VOLUME_ENDING = "VolumeEnding"
    # The claim could not be written, or the one of its name has another owner.
    VOLUME_SYNC_FAILED = "VolumeSyncFailed"
    # The NetworkPolicy could not be written: nothing fills the volume without one.
    NETWORK_POLICY_SYNC_FAILED = "NetworkPolicySyncFailed"
    # A field of the spec cannot be carried out; the message names it. Waits for a new spec.
    INVALID_SPEC = "InvalidSpec"
    # Nobody asked for anything to be put on the volume. Of Prepared, with the status True.
    NOTHING_TO_PREPARE = "NothingToPrepare"
    # The prepare ended well. Of Prepared, with the status True.
    PREPARE_SUCCEEDED = "PrepareSucceeded"
    # The prepare runs, or is about to.
    PREPARE_PROGRESSING = "PrepareProgressing"
    # The Job that fills the volume could not be made, or the one of its name has another owner.
    PREPARE_SYNC_FAILED = "PrepareSyncFailed"
    # The storage to copy from is not ready yet. Waits for it.
    SOURCE_NOT_READY = "SourceNotReady"
    # The prepare failed, and stays so until somebody asks to recover; the Pod's own words.
    PREPARE_FAILED = "PrepareFailed"
    # The accessor's Pod is ready. Of AccessorReady, with the status True.
    ACCESSOR_SERVING = "AccessorServing"
    # Nobody asked for an accessor.
    ACCESSOR_OFF = "AccessorOff"
    # The accessor is on its way, or waits for the volume.
    ACCESSOR_PROGRESSING = "AccessorProgressing"
    # The accessor's Pod cannot start; the message carries its own words.
    ACCESSOR_FAILED = "AccessorFailed"


class MountReason(StrEnum):
    """Reasons of a unit's condition StorageReady."""

    # Every storage is ready, and held by this unit. The only reason with the status True.
    STORAGES_HELD = "StoragesHeld"
    # A storage does not exist. Waits for it.
    STORAGE_MISSING = "StorageMissing"
    # A storage is being made or filled. Waits for it.
    STORAGE_NOT_READY = "StorageNotReady"
    # A storage failed; the message carries its own words. Waits for somebody to mend it.
    STORAGE_FAILED = "StorageFailed"
    # Another unit holds a storage, or is before this one. Waits for its turn.
    STORAGE_HELD = "StorageHeldElsewhere"


class FunctionReason(StrEnum):
    """Reasons of a unit's condition ServerlessReady."""

    # As many workers are ready as are needed now, perhaps none. The only one with the status True.
    WORKERS_READY = "WorkersReady"
    # Workers are on their way, or cannot be had; the message says why.
    WORKERS_MISSING = "WorkersMissing"
    # Nobody has looked yet at how many workers are needed: that is what the activator does.
    NOT_SCALED_YET = "NotScaledYet"
    # The function cannot be called; the message is that of Ready.
    NOT_DECLARED = "NotDeclared"
