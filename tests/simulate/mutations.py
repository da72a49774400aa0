"""Small defects, planted one at a time: each has to be found, by a seed or by a test."""

from typing import Final

from tests.simulate.core_mutations import CORE
from tests.simulate.function_mutations import FUNCTIONS
from tests.simulate.serverless_mutations import SERVERLESS
from tests.simulate.storage_mutations import STORAGES

MUTATIONS: Final = (*CORE, *STORAGES, *FUNCTIONS, *SERVERLESS)
