"""The tolerations that the configuration gives to every Pod."""

from enum import StrEnum

import attrs

from gpuruntime.models.kubernetes.names import is_label_key, is_label_value
from gpuruntime.settings.checks import refuse


class TolerationOperator(StrEnum):
    EQUAL = "Equal"
    EXISTS = "Exists"


class TaintEffect(StrEnum):
    """The effect of a taint; the empty one means every effect."""

    ANY = ""
    NO_SCHEDULE = "NoSchedule"
    PREFER_NO_SCHEDULE = "PreferNoSchedule"
    NO_EXECUTE = "NoExecute"


@attrs.frozen(kw_only=True, slots=True)
class Toleration:
    key: str = ""
    operator: TolerationOperator = TolerationOperator.EQUAL
    value: str = ""
    effect: TaintEffect = TaintEffect.ANY
    tolerationSeconds: int | None = None

    def __attrs_post_init__(self) -> None:
        """Check the toleration: a cluster would reject every Pod with a bad one."""
        exists = self.operator is TolerationOperator.EXISTS
        is_timed = self.tolerationSeconds is not None
        refuse(
            ("key", not (self.key or exists), "is empty: name one, or set operator: Exists"),
            ("key", bool(self.key) and not is_label_key(self.key), "is no key of a taint"),
            ("value", not is_label_value(self.value), "is no value of a taint"),
            ("value", bool(self.value) and exists, "excludes operator: Exists"),
            (
                "tolerationSeconds",
                is_timed and self.effect is not TaintEffect.NO_EXECUTE,
                "needs effect: NoExecute",
            ),
        )
