"""The network policies of the manifests: who may connect to the roles, and to whom they may
connect.
"""

from collections.abc import Iterator

from gpuruntime.models.kinds import labels
from gpuruntime.models.kinds.file_servers import ACCESSOR_PORT
from gpuruntime.models.kinds.templates import Port, Template
from gpuruntime.models.kinds.units import GPUUnit, GPUUnitSpec
from gpuruntime.models.kubernetes.metadata import ObjectMeta
from gpuruntime.reconcilers.children.network_policies import unit_rules
from gpuruntime.reconcilers.options import NetworkOptions
from tests.options import configured
from tests.policies import Endpoint, Network
from tests.rooms.manifests.overlays import documents

SYSTEM, INSTANCE = "runtime-system", "runtime-instance"
NAMESPACES = {
    **{name: {"kubernetes.io/metadata.name": name} for name in (SYSTEM, INSTANCE, "kube-system")},
    "callers": {"runtime.lokiwager.io/access": "true"},
    "elsewhere": {},
}
KUBERNETES = ("manager", "api", "activator", "gateway")
# None of our policies selects these.
OPEN = ("another of the system", "caller", "stranger", "dns", "cache of dns", "outside")
BROKER = ("api", "activator", "results")
DATABASE = ("api", "results")
OURS = ("manager", "api", "activator", "results", "gateway")
PORTS = {"http": 8080, "operations": 8081, "activity": 8082, "gateway": 8090, "ssh": 2222}
# A unit of the tests declares this one.
UNIT_PORT = 7000
ALL_PORTS = (53, 443, 4222, 5000, 5432, 6443, UNIT_PORT, *PORTS.values(), 8443, 16443)

Pair = tuple[str, str, int]


def role(name: str) -> Endpoint:
    [pod] = (
        each["spec"]["template"]
        for each in documents("Deployment")
        if each["metadata"]["name"] == f"gpuruntime-{name}"
    )
    [container] = pod["spec"]["containers"]
    return Endpoint(
        namespace=SYSTEM,
        labels=pod["metadata"]["labels"],
        ports={each["name"]: (each["containerPort"], "TCP") for each in container["ports"]},
    )


EVERYBODY = {
    **{name: role(name) for name in OURS},
    "another of the system": Endpoint(namespace=SYSTEM),
    "caller": Endpoint(namespace="callers"),
    "stranger": Endpoint(namespace="elsewhere"),
    "unit": Endpoint(namespace=INSTANCE, labels={labels.UNIT: "web"}),
    "files": Endpoint(namespace=INSTANCE, labels={labels.ACCESSOR: "disk"}),
    "dns": Endpoint(namespace="kube-system", labels={"k8s-app": "kube-dns"}),
    "cache of dns": Endpoint(addresses=("169.254.20.10",)),
    "outside": Endpoint(addresses=("203.0.113.7",)),
}


def reachable() -> Iterator[Pair]:
    """Yield every permitted connection; all others from or to a role are denied."""
    for source in EVERYBODY:
        for target in OURS:
            if source not in OURS and source not in ("unit", "files"):
                yield source, target, PORTS["operations"]
        if source not in OURS and source not in ("unit", "files"):
            yield source, "gateway", PORTS["ssh"]
    for caller in ("caller", "gateway"):
        yield caller, "api", PORTS["http"]
    yield "caller", "gateway", PORTS["gateway"]
    yield "manager", "gateway", PORTS["activity"]
    yield "gateway", "unit", UNIT_PORT
    for source in OURS:
        yield source, "dns", 53
        yield source, "cache of dns", 53
    yield "api", "files", ACCESSOR_PORT
    api_server = (443, 6443, 8443, 16443)
    for sources, ports in ((KUBERNETES, api_server), (BROKER, (4222,)), (DATABASE, (5432,))):
        for source in sources:
            for target in OPEN:
                for port in ports:
                    yield source, target, port


def network() -> Network:
    """Return the policies, with the manager's own ones of a file server and of a unit."""
    pods = {labels.UNIT: "web"}
    unit = GPUUnit(
        metadata=ObjectMeta(name="web", namespace=INSTANCE),
        spec=GPUUnitSpec(
            specName="g1.1", template=Template(ports=(Port(name="http", port=UNIT_PORT),))
        ),
    )
    rules = unit_rules(unit, pods, configured(NetworkOptions), gateway_namespace=SYSTEM)
    web = {"metadata": {"name": "web", "namespace": INSTANCE}, "spec": rules}
    files = {
        "metadata": {"name": "files", "namespace": INSTANCE},
        "spec": {
            "podSelector": {"matchExpressions": [{"key": labels.ACCESSOR, "operator": "Exists"}]},
            "policyTypes": ["Ingress"],
            "ingress": [{"ports": [{"port": ACCESSOR_PORT}]}],
        },
    }
    return Network(namespaces=NAMESPACES, policies=(*documents("NetworkPolicy"), files, web))


def test_every_connection_is_permitted_or_denied_as_the_table_says() -> None:
    at, wanted = network(), set(reachable())
    pairs = [
        (source, target, port)
        for source in EVERYBODY
        for target in EVERYBODY
        if source != target and {source, target} & set(OURS)
        for port in ALL_PORTS
    ]
    wrong = [
        (source, target, port)
        for source, target, port in pairs
        if at.permits(EVERYBODY[source], EVERYBODY[target], port)
        != ((source, target, port) in wanted)
    ]
    assert wrong == []
    assert wanted <= set(pairs)


def test_dns_is_permitted_over_udp_as_well() -> None:
    for target in ("dns", "cache of dns"):
        assert network().permits(EVERYBODY["results"], EVERYBODY[target], 53, "UDP")
