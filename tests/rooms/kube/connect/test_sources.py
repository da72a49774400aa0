"""The sources of access to the API server, and one clear line for every fault."""

import base64
import logging
import os
from pathlib import Path
from typing import Any

import pytest
import yaml

from gpuruntime.errors import ConfigurationError
from gpuruntime.kube.connect.in_cluster import InCluster
from gpuruntime.kube.connect.sources import Kubeconfig, find_source
from tests.rooms.kube.connect.kubeconfigs import write_kubeconfig

SERVER = "https://10.0.0.1:6443"


def fault_of(source: Kubeconfig | InCluster) -> str:
    with pytest.raises(ConfigurationError) as caught:
        source.load()
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_a_context_gives_server_token_and_connection_options(tmp_path: Path) -> None:
    cluster = {"proxy-url": "http://proxy:3128", "tls-server-name": "kube.example"}
    config = write_kubeconfig(tmp_path, f"{SERVER}/", user={"token": "t0"}, cluster=cluster)
    access = Kubeconfig(str(config)).load()
    assert access.server == SERVER
    assert access.authorization == "Bearer t0"
    assert access.configuration.proxy == "http://proxy:3128"
    assert access.configuration.tls_server_name == "kube.example"
    assert access.configuration.verify_ssl is True


def test_a_token_file_comes_before_a_token_and_without_its_newline(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("fresh\n")
    user = {"tokenFile": "token", "token": "stale"}
    access = Kubeconfig(str(write_kubeconfig(tmp_path, SERVER, user=user))).load()
    assert access.authorization == "Bearer fresh"


def test_certificates_as_data_are_not_written_to_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(temporary))
    user = {f"client-{part}-data": base64.b64encode(b"pem").decode() for part in ("key",)}
    access = Kubeconfig(str(write_kubeconfig(tmp_path, SERVER, user=user))).load()
    assert access.inline == {"key_file": b"pem"}
    assert list(temporary.iterdir()) == []


def test_relative_paths_begin_at_the_kubeconfig(tmp_path: Path) -> None:
    (tmp_path / "ca.pem").write_text("pem")
    config = write_kubeconfig(tmp_path, SERVER, cluster={"certificate-authority": "ca.pem"})
    access = Kubeconfig(str(config)).load()
    assert access.configuration.ssl_ca_cert == str(tmp_path / "ca.pem")


def test_the_first_file_with_an_entry_of_a_name_wins(tmp_path: Path) -> None:
    first = write_kubeconfig(tmp_path, SERVER, name="first")
    second = write_kubeconfig(tmp_path, "https://10.9.9.9", name="second")
    paths = os.pathsep.join([str(tmp_path / "missing"), str(first), str(second)])
    assert Kubeconfig(paths).load().server == SERVER


def test_a_changed_current_context_does_not_move_a_running_process(tmp_path: Path) -> None:
    config = write_kubeconfig(tmp_path, SERVER)
    source = Kubeconfig(str(config))
    source.load()
    document = yaml.safe_load(config.read_text())
    document["contexts"].append({"name": "other", "context": {"cluster": "o", "user": "u"}})
    document["clusters"].append({"name": "o", "cluster": {"server": "https://10.9.9.9"}})
    document["current-context"] = "other"
    config.write_text(yaml.safe_dump(document))
    assert source.load().server == SERVER
    assert Kubeconfig(str(config)).load().server == "https://10.9.9.9"


def test_a_changed_server_is_refused_until_a_restart(tmp_path: Path) -> None:
    source = Kubeconfig(str(write_kubeconfig(tmp_path, SERVER)))
    source.load()
    write_kubeconfig(tmp_path, "https://10.9.9.9")
    assert f"the server changed from {SERVER} to https://10.9.9.9: restart" in fault_of(source)


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("clusters: [\n", "not YAML"),
        ("a: b: c", "not YAML"),
        ("", "not a mapping"),
        ("- 1", "not a mapping"),
        ("{}", "no current-context: name one of none"),
        ("clusters: {a: b}", "clusters is not a list"),
        ("users: [{user: {}}]", "users[0] has no name"),
        ("contexts: [{name: a, context: [1]}]", "contexts[0].context is not a mapping"),
        ("current-context: a", "there is no context 'a': the contexts are none"),
        (
            "{current-context: a, contexts: [{name: a, context: {user: u}}]}",
            "the context names no cluster: add one",
        ),
        (
            (
                "{current-context: a, contexts: [{name: a, context: {cluster: c}}],"
                " clusters: [{name: c}]}"
            ),
            "the context names no user: add one",
        ),
        (
            (
                "{current-context: a, contexts: [{name: a, context: {cluster: c, user: u}}],"
                " clusters: [{name: c}], users: [{name: v}]}"
            ),
            "there is no user 'u': the users are v",
        ),
        (
            (
                "{current-context: a, contexts: [{name: a, context: {cluster: c, user: u}}],"
                " clusters: [{name: c}], users: [{name: u}]}"
            ),
            "the cluster's server None is no URL",
        ),
    ],
    ids=[
        "unclosed list",
        "two colons",
        "empty file",
        "list",
        "empty mapping",
        "clusters a mapping",
        "user without a name",
        "context a list",
        "unknown context",
        "context without a cluster",
        "context without a user",
        "unknown user",
        "cluster without a server",
    ],
)
def test_a_fault_in_a_kubeconfig_is_one_line_that_names_file_and_fault(
    tmp_path: Path, text: str, fault: str
) -> None:
    file = tmp_path / "config"
    file.write_text(text)
    message = fault_of(Kubeconfig(str(file)))
    assert message.startswith(f"kubeconfig {file}")
    assert fault in message


def test_a_missing_kubeconfig_is_named(tmp_path: Path) -> None:
    file = tmp_path / "nowhere"
    assert fault_of(Kubeconfig(str(file))) == (
        f"kubeconfig {file}: no such file: give the path of one that exists"
    )


def test_an_unreadable_kubeconfig_is_named(tmp_path: Path) -> None:
    assert f"kubeconfig {tmp_path}: cannot be read" in fault_of(Kubeconfig(str(tmp_path)))


def test_an_unknown_context_is_reported_with_the_existing_ones(tmp_path: Path) -> None:
    config = write_kubeconfig(tmp_path, SERVER)
    message = fault_of(Kubeconfig(str(config), "prod"))
    assert message == (
        f"kubeconfig {config}, context prod: there is no context 'prod': the contexts are dev"
    )


@pytest.mark.parametrize(
    ("user", "fault"),
    [
        ({"tokenFile": "gone"}, "tokenFile cannot be read"),
        ({"tokenFile": "empty"}, "is empty: write a token into it"),
        ({"client-certificate": "gone", "client-key": "gone"}, "gone"),
        ({"client-key-data": "not base64!"}, "client-key-data is not base64"),
        ({"auth-provider": {"name": "oidc"}}, "use a credential plugin (exec) instead"),
        ({"as": "admin"}, "the user's as is not supported"),
        ({"exec": ["a"]}, "the user's exec is not a mapping"),
        ({"exec": {"command": "x"}}, "command and apiVersion are both needed"),
        ({"client-key-data": "sécret"}, "client-key-data is not base64"),
        ({"client-key-data": 5}, "the user's client-key-data is not plain text"),
        ({"tokenFile": "secret\0"}, "the user's tokenFile is not plain text"),
        ({"tokenFile": "~nouser/token"}, "tokenFile: ~nouser/token: no such home directory"),
        ({"client-certificate": "~nouser/pem"}, "client-certificate: ~nouser/pem: no such home"),
        ({"token": ["secret"]}, "the user's token is not plain text"),
    ],
    ids=[
        "missing token file",
        "empty token file",
        "missing certificate",
        "key data not base64",
        "auth provider",
        "impersonation",
        "exec a list",
        "exec without a version",
        "key data not ascii",
        "key data a number",
        "token file with nul",
        "token file in an unknown home",
        "certificate in an unknown home",
        "token a list",
    ],
)
def test_a_fault_in_a_user_is_one_line(tmp_path: Path, user: dict[str, Any], fault: str) -> None:
    (tmp_path / "empty").write_text("\n")
    config = write_kubeconfig(tmp_path, SERVER, user=user)
    message = fault_of(Kubeconfig(str(config)))
    assert message.startswith(f"kubeconfig {config}, context dev: ")
    assert fault in message
    assert "secret" not in message


@pytest.mark.parametrize(
    ("cluster", "fault"),
    [
        ({"proxy-url": 5}, "the cluster's proxy-url is not plain text: write it in quotes"),
        ({"proxy-url": ["http://secret@proxy"]}, "the cluster's proxy-url is not plain text"),
        ({"proxy-url": "me:secret@proxy:1"}, "URL: write one like http://10.0.0.1:3128"),
        ({"proxy-url": "http://me:secret@proxy\n"}, "URL: write one like http://10.0.0.1:3128"),
        ({"certificate-authority": "ca\0"}, "certificate-authority is not plain text"),
        ({"certificate-authority": "~nouser/ca"}, "certificate-authority: ~nouser/ca: no such"),
        ({"certificate-authority-data": "é"}, "certificate-authority-data is not base64"),
        ({"tls-server-name": "\ud800"}, "the cluster's tls-server-name is not plain text"),
        ({"insecure-skip-tls-verify": "false"}, "is neither true nor false: write it without"),
    ],
    ids=[
        "proxy a number",
        "proxy a list",
        "proxy without a scheme",
        "proxy with a newline",
        "authority with nul",
        "authority in an unknown home",
        "authority data not ascii",
        "server name a surrogate",
        "switch a text",
    ],
)
def test_a_fault_in_a_cluster_is_one_line(
    tmp_path: Path, cluster: dict[str, Any], fault: str
) -> None:
    config = write_kubeconfig(tmp_path, SERVER, cluster=cluster)
    message = fault_of(Kubeconfig(str(config)))
    assert message.startswith(f"kubeconfig {config}, context dev: ")
    assert fault in message
    assert "secret" not in message


@pytest.mark.parametrize("path", ["~nouser/config", "con\0fig"])
def test_a_kubeconfig_path_that_cannot_exist_is_a_fault(path: str) -> None:
    assert fault_of(Kubeconfig(path)).startswith(f"kubeconfig {path}: ")


def test_a_proxy_of_another_scheme_is_refused(tmp_path: Path) -> None:
    config = write_kubeconfig(tmp_path, SERVER, cluster={"proxy-url": "socks5://proxy:1"})
    assert "no http or https URL but a 'socks5' one" in fault_of(Kubeconfig(str(config)))


@pytest.mark.parametrize(
    "server", ["10.0.0.1:6443", "ftp://a", "https://", "https://a:999999", "https://[::", "a b"]
)
def test_a_server_that_is_no_url_is_a_configuration_error(tmp_path: Path, server: str) -> None:
    message = fault_of(Kubeconfig(str(write_kubeconfig(tmp_path, server))))
    assert f"the cluster's server {server!r} is no URL" in message


def test_a_token_that_no_header_can_carry_is_refused_and_not_quoted(tmp_path: Path) -> None:
    user = {"token": "secret\nlines"}
    message = fault_of(Kubeconfig(str(write_kubeconfig(tmp_path, SERVER, user=user))))
    assert "one line of text" in message
    assert "secret" not in message


def test_the_library_writes_nothing_to_our_log(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    Kubeconfig(str(write_kubeconfig(tmp_path, SERVER, user={"token": "t"}))).load()
    assert [record.name for record in caplog.records if record.name != "asyncio"] == []


def in_cluster(directory: Path, **environment: str) -> InCluster:
    return InCluster(
        token_file=str(directory / "token"),
        certificate_file=str(directory / "ca.crt"),
        environment=environment,
    )


def test_a_pod_uses_its_service_account(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("mounted\n")
    (tmp_path / "ca.crt").write_text("pem")
    source = in_cluster(tmp_path, KUBERNETES_SERVICE_HOST="fd00::1", KUBERNETES_SERVICE_PORT="443")
    assert source.is_present
    access = source.load()
    assert (access.server, access.authorization) == ("https://[fd00::1]:443", "Bearer mounted")
    (tmp_path / "token").write_text("rotated")
    assert source.load().authorization == "Bearer rotated"


def test_a_pod_without_its_token_says_what_to_check(tmp_path: Path) -> None:
    source = in_cluster(tmp_path, KUBERNETES_SERVICE_HOST="::1", KUBERNETES_SERVICE_PORT="443")
    assert not source.is_present
    message = fault_of(source)
    assert message.startswith("in-cluster service account: ")
    assert "automountServiceAccountToken" in message


def test_an_explicit_kubeconfig_comes_before_everything(tmp_path: Path) -> None:
    config = write_kubeconfig(tmp_path, SERVER)
    assert find_source(kubeconfig=str(config)).load().server == SERVER


def test_the_default_kubeconfig_is_that_of_kubectl(tmp_path: Path) -> None:
    environment = {"KUBECONFIG": str(write_kubeconfig(tmp_path, SERVER))}
    assert find_source(environment=environment).load().server == SERVER
    environment = {"KUBECONFIG": str(tmp_path / "nowhere")}
    with pytest.raises(ConfigurationError, match="nowhere: no such file"):
        find_source(environment=environment).load()
