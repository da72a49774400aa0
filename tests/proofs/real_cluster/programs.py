"""The command lines of a control plane's programs, one function each."""

import json
from pathlib import Path

import attrs

ADMIN = "admin"


@attrs.frozen(kw_only=True)
class Layout:
    """The paths, ports and credentials that the programs share."""

    binaries: Path
    data: Path
    logs: Path
    address: str
    etcd_port: int
    peer_port: int
    api_port: int
    token: str

    @property
    def url(self) -> str:
        return f"https://{self.address}:{self.api_port}"

    @property
    def etcd_url(self) -> str:
        return f"http://127.0.0.1:{self.etcd_port}"

    @property
    def certificate(self) -> Path:
        """Return the path of the self-signed certificate that kube-apiserver creates."""
        return self.data / "certificates" / "apiserver.crt"

    @property
    def key(self) -> Path:
        """Return the path of that certificate's key, which also signs the service accounts'
        tokens.
        """
        return self.certificate.with_suffix(".key")

    @property
    def kubeconfig(self) -> Path:
        return self.data / "kubeconfig"

    @property
    def audit_log(self) -> Path:
        return self.logs / "audit.log"


def write_files(layout: Layout) -> None:
    """Write the files that have to exist before the first program starts."""
    layout.certificate.parent.mkdir(parents=True)
    _tokens(layout).write_text(f'{layout.token},{ADMIN},{ADMIN},"system:masters"\n')
    _audit_policy(layout).write_text(
        json.dumps(
            {
                "apiVersion": "audit.k8s.io/v1",
                "kind": "Policy",
                "omitStages": ["RequestReceived"],
                "rules": [{"level": "Metadata"}],
            }
        )
    )
    layout.kubeconfig.write_text(json.dumps(_kubeconfig(layout)))


def etcd(layout: Layout) -> list[str]:
    peer_url = f"http://127.0.0.1:{layout.peer_port}"
    return [
        f"--data-dir={layout.data / 'etcd'}",
        f"--listen-client-urls={layout.etcd_url}",
        f"--advertise-client-urls={layout.etcd_url}",
        f"--listen-peer-urls={peer_url}",
        f"--initial-advertise-peer-urls={peer_url}",
        f"--initial-cluster=default={peer_url}",
        "--socket-reuse-port",  # the harness holds the port
        "--unsafe-no-fsync",  # the data need not survive a power failure
        # kubeadm sets the same. Otherwise a watch of a kind without writes receives no newer
        # version and no bookmark.
        "--watch-progress-notify-interval=5s",
    ]


def apiserver(layout: Layout) -> list[str]:
    return [
        f"--etcd-servers={layout.etcd_url}",
        f"--secure-port={layout.api_port}",
        "--permit-port-sharing",  # the harness holds the port
        f"--bind-address={layout.address}",
        f"--advertise-address={layout.address}",
        f"--cert-dir={layout.certificate.parent}",
        "--service-account-issuer=https://kubernetes.default.svc",
        f"--service-account-key-file={layout.key}",
        f"--service-account-signing-key-file={layout.key}",
        f"--token-auth-file={_tokens(layout)}",
        "--authorization-mode=RBAC",
        "--service-cluster-ip-range=10.96.0.0/16",
        # The node lifecycle controller, which would remove the taint of a new node, does not run.
        "--disable-admission-plugins=TaintNodesByCondition",
        "--enable-admission-plugins=OwnerReferencesPermissionEnforcement",
        f"--audit-policy-file={_audit_policy(layout)}",
        f"--audit-log-path={layout.audit_log}",
        "--audit-log-maxsize=2000",
    ]


def controller_manager(layout: Layout) -> list[str]:
    return [
        f"--kubeconfig={layout.kubeconfig}",
        "--leader-elect=false",
        "--secure-port=0",
        "--controllers=*,-node-lifecycle-controller",  # fake nodes may pause between heartbeats
        f"--service-account-private-key-file={layout.key}",
        f"--root-ca-file={layout.certificate}",
        "--enable-hostpath-provisioner",
        "--kube-api-qps=2000",
        "--kube-api-burst=4000",
    ]


def scheduler(layout: Layout) -> list[str]:
    return [
        f"--kubeconfig={layout.kubeconfig}",
        "--leader-elect=false",
        "--secure-port=0",
        "--kube-api-qps=2000",
        "--kube-api-burst=4000",
    ]


def kwok(layout: Layout) -> list[str]:
    return [f"--kubeconfig={layout.kubeconfig}", "--manage-all-nodes=true"]


def _tokens(layout: Layout) -> Path:
    return layout.data / "tokens.csv"


def _audit_policy(layout: Layout) -> Path:
    return layout.data / "audit-policy.json"


def _kubeconfig(layout: Layout) -> dict[str, object]:
    cluster = {"server": layout.url, "certificate-authority": str(layout.certificate)}
    context = {"cluster": "local", "user": ADMIN}
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "local", "cluster": cluster}],
        "users": [{"name": ADMIN, "user": {"token": layout.token}}],
        "contexts": [{"name": "local", "context": context}],
        "current-context": "local",
    }
