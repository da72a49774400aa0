"""Labels and annotations that record who created an object, for which unit and operation."""

from typing import Final

GROUP: Final = "runtime.lokiwager.io"

APP_NAME: Final = "app.kubernetes.io/name"
MANAGED_BY: Final = "app.kubernetes.io/managed-by"
UNIT: Final = f"{GROUP}/unit"
# On Pods of units: the uid tells them from those of an earlier unit of the name.
UNIT_UID: Final = f"{GROUP}/unit-uid"
STORAGE: Final = f"{GROUP}/storage"
POOL: Final = f"{GROUP}/pool"
SPEC: Final = f"{GROUP}/spec"
TENANT: Final = f"{GROUP}/tenant"
# On a template created through the API: its function, as `label_value_of` writes it.
FUNCTION: Final = f"{GROUP}/function"

# On Pods beside units: those of a storage's file server, and those that fill a storage.
ACCESSOR: Final = f"{GROUP}/accessor"
PREPARE: Final = f"{GROUP}/prepare"

UNIT_APP: Final = "gpuruntime-unit"
STORAGE_APP: Final = "gpuruntime-storage"
# The deployment of the API puts this on its Pods; file servers admit no others.
API_APP: Final = "gpuruntime-api"
MANAGER: Final = "gpuruntime"

# On children: what was last applied, which drift is judged by.
APPLIED: Final = f"{GROUP}/applied"

# On a unit, and on the stock unit that is claimed for it.
OPERATION_ID: Final = f"{GROUP}/operation-id"
REQUEST_HASH: Final = f"{GROUP}/request-hash"
CLAIMED_AT: Final = f"{GROUP}/claimed-at"

# On a unit only. A source stock is written `namespace/name`.
SOURCE_STOCK: Final = f"{GROUP}/source-stock"
SOURCE_STOCK_UID: Final = f"{GROUP}/source-stock-uid"
SOURCE_POOL_UID: Final = f"{GROUP}/source-pool-uid"
ACCEPTED_AT: Final = f"{GROUP}/accepted-at"

# On a unit and on a storage: the uids of the storages that it was given to mount or to copy, as
# `name=uid,name=uid`.
STORAGE_UIDS: Final = f"{GROUP}/storage-uids"

# On the claim of a storage: the uid of the storage. It is not an owner reference, since Kubernetes
# may delete an owned object before its owner.
OWNER_UID: Final = f"{GROUP}/owner-uid"

# On a worker that was asked to take no more invocations; it is deleted once it is idle.
DRAINING: Final = f"{GROUP}/draining"

# On a claimed stock unit only. A claimant is written `namespace/name`.
CLAIMED_BY: Final = f"{GROUP}/claimed-by"
CLAIM_ATTEMPT: Final = f"{GROUP}/claim-attempt"

# On a stock unit: the uid of the pool that created it, since a name may be used again.
POOL_UID: Final = f"{GROUP}/pool-uid"

# On a namespace where objects of our kinds may be created although no manager reads them.
UNMANAGED: Final = f"{GROUP}/unmanaged"

# On a node, written by the GPU vendor's feature discovery.
GPU_PRODUCT: Final = "nvidia.com/gpu.product"
