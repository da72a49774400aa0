#!/usr/bin/env bash
# A function from its declaration to its answers, with curl alone: function.sh [ADDRESS]
#
# ADDRESS, or the variable GPURUNTIME_API, is where the API is; http://127.0.0.1:8080 otherwise.
# It is for a `gpuruntime dev` that was started in this checkout, because the function is the file
# greet.py of this folder: dev runs its container as a process. Elsewhere the image has the file.
# Once more on the same dev, it sends the same operations again, and gets the same answers.
set -euo pipefail

source "$(dirname "$0")/calls.sh" "${1:-}"

echo "# A moment after the start of dev its queue is there; until then invocations are 503."
wait_for /health '"queueConnected":true'

echo "# Stock for the workers, and the unit that declares the function: it runs nothing itself."
call '20?' POST /operator/stock-units '{"operationID": "stock-greet", "specName": "g1.1",
  "memory": "16Gi", "gpu": 1, "replicas": 2}'
call '20?' POST /gpu-units '{"operationID": "function-greet", "name": "greet", "specName": "g1.1",
  "image": "python:3.12", "template": {"command": ["python", "examples/greet.py"]},
  "serverless": {"requestID": "greet", "idleTimeoutSeconds": 30}}'

echo "# The first call claims a worker and starts it; the next ones find it there."
for name in Ada Grace; do
  call 200 POST /serverless/invocations "{\"serverlessRequestID\": \"greet\", \"mode\": \"sync\",
    \"payload\": {\"name\": \"$name\"}}"
  has '"state":"succeeded"'
  has "\"hello\":\"$name\""
  echo "    $answer"
done

echo "# Nobody has to wait: the answer is kept."
call '20?' POST /serverless/invocations '{"invocationID": "later", "serverlessRequestID": "greet",
  "payload": {"name": "Edsger"}}'
wait_for "/serverless/invocations/later?serverlessRequestID=greet" '"state":"succeeded"'
has '"hello":"Edsger"'

echo "# Workers go when nobody calls for half a minute."
call 200 GET /serverless/functions
echo "    $answer"
echo "done"
