"""The root errors: each room derives its own from them, and callers catch them."""


class GpuRuntimeError(Exception):
    """The base of all errors that this package raises on purpose."""


class ConfigurationError(GpuRuntimeError):
    """The operator has to change a file, a flag or a variable; waiting does not help."""


class ClusterRequiredError(GpuRuntimeError):
    """The role may start only with a cluster, and there is none."""


class StateNotKeptError(GpuRuntimeError):
    """A folder that should keep the state over restarts lacks the last changes."""


class TerminalError(GpuRuntimeError):
    """No retry of this reconcile can succeed: only a change of its object can."""
