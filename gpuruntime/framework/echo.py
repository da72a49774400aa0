"""The smallest function: it answers every call with the call's payload."""

import argparse

import attrs

from gpuruntime.framework.calls import Call
from gpuruntime.framework.server import DEFAULTS, serve


def echo(call: Call) -> object:
    return call.payload


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--socket", default=DEFAULTS.socketPath, metavar="PATH")
    chosen = parser.parse_args()
    serve(echo, framework=attrs.evolve(DEFAULTS, socketPath=chosen.socket))


if __name__ == "__main__":
    main()
