"""The root errors: each room derives its own from these, and callers above catch these."""


class GpuRuntimeError(Exception):
    """Everything that this package raises on purpose."""


class ConfigurationError(GpuRuntimeError):
    """The operator has to change a file, a flag or a variable; nothing heals by waiting."""


class ClusterRequiredError(GpuRuntimeError):
    """The role was told to start with a cluster or not at all, and there is none."""


class TerminalError(GpuRuntimeError):
    """A reconcile that no retry can mend: only a change of its object can."""
