"""Example bodies: the document shows them, and its page sends them as they are."""

from typing import Final

from gpuruntime.models.encoding.json import JsonObject

SEED_STOCK: Final[JsonObject] = {
    "operationID": "stock-g1-demo-001",
    "specName": "g1.1",
    "memory": "16Gi",
    "gpu": 1,
    "replicas": 2,
}
CREATE_POOL: Final[JsonObject] = {
    "operationID": "pool-g1-demo-001",
    "name": "g1-demo",
    "specName": "g1.1",
    "memory": "16Gi",
    "gpu": 1,
    "replicas": 2,
    "refill": "Always",
}
UPDATE_POOL: Final[JsonObject] = {"replicas": 3}
CREATE_UNIT: Final[JsonObject] = {
    "operationID": "unit-demo-001",
    "name": "demo-instance",
    "specName": "g1.1",
    "image": "python:3.12",
    "access": {"primaryPort": "http", "scheme": "http"},
    "template": {
        "command": ["python"],
        "args": ["-m", "http.server", "8080"],
        "ports": [{"name": "http", "port": 8080}],
    },
}
UPDATE_UNIT: Final[JsonObject] = {"suspended": True}
CREATE_TICKET: Final[JsonObject] = {"uses": ["http"], "port": "http", "seconds": 900}
CREATE_STORAGE: Final[JsonObject] = {
    "name": "models",
    "size": "10Gi",
    "prepare": {
        "fromImage": "busybox:1.36",
        "command": ["sh", "-c", "echo hello > /storage/hello.txt"],
    },
    "accessor": {"enabled": True},
}
CREATE_SECRET: Final[JsonObject] = {"name": "hub", "data": {"token": "a-value"}}
INVOKE: Final[JsonObject] = {
    "invocationID": "call-001",
    "serverlessRequestID": "echo",
    "mode": "async",
    "payload": {"hello": "world"},
}
UPDATE_STORAGE: Final[JsonObject] = {"size": "20Gi"}
