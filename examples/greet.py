"""A function that greets its callers; function.sh declares and calls it."""

from gpuruntime.framework import Call, CallError, serve


def greet(call: Call) -> object:
    name = (call.payload or {}).get("name")
    if not name:
        raise CallError("no name to greet")
    return {"hello": name, "from": call.workerName, "attempt": call.attempt}


if __name__ == "__main__":
    serve(greet)
