"""Small defects, planted one at a time: each has to be found, by a seed or by a test."""

from typing import Final

from tests.proofs.simulation.mutations.core import CORE
from tests.proofs.simulation.mutations.functions import FUNCTIONS
from tests.proofs.simulation.mutations.serverless import SERVERLESS
from tests.proofs.simulation.mutations.storages import STORAGES

MUTATIONS: Final = (*CORE, *STORAGES, *FUNCTIONS, *SERVERLESS)
