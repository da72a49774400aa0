"""Types of text in our fields, with patterns that RE2 and Python read alike."""

from typing import Annotated, Final, TypeAlias

from gpuruntime.models.definitions.schemas import Check, Schema
from gpuruntime.models.definitions.ssh_keys import fault_of_ssh_key
from gpuruntime.models.kubernetes.names import LONGEST_LABEL

DNS_LABEL: Final = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"
_OPTIONAL_LABEL = r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?)?$"
_LABEL = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_OPTIONAL_SUBDOMAIN = rf"^({_LABEL}([.]{_LABEL})*)?$"
_SPEC_NAME = r"^[a-z0-9]([-.a-z0-9]*[a-z0-9])?$"
_LABEL_VALUE = r"^([A-Za-z0-9]([-_.A-Za-z0-9]*[A-Za-z0-9])?)?$"
_PRINTABLE = r"^[!-~]*$"
_ENV_NAME = r"^[A-Za-z_][-._A-Za-z0-9]*$"
# As Kubernetes has them: neither `.` nor a name that begins with `..`.
_DATA_KEY = r"^([-_A-Za-z0-9][-._A-Za-z0-9]*|[.][-_A-Za-z0-9][-._A-Za-z0-9]*)$"
_PORT_NAME = r"^([0-9]+-)*[0-9]*[a-z](-?[a-z0-9])*$"  # at least one letter, no double hyphen
_SCHEME = r"^[a-z][-+.a-z0-9]*$"
_REQUEST_ID = r"^[a-z0-9_-]+$"
_WITHOUT_NUL = r"^[^\x00]*$"  # the kernel ends a text at NUL
_SSH_KEY = (
    r"^(ssh-ed25519|ssh-rsa|ecdsa-sha2-nistp(256|384|521)|sk-ssh-ed25519@openssh[.]com"
    r"|sk-ecdsa-sha2-nistp256@openssh[.]com) [A-Za-z0-9+/]+={0,2}( [^\x00-\x1f\x7f]*)?$"
)
_URL_PATH = r"^/[!-~]*$"
_SEGMENT = "/([^/:.][^/:]*|[.][^/:.][^/:]*|[.][.][^/:]+)"  # neither empty nor `.` nor `..`
PATH_BELOW_ROOT: Final = f"^({_SEGMENT})+$"
# Only ASCII, since the kernel counts bytes, and no character that ends a text or a line.
_PLAIN_SEGMENT = r"/([ -,\-0-9;-~][ -.0-9;-~]*|[.][ -,\-0-9;-~][ -.0-9;-~]*|[.][.][ -.0-9;-~]+)"
_PATH_IN_FOLDER = f"^({_PLAIN_SEGMENT}){{2,}}$"

Name: TypeAlias = Annotated[str, Schema(maxLength=LONGEST_LABEL, pattern=DNS_LABEL)]
OptionalName: TypeAlias = Annotated[str, Schema(maxLength=LONGEST_LABEL, pattern=_OPTIONAL_LABEL)]
# The name of a cluster's StorageClass, or empty for the cluster's default.
ClassName: TypeAlias = Annotated[str, Schema(maxLength=253, pattern=_OPTIONAL_SUBDOMAIN)]
SpecName: TypeAlias = Annotated[str, Schema(maxLength=LONGEST_LABEL, pattern=_SPEC_NAME)]
LabelValue: TypeAlias = Annotated[str, Schema(maxLength=LONGEST_LABEL, pattern=_LABEL_VALUE)]
# The longest registry name, repository, tag and digest together stay below this.
Image: TypeAlias = Annotated[str, Schema(maxLength=512, pattern=_PRINTABLE)]
# The schema accepts texts that are not quantities; the controller reports them in the status.
QuantityText: TypeAlias = Annotated[str, Schema(maxLength=64)]
Argument: TypeAlias = Annotated[str, Schema(maxLength=32768, pattern=_WITHOUT_NUL)]
EnvName: TypeAlias = Annotated[str, Schema(maxLength=253, pattern=_ENV_NAME)]
SecretDataKey: TypeAlias = Annotated[str, Schema(maxLength=253, pattern=_DATA_KEY)]
PortName: TypeAlias = Annotated[str, Schema(maxLength=15, pattern=_PORT_NAME)]
Scheme: TypeAlias = Annotated[str, Schema(maxLength=16, pattern=_SCHEME)]
MountPath: TypeAlias = Annotated[str, Schema(maxLength=512, pattern=_WITHOUT_NUL)]
RequestID: TypeAlias = Annotated[str, Schema(maxLength=LONGEST_LABEL, pattern=_REQUEST_ID)]
UrlPath: TypeAlias = Annotated[str, Schema(maxLength=256, pattern=_URL_PATH)]
# The kernel's sun_path takes 107 bytes. The unit and its worker share the folder.
SocketPath: TypeAlias = Annotated[str, Schema(maxLength=107, pattern=_PATH_IN_FOLDER)]
# The pattern excludes options and weak types. The check, only at the API, reads the key itself.
SshKey: TypeAlias = Annotated[
    str, Schema(maxLength=4096, pattern=_SSH_KEY), Check(fault_of_ssh_key)
]
UID: TypeAlias = Annotated[str, Schema(maxLength=64)]
