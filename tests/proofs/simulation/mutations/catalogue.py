"""Small defects that are planted one at a time; a seed or a test has to find each of them."""

from typing import Final

from tests.proofs.simulation.mutations.activity import ACTIVITY
from tests.proofs.simulation.mutations.containers import CONTAINERS
from tests.proofs.simulation.mutations.core import CORE
from tests.proofs.simulation.mutations.functions import FUNCTIONS
from tests.proofs.simulation.mutations.gateway import GATEWAY
from tests.proofs.simulation.mutations.secrets import SECRETS
from tests.proofs.simulation.mutations.serverless import SERVERLESS
from tests.proofs.simulation.mutations.ssh import SSH
from tests.proofs.simulation.mutations.storages import STORAGES
from tests.proofs.simulation.mutations.tickets import TICKETS

MUTATIONS: Final = (
    *CORE,
    *STORAGES,
    *FUNCTIONS,
    *SERVERLESS,
    *SECRETS,
    *ACTIVITY,
    *TICKETS,
    *CONTAINERS,
    *SSH,
    *GATEWAY,
)
