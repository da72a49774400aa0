#!/usr/bin/env bash
# The way from stock to a running unit and its storage, with curl only: walkthrough.sh [ADDRESS]
#
# ADDRESS is the API's. Without it, GPURUNTIME_API or else GPURUNTIME_SERVER names it; the default is
# http://127.0.0.1:8080.
# It can run again: it deletes what an earlier run has left under its names, and each run has its own
# operations and its own flavour. If KUBECONFIG is set, it ends with the output of kubectl.
set -euo pipefail

source "$(dirname "$0")/calls.sh" "${1:-}"
run="$(date +%s)-$RANDOM"
spec="g1.$run"

# remove PATH: delete an object if it exists, and wait until it is gone.
remove() {
  call '[24]0[024]' DELETE "$1"
  wait_for "$1" '_not_found"'
}

# unit OPERATION NAME IMAGE: print the body that requests a unit.
unit() {
  cat <<BODY
{"operationID": "$1-$run", "name": "$2", "namespace": "runtime-instance", "specName": "$spec",
 "image": "$3", "access": {"primaryPort": "http", "scheme": "http"},
 "template": {"command": ["python"], "args": ["-m", "http.server", "8080"],
              "ports": [{"name": "http", "port": 8080}]}}
BODY
}

# stock REPLICAS: print the body that seeds this number of stock units.
stock() {
  echo "{\"operationID\": \"stock-$run\", \"specName\": \"$spec\", \"memory\": \"16Gi\"," \
    "\"gpu\": 1, \"replicas\": $1}"
}

echo "# What an earlier run has left is deleted."
for name in demo-instance second third; do
  remove "/gpu-units/$name"
done
for name in weights-copy weights; do
  wait_for "/gpu-storages/$name" '"mountedBy":[]' '_not_found"'
  remove "/gpu-storages/$name"
done
remove /operator/stockpools/g1-demo

echo "# Two stock units: the same request again is the same operation, another body is a conflict."
call 202 POST /operator/stock-units "$(stock 2)"
call 200 POST /operator/stock-units "$(stock 2)"
call 409 POST /operator/stock-units "$(stock 3)"
wait_for "/operator/jobs/stock-$run" '"ready":2'
has '"status":"succeeded"'
has '"created":2'

echo "# One of them becomes a unit that runs our image."
call 201 POST /gpu-units "$(unit unit-001 demo-instance python:3.12)"
call 200 POST /gpu-units "$(unit unit-001 demo-instance python:3.12)"
call 409 POST /gpu-units "$(unit unit-001 demo-instance python:3.13)"
wait_for /gpu-units/demo-instance '"phase":"Ready"'
has '"accessURL":"http://unit-demo-instance.runtime-instance.svc.'
has '"memory":"16Gi"'
source=$(sed 's/.*"sourceStock":{"name":"\([^"]*\)".*/\1/' <<<"$answer")
wait_for "/gpu-units/$source?lifecycle=stock" '"code":"gpuunit_not_found"'

echo "# A ticket lets its bearer reach the unit, by HTTP and by commands; without a gateway it is 409."
call '[24]0[19]' POST /gpu-units/demo-instance/tickets '{"uses": ["http", "exec"], "port": "http"}'

echo "# The second unit takes the last of the stock: a third is refused and leaves nothing behind."
call 201 POST /gpu-units "$(unit unit-002 second python:3.12)"
call 409 POST /gpu-units "$(unit unit-003 third python:3.12)"
has '"code":"insufficient_capacity"'
call 404 GET /gpu-units/third

echo "# A pool that refills: the refused request succeeds now, and the pool replaces the stock."
call 202 POST /operator/stockpools "{\"operationID\": \"pool-$run\", \"name\": \"g1-demo\",
  \"specName\": \"$spec\", \"memory\": \"16Gi\", \"gpu\": 1, \"replicas\": 1, \"refill\": \"Always\"}"
wait_for /operator/stockpools/g1-demo '"available":1'
call 201 POST /gpu-units "$(unit unit-003 third python:3.12)"
wait_for /operator/stockpools/g1-demo '"consumed":1'
wait_for /operator/stockpools/g1-demo '"available":1'

echo "# A suspended unit runs no Pod; a deleted unit is gone."
call 200 PUT /gpu-units/third '{"suspended": true}'
wait_for /gpu-units/third '"phase":"Suspended"'
call 204 DELETE /gpu-units/third
wait_for /gpu-units/third '"code":"gpuunit_not_found"'

echo "# A storage that a command fills, and a copy of it: both are ready once their Job is done." \
  "On dev the Jobs are simulated and write nothing."
call 201 POST /gpu-storages '{"operationID": "storage-001-'"$run"'", "name": "weights", "size": "1Gi",
  "prepare": {"fromImage": "busybox:1.36", "command": ["sh", "-c", "echo hello > /storage/hello"]}}'
call 201 POST /gpu-storages '{"operationID": "storage-002-'"$run"'", "name": "weights-copy",
  "size": "1Gi", "prepare": {"fromStorageName": "weights"}}'
wait_for /gpu-storages/weights '"phase":"Ready"'
wait_for /gpu-storages/weights-copy '"phase":"Ready"'

echo "# One unit mounts it at a time: the next unit waits until the first one gives it up."
mounts='{"storageMounts": [{"name": "weights", "mountPath": "/models"}]}'
call 200 PUT /gpu-units/demo-instance "$mounts"
wait_for /gpu-storages/weights '"mountedBy":["demo-instance"]'
call 200 PUT /gpu-units/second "$mounts"
wait_for /gpu-units/second 'is held by unit demo-instance'
call 409 DELETE /gpu-storages/weights
has '"code":"storage_in_use"'
call 200 PUT /gpu-units/demo-instance '{"storageMounts": []}'
wait_for /gpu-storages/weights '"mountedBy":["second"]'
wait_for /gpu-units/second '"phase":"Ready"'

echo "# Its files are written and read through the API if a file server runs: on dev, with dufs on" \
  "the PATH. Without one that may write to this volume, the answer reports it."
call 200 PUT /gpu-storages/weights '{"accessor": {"enabled": true, "writable": true}}'
wait_for /gpu-storages/weights '"reason":"AccessorServing"' '"reason":"AccessorFailed"'
call '[25]0[0-3]' PUT /gpu-storages/weights/files/greeting 'hello from a caller'
if [[ $status == 201 ]]; then
  call 200 GET /gpu-storages/weights/files/greeting
  has 'hello from a caller'
fi
echo "    $answer"

echo "# It grows if its class lets volumes grow, and it outlives the unit."
call 200 PUT /gpu-storages/weights '{"size": "2Gi"}'
wait_for /gpu-storages/weights '"capacity":"2Gi"' '"reason":"ExpansionRefused"'
call 204 DELETE /gpu-units/second
wait_for /gpu-storages/weights '"mountedBy":[]'
call 204 DELETE /gpu-storages/weights-copy
wait_for /gpu-storages/weights-copy '"code":"gpustorage_not_found"'

if [[ -n ${KUBECONFIG:-} ]] && command -v kubectl >/dev/null; then
  echo "# The same objects with kubectl."
  kubectl get gpuunits -n runtime-stock
  kubectl get gpuunit demo-instance -n runtime-instance -o yaml
  kubectl get deploy,svc,pod -n runtime-instance
fi
echo "done"
