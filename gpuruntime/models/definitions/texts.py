"""The kinds of text that fields of ours hold, as patterns that RE2 and Python read alike."""

from typing import Annotated, Final, TypeAlias

from gpuruntime.models.definitions.schemas import Schema
from gpuruntime.models.kubernetes.names import LONGEST_LABEL

DNS_LABEL: Final = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"
_OPTIONAL_LABEL = r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?)?$"
_LABEL = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_OPTIONAL_SUBDOMAIN = rf"^({_LABEL}([.]{_LABEL})*)?$"
_SPEC_NAME = r"^[a-z0-9]([-.a-z0-9]*[a-z0-9])?$"
_LABEL_VALUE = r"^([A-Za-z0-9]([-_.A-Za-z0-9]*[A-Za-z0-9])?)?$"
_PRINTABLE = r"^[!-~]*$"
_ENV_NAME = r"^[A-Za-z_][-._A-Za-z0-9]*$"
_PORT_NAME = r"^([0-9]+-)*[0-9]*[a-z](-?[a-z0-9])*$"  # at least one letter, no double hyphen
_SCHEME = r"^[a-z][-+.a-z0-9]*$"
_REQUEST_ID = r"^[a-z0-9_-]+$"
_WITHOUT_NUL = r"^[^\x00]*$"  # ends a text where the kernel takes it over
_URL_PATH = r"^/[!-~]*$"
_SEGMENT = "/([^/:.][^/:]*|[.][^/:.][^/:]*|[.][.][^/:]+)"  # neither empty nor `.` nor `..`
PATH_BELOW_ROOT: Final = f"^({_SEGMENT})+$"
# As bytes of ASCII, since the kernel counts those, and without what ends a text or a line.
_PLAIN_SEGMENT = r"/([ -,\-0-9;-~][ -.0-9;-~]*|[.][ -,\-0-9;-~][ -.0-9;-~]*|[.][.][ -.0-9;-~]+)"
_PATH_IN_FOLDER = f"^({_PLAIN_SEGMENT}){{2,}}$"

Name: TypeAlias = Annotated[str, Schema(maxLength=LONGEST_LABEL, pattern=DNS_LABEL)]
OptionalName: TypeAlias = Annotated[str, Schema(maxLength=LONGEST_LABEL, pattern=_OPTIONAL_LABEL)]
# A cluster's StorageClass; empty, the cluster's default.
ClassName: TypeAlias = Annotated[str, Schema(maxLength=253, pattern=_OPTIONAL_SUBDOMAIN)]
SpecName: TypeAlias = Annotated[str, Schema(maxLength=LONGEST_LABEL, pattern=_SPEC_NAME)]
LabelValue: TypeAlias = Annotated[str, Schema(maxLength=LONGEST_LABEL, pattern=_LABEL_VALUE)]
# A registry's name, a repository, a tag and a digest at their longest stay below this.
Image: TypeAlias = Annotated[str, Schema(maxLength=512, pattern=_PRINTABLE)]
# Not held to be a quantity here: the controller reports a bad one where its owner looks.
QuantityText: TypeAlias = Annotated[str, Schema(maxLength=64)]
Argument: TypeAlias = Annotated[str, Schema(maxLength=32768, pattern=_WITHOUT_NUL)]
EnvName: TypeAlias = Annotated[str, Schema(maxLength=253, pattern=_ENV_NAME)]
PortName: TypeAlias = Annotated[str, Schema(maxLength=15, pattern=_PORT_NAME)]
Scheme: TypeAlias = Annotated[str, Schema(maxLength=16, pattern=_SCHEME)]
MountPath: TypeAlias = Annotated[str, Schema(maxLength=512, pattern=_WITHOUT_NUL)]
RequestID: TypeAlias = Annotated[str, Schema(maxLength=LONGEST_LABEL, pattern=_REQUEST_ID)]
UrlPath: TypeAlias = Annotated[str, Schema(maxLength=256, pattern=_URL_PATH)]
# The kernel's sun_path takes 107 bytes; the folder is what unit and worker share.
SocketPath: TypeAlias = Annotated[str, Schema(maxLength=107, pattern=_PATH_IN_FOLDER)]
UID: TypeAlias = Annotated[str, Schema(maxLength=64)]
