#!/usr/bin/env bash
# A function from its declaration to its answers, with curl only: function.sh [ADDRESS]
#
# ADDRESS is the API's. Without it, GPURUNTIME_API or else GPURUNTIME_SERVER names it; the default is
# http://127.0.0.1:8080.
# Start `gpuruntime dev` in this checkout first: it runs the function's container as a process, and
# the function is the file greet.py of this folder. On a cluster the image contains the file.
# A second run on the same dev sends the same operations again, and gets the same answers.
set -euo pipefail

source "$(dirname "$0")/calls.sh" "${1:-}"

echo "# The queue of dev is ready soon after its start; until then invocations are answered 503."
wait_for /health '"queueConnected":true'

echo "# A pool that keeps stock for the workers, and replaces what each cold start takes; and the" \
  "unit that declares the function and runs nothing itself."
call '20?' POST /operator/stockpools '{"operationID": "pool-greet", "name": "greet-warm",
  "specName": "g1.1", "memory": "16Gi", "gpu": 1, "replicas": 2}'
call '20?' POST /gpu-units '{"operationID": "function-greet", "name": "greet", "specName": "g1.1",
  "image": "python:3.12", "template": {"command": ["python", "examples/greet.py"]},
  "serverless": {"requestID": "greet", "idleTimeoutSeconds": 30}}'

echo "# The first call claims and starts a worker; the next call reuses it."
for name in Ada Grace; do
  call 200 POST /serverless/invocations "{\"serverlessRequestID\": \"greet\", \"mode\": \"sync\",
    \"payload\": {\"name\": \"$name\"}}"
  has '"state":"succeeded"'
  has "\"hello\":\"$name\""
  echo "    $answer"
done

echo "# An asynchronous call returns at once, and its answer is kept."
call '20?' POST /serverless/invocations '{"invocationID": "later", "serverlessRequestID": "greet",
  "payload": {"name": "Edsger"}}'
wait_for "/serverless/invocations/later?serverlessRequestID=greet" '"state":"succeeded"'
has '"hello":"Edsger"'

echo "# Workers end after half a minute without a call."
call 200 GET /serverless/functions
echo "    $answer"
echo "done"
