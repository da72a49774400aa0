"""Labels and annotations on what we create: who made it, for which unit, by which operation."""

from typing import Final

GROUP: Final = "runtime.lokiwager.io"

APP_NAME: Final = "app.kubernetes.io/name"
MANAGED_BY: Final = "app.kubernetes.io/managed-by"
UNIT: Final = f"{GROUP}/unit"
STORAGE: Final = f"{GROUP}/storage"
POOL: Final = f"{GROUP}/pool"
SPEC: Final = f"{GROUP}/spec"
TENANT: Final = f"{GROUP}/tenant"
# On a template made through the API: the function, as `label_value_of` makes a label of it.
FUNCTION: Final = f"{GROUP}/function"

# On the Pods beside units: of a storage's file server, and of what fills the storage.
ACCESSOR: Final = f"{GROUP}/accessor"
PREPARE: Final = f"{GROUP}/prepare"

UNIT_APP: Final = "gpuruntime-unit"
STORAGE_APP: Final = "gpuruntime-storage"
# Whoever runs the api puts it on its Pods: file servers let nobody else in.
API_APP: Final = "gpuruntime-api"
MANAGER: Final = "gpuruntime"

# On a unit, and on the stock unit that is claimed for it.
OPERATION_ID: Final = f"{GROUP}/operation-id"
REQUEST_HASH: Final = f"{GROUP}/request-hash"
CLAIMED_AT: Final = f"{GROUP}/claimed-at"

# On a unit alone. A source stock is written `namespace/name`.
SOURCE_STOCK: Final = f"{GROUP}/source-stock"
SOURCE_STOCK_UID: Final = f"{GROUP}/source-stock-uid"
SOURCE_POOL_UID: Final = f"{GROUP}/source-pool-uid"
ACCEPTED_AT: Final = f"{GROUP}/accepted-at"

# On a unit and on a storage: the uids of what it was given to mount, or to copy, as
# `name=uid,name=uid`.
STORAGE_UIDS: Final = f"{GROUP}/storage-uids"

# On the claim of a storage: the uid of that, which is no owner by reference, since Kubernetes may
# take what is owned before its owner goes.
OWNER_UID: Final = f"{GROUP}/owner-uid"

# On a worker of a function that was told to take no more invocations: it goes once it is idle.
DRAINING: Final = f"{GROUP}/draining"

# On a claimed stock unit alone. A claimant is written `namespace/name`.
CLAIMED_BY: Final = f"{GROUP}/claimed-by"
CLAIM_ATTEMPT: Final = f"{GROUP}/claim-attempt"

# On a stock unit: which pool made it, since a name may be used again.
POOL_UID: Final = f"{GROUP}/pool-uid"

# On a node, put there by the GPU vendor's feature discovery.
GPU_PRODUCT: Final = "nvidia.com/gpu.product"
