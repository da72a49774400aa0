from pathlib import Path

import pytest

from gpuruntime.errors import ConfigurationError
from gpuruntime.settings.load import load
from gpuruntime.settings.schema import KubernetesMode, LogFormat, Settings
from gpuruntime.settings.values import Address
from gpuruntime.strict.durations import parse_duration

NO_FLAGS: dict[tuple[str, ...], str] = {}


def load_text(folder: Path, text: str) -> Settings:
    path = folder / "config.yaml"
    path.write_text(text)
    return load(str(path), flags=NO_FLAGS, environment={})


def refusal(folder: Path, text: str) -> str:
    with pytest.raises(ConfigurationError) as caught:
        load_text(folder, text)
    return str(caught.value)


def test_the_defaults_of_the_contract_hold_without_a_file() -> None:
    settings = load("", flags=NO_FLAGS, environment={})
    assert settings.listen == Address("127.0.0.1", 8080)
    assert settings.operations.listen == Address("", 8081)
    assert float(settings.leaderElection.leaseDuration) == 15
    assert settings.podDefaults.memory == "1Gi"


def test_an_empty_file_is_the_defaults(tmp_path: Path) -> None:
    assert load_text(tmp_path, "") == Settings()


def test_flags_override_the_file_and_the_environment_overrides_both(tmp_path: Path) -> None:
    path = tmp_path / "config.yaml"
    path.write_text('listen: "127.0.0.1:1"\nkubernetes: {mode: off, kubeconfig: a}')
    settings = load(
        str(path),
        flags={("listen",): "127.0.0.1:2", ("kubernetes", "mode"): "required"},
        environment={"GPURUNTIME_LISTEN": "127.0.0.1:3", "GPURUNTIME_API_PORT": "tcp://1.2.3.4"},
    )
    assert settings.listen.port == 3
    assert settings.kubernetes.mode is KubernetesMode.REQUIRED
    assert settings.kubernetes.kubeconfig == "a"


def test_the_mode_off_is_a_text_as_in_yaml_1_2(tmp_path: Path) -> None:
    settings = load_text(tmp_path, "kubernetes: {mode: off}\nleaderElection: {enabled: false}")
    assert settings.kubernetes.mode is KubernetesMode.OFF
    assert settings.leaderElection.enabled is False


def test_every_bad_key_is_named_at_once(tmp_path: Path) -> None:
    message = refusal(
        tmp_path,
        "listn: x\n"
        "reportInterval: soon\n"
        "kubernetes: {mode: maybe}\n"
        "leaderElection: {enabled: 1, leaseDuration: 5s}\n"
        "network: {blockedEgressCIDRs: [10.0.0.0/99]}\n"
        "namespaces: {stock: Upper}\n"
        "podDefaults: {cpu: lots, memory: 1}\n"
        "1: 2\n",
    )
    for part in (
        "listn: unknown field",
        "1: unknown field",
        "reportInterval: must be seconds",
        "kubernetes.mode: must be one of auto, off, required",
        "leaderElection.enabled: must be true or false",
        "network.blockedEgressCIDRs[0]: '10.0.0.0/99' is no CIDR",
        "namespaces.stock: must be lower case letters, digits and '-', not 'Upper'",
        "podDefaults.cpu: must be a quantity above 0",
        "podDefaults.memory: must be a quantity above 0",
    ):
        assert part in message
    assert message.startswith(f"configuration {tmp_path}/config.yaml: ")


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("[1, 2]", "must be a mapping of keys"),
        ("a: {b", "not YAML"),
        ("listen: ':1'\nlisten: ':2'", "the key 'listen' occurs twice"),
        ("listen: 8080", "listen: must be host:port"),
        ("listen: ':70000'", "port 70000 is above 65535"),
        ("listen: 'example.org:80'", "is neither an IP address nor localhost"),
        ("leaderElection: {renewDeadline: 20s}", "renewDeadline: must be shorter"),
        ("network: {blockedEgressCIDRs: []}", "allowAllEgress: true"),
        ("network: {blockedEgressCIDRs: [10.0.0.1/8]}", "CIDRs[0]: '10.0.0.1/8' is no CIDR"),
        ("network: {blockedEgressCIDRs: [10.0.0.1]}", "CIDRs[0]: '10.0.0.1' is no CIDR"),
        ("network: {blockedEgressCIDRs: [10.0.0.0/255.0.0.0]}", "is no CIDR such as"),
        ("network: {blockedEgressCIDRs: ['fe80::%a/64']}", "is no CIDR such as"),
        ("network: {blockedEgressCIDRs: ['::ffff:10.0.0.0/104']}", "is no CIDR such as"),
        ("network: {blockedEgressCIDRs: 10.0.0.0/8}", "blockedEgressCIDRs: must be a list"),
        ("network: {allowAllEgress: yes}", "network.allowAllEgress: must be true or false"),
        ("network: {nats: {podLabels: {app: nats}}}", "nats.namespaceLabels: is empty"),
        ("network: {nats: {namespaceLabels: {a: b}}}", "nats.podLabels: is empty"),
        ("network: {nats: {podLabels: {a b: c}}}", "nats.podLabels: a b: c is no label"),
        ("network: {nats: {address: 10.0.0.0/8}}", "nats.address: '10.0.0.0/8' is no IP address"),
        ("network: {nats: {address: 10.0.0.7, podLabels: {a: b}}}", "address: excludes labels"),
        ("network: {nameServers: [dns]}", "nameServers[0]: 'dns' is no IP address"),
        ("network: {nameServers: [169.254.0.0/16]}", "nameServers[0]: '169.254.0.0/16' is no IP"),
        ("helpers: {accessorImage: ''}", "helpers.accessorImage: is empty"),
        ("helpers: {copyImage: 'a b'}", "helpers.copyImage: 'a b' is no image"),
        ("files: {atOnce: 0}", "files.atOnce: must be at least 1"),
        ("files: {atOncePerCaller: -1}", "files.atOncePerCaller: must be at least 1, or 0"),
        ("serverless: {cpu: lots}", "serverless.cpu: must be a quantity above 0"),
        ("serverless: {memory: '0'}", "serverless.memory: must be a quantity above 0"),
        ("serverless: {cpu: '2'}", "serverless.cpuLimit: must not be below cpu, 2"),
        ("serverless: {account: A1}", "account: goes with signingKeyFile"),
        (
            "serverless: {signingKeyFile: f, account: A1}",
            "account: must be the public key of an account",
        ),
        ("serverless: {credentialsLifetime: 1m}", "credentialsLifetime: must be at least 10m"),
        ("nats: {streams: {replicas: 2}}", "nats.streams.replicas: must be 1, 3 or 5"),
        ("nats: {streams: {mostQueued: 0}}", "nats.streams.mostQueued: must be at least 1"),
        ("nats: {streams: {mostQueuedSize: 1GiB}}", "streams.mostQueuedSize: must be a quantity"),
        ("network: {nats: {port: 0}}", "network.nats.port: 0 is not between 1 and 65535"),
        ("namespaces: {stock: a, instance: a}", "namespaces.instance: is the same namespace"),
        ("namespaces: {system: a, instance: a}", "namespaces.system: is the same namespace"),
        ("kubernetes: {clusterDomain: ''}", "kubernetes.clusterDomain: must be lower"),
        ("leaderElection: {leaseName: A}", "leaderElection.leaseName: must be lower"),
        ("priorityClasses: {stock: a b}", "priorityClasses.stock: must be lower"),
        ("gpuResource: a b", "gpuResource: must be the name of a resource"),
        ("gpuResource: gpu", "gpuResource: must be the name of a resource"),
        ("gpuResource: kubernetes.io/gpu", "gpuResource: must be the name of a resource"),
        ("podDefaults: {memory: '0'}", "podDefaults.memory: must be a quantity above 0"),
        ("podDefaults: {imagePullSecrets: [A]}", "podDefaults.imagePullSecrets[0]: must be lower"),
        ("podDefaults: {runtimeClassName: A}", "podDefaults.runtimeClassName: 'A' is no name"),
        ("podDefaults: {nodeSelector: {a b: c}}", "podDefaults.nodeSelector: a b: c is no label"),
        ("podDefaults: {tolerations: [{operator: Is}]}", "tolerations[0].operator: must be one"),
        ("podDefaults: {tolerations: [{effect: Ban}]}", "tolerations[0].effect: must be one of"),
        ("podDefaults: {tolerations: [{value: a}]}", "tolerations[0].key: is empty"),
        ("podDefaults: {tolerations: [{key: a b}]}", "tolerations[0].key: is no key of a taint"),
        ("podDefaults: {tolerations: [{key: a, value: b c}]}", "[0].value: is no value of a"),
        (
            "podDefaults: {tolerations: [{key: a, operator: Exists, value: b}]}",
            "tolerations[0].value: excludes operator: Exists",
        ),
        (
            "podDefaults: {tolerations: [{key: a, tolerationSeconds: 1}]}",
            "tolerations[0].tolerationSeconds: needs effect: NoExecute",
        ),
        ("operationRetention: 1000000h", "below thirty years"),
        ("operationRetention: 179s", "operationRetention: must be at least 3m: a create may"),
        ("kubernetes: 7", "kubernetes: must be an object, not an integer"),
        ("shutdownGrace: 0", "must be above 0 s"),
        ("[" * 5_000, "not YAML: it is nested too deeply"),
        ("listen: 2026-02-30", "not YAML: an invalid date or number"),
        (f"shutdownGrace: {'9' * 5_000}", "not YAML: an invalid date or number"),
    ],
)
def test_a_bad_configuration_is_rejected_with_its_fault(
    tmp_path: Path, text: str, part: str
) -> None:
    assert part in refusal(tmp_path, text)


def test_a_missing_file_is_named() -> None:
    with pytest.raises(ConfigurationError, match=r"configuration /nowhere\.yaml: No such file"):
        load("/nowhere.yaml", flags=NO_FLAGS, environment={})


@pytest.mark.parametrize(
    ("value", "seconds"), [(5, 5), (0.5, 0.5), ("30s", 30), ("10m", 600), ("24h", 86_400)]
)
def test_a_duration_is_seconds_or_has_a_unit(value: object, seconds: float) -> None:
    assert parse_duration(value) == seconds


@pytest.mark.parametrize("value", ["", "s", "5", "-1s", -1, True, None, float("nan"), "1e3s"])
def test_other_values_are_no_durations(value: object) -> None:
    with pytest.raises(ValueError, match="must be"):
        parse_duration(value)


@pytest.mark.parametrize(
    ("auth", "words"),
    [
        ("{mode: token}", "auth.tokenFile: is empty: mode token needs one"),
        ("{tokenFile: a}", "auth.tokenFile: is given, but mode is none: set mode: token"),
        (
            "{mode: kubernetes, allowUnauthenticated: true}",
            "auth.allowUnauthenticated: is true, but mode is kubernetes: remove one of them",
        ),
        ("{mode: kubernetes, audience: ''}", "auth.audience: is empty: name the audience"),
        ("{limits: {burst: 0}}", "auth.limits.burst: must be at least 1"),
        ("{limits: {requestsPerSecond: 0}}", "auth.limits.requestsPerSecond: must be above 0"),
        ("{mode: basic}", "auth.mode: must be one of none, token, kubernetes"),
    ],
)
def test_settings_that_contradict_the_authentication_mode_are_named(
    tmp_path: Path, auth: str, words: str
) -> None:
    assert words in refusal(tmp_path, f"auth: {auth}")


def test_a_certificate_without_its_key_is_rejected(tmp_path: Path) -> None:
    assert "tls.keyFile: is empty" in refusal(tmp_path, "tls: {certificateFile: a}")
    assert "tls.certificateFile: is empty" in refusal(tmp_path, "tls: {keyFile: a}")


@pytest.mark.parametrize(
    ("text", "port"),
    [("", 18080), ("listen: null", 18080), ("listen: 127.0.0.1:9", 9)],
    ids=["a key that is absent", "a key that is null", "a key that is set"],
)
def test_a_default_of_the_caller_is_for_keys_that_are_not_set(
    tmp_path: Path, text: str, port: int
) -> None:
    path = tmp_path / "config.yaml"
    path.write_text(text)
    defaults = {("listen",): "127.0.0.1:18080", ("logging", "format"): "console"}
    loaded = load(str(path), flags={}, environment={}, defaults=defaults)
    assert loaded.listen.port == port
    assert loaded.logging.format is LogFormat.CONSOLE
