"""Flags and files as bodies of requests."""

from pathlib import Path

import pytest

from gpuruntime.client.errors import UnusableInputError
from gpuruntime.commands import bodies
from gpuruntime.errors import ConfigurationError
from gpuruntime.models.encoding.json import JsonObject
from gpuruntime.operations.requests import parse_seed_stock


@pytest.mark.parametrize("text", ["name: a\nsize: 1Gi\n", '{"name": "a", "size": "1Gi"}'])
def test_a_flag_overrides_the_file(tmp_path: Path, text: str) -> None:
    file = tmp_path / "body"
    file.write_text(text)
    body = bodies.body_of(str(file), {"size": "2Gi", "tenant": None, "gpu": 0})
    assert body == {"name": "a", "size": "2Gi", "gpu": 0}


@pytest.mark.parametrize("text", ["a: 1\na: 2\n", "- a\n", "{", "\x00"])
def test_an_unusable_file_is_reported_with_its_name(tmp_path: Path, text: str) -> None:
    file = tmp_path / "body"
    file.write_text(text)
    with pytest.raises(ConfigurationError, match=str(file)):
        bodies.body_of(str(file), {})
    with pytest.raises(ConfigurationError, match="none"):
        bodies.body_of(str(tmp_path / "none"), {})


@pytest.mark.parametrize(
    ("document", "name"),
    [
        ({"specName": "a10.1"}, "a10-1-o2jmhljv"),
        ({"specName": "a10.1", "name": "warm"}, "warm"),
        ({"specName": "a10.1", "operationID": "two"}, "a10-1-h7cmz7tu"),
        ({"size": "1Gi"}, "pool-o2jmhljv"),
        ({"specName": "op"}, "pool-o2jmhljv"),
        ({"specName": "op.1"}, "pool-o2jmhljv"),
        ({"specName": "opal"}, "opal-o2jmhljv"),
        ({"specName": "h100.80gb.sxm5.nvlink.8"}, "h100-80gb-sxm5-nvlin-o2jmhljv"),
        ({"specName": "h100-80gb-sxm5-nvli.8"}, "h100-80gb-sxm5-nvli-o2jmhljv"),
        ({"specName": "_"}, "pool-o2jmhljv"),
        ({"specName": 7}, "7-o2jmhljv"),
    ],
    ids=[
        "the spec and a hash of the operation",
        "a given name stays",
        "another operation",
        "no spec",
        "a spec that would make a reserved name",
        "a spec of a reserved prefix",
        "a spec that only begins like one",
        "a long spec is cut",
        "a cut spec ends with no dash",
        "a spec without a letter",
        "a spec that is no text",
    ],
)
def test_an_object_without_a_name_gets_one_that_the_api_takes(
    document: JsonObject, name: str
) -> None:
    named = bodies.with_name({"operationID": "one", **document}, "pool")
    assert named == {"operationID": "one", **document, "name": name}
    asked = {**named, "specName": "g1", "replicas": 1}
    asked.pop("size", None)
    assert parse_seed_stock(asked).name == name


def test_command_ports_and_variables_become_a_template() -> None:
    assert bodies.template_of(["sh", "-c", "x"], ["http:80"], ["A=b=c"]) == {
        "command": ["sh"],
        "args": ["-c", "x"],
        "ports": [{"name": "http", "port": 80}],
        "envs": [{"name": "A", "value": "b=c"}],
    }
    assert bodies.template_of([], None, None) is None


def test_key_files_and_a_choice_become_an_access(tmp_path: Path) -> None:
    one, two = tmp_path / "id.pub", tmp_path / "authorized_keys"
    one.write_text("ssh-ed25519 AAAA me\n")
    two.write_text("# mine\n\nssh-rsa BBBB\r\n  ssh-rsa CCCC\n")
    keys = ["ssh-ed25519 AAAA me", "ssh-rsa BBBB", "ssh-rsa CCCC"]
    assert bodies.access_of([str(one), str(two)], "on") == {"sshKeys": keys, "wake": True}
    assert bodies.access_of(None, "off") == {"wake": False}
    assert bodies.access_of(None, None) is None


def test_an_unreadable_key_file_is_reported_with_its_name(tmp_path: Path) -> None:
    (tmp_path / "id").write_bytes(b"\xff\xfe")
    with pytest.raises(ConfigurationError, match=r"public key .*none: No such file"):
        bodies.access_of([str(tmp_path / "none")], None)
    with pytest.raises(ConfigurationError, match="is not UTF-8"):
        bodies.access_of([str(tmp_path / "id")], None)


def test_mounts_name_a_storage_a_path_and_the_mode() -> None:
    assert bodies.mounts_of(["w:/models", "d:/data:ro"]) == [
        {"name": "w", "mountPath": "/models"},
        {"name": "d", "mountPath": "/data", "readOnly": True},
    ]


def test_a_port_without_a_name_is_named_by_its_number() -> None:
    assert bodies.template_of([], ["8080", "web:80"], None) == {
        "ports": [{"name": "port-8080", "port": 8080}, {"name": "web", "port": 80}]
    }


@pytest.mark.parametrize("port", ["web", "http:", "http:x", "http:-1"])
def test_a_malformed_flag_is_rejected_with_an_example(port: str) -> None:
    with pytest.raises(UnusableInputError, match="http:8080"):
        bodies.template_of([], [port], None)
    with pytest.raises(UnusableInputError, match="NAME=value"):
        bodies.template_of([], None, ["A"])
    with pytest.raises(UnusableInputError, match="weights:/models"):
        bodies.mounts_of(["weights"])


def test_secrets_of_a_template_name_a_secret_and_its_key() -> None:
    template = bodies.template_of(
        [],
        None,
        ["A=1"],
        secret_envs=["TOKEN=hub:token"],
        secret_files=["/etc/a=b.pem=tls:tls.key"],
    )
    assert template == {
        "envs": [
            {"name": "A", "value": "1"},
            {"name": "TOKEN", "secret": {"name": "hub", "key": "token"}},
        ],
        "files": [{"path": "/etc/a=b.pem", "secret": {"name": "tls", "key": "tls.key"}}],
    }
    with pytest.raises(UnusableInputError, match="TOKEN=hub:token"):
        bodies.template_of([], None, None, secret_envs=["TOKEN=hub"])


def test_values_of_a_secret_come_from_words_and_files(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("é\n")
    (tmp_path / "bytes").write_bytes(b"\xff\x00")
    files = [str(tmp_path / "text"), f"key={tmp_path / 'bytes'}"]
    assert bodies.secret_data_of(["a=b=c"], files) == {
        "data": {"a": "b=c", "text": "é\n"},
        "binaryData": {"key": "/wA="},
    }
    assert bodies.secret_data_of(None, None) == {"data": None, "binaryData": None}


def test_a_malformed_value_of_a_secret_is_not_repeated() -> None:
    with pytest.raises(UnusableInputError) as caught:
        bodies.secret_data_of(["canary4711"], None)
    assert "canary4711" not in str(caught.value)


def test_a_registrys_password_is_read_from_a_file(tmp_path: Path) -> None:
    password = tmp_path / "password"
    password.write_text("a b\n")
    assert bodies.registry_of("registry.example.com", "ann", str(password)) == {
        "server": "registry.example.com",
        "username": "ann",
        "password": "a b",
    }
    assert bodies.registry_of(None, None, None) is None
    with pytest.raises(ConfigurationError, match="--password-file"):
        bodies.registry_of("registry.example.com", "ann", None)


def test_a_payload_is_json(tmp_path: Path) -> None:
    file = tmp_path / "payload"
    file.write_text('{"a": null}')
    assert bodies.payload_of("[1]", None) == [1]
    assert bodies.payload_of(None, str(file)) == {"a": None}
    assert bodies.payload_of(None, None) is None
    with pytest.raises(UnusableInputError, match="double quotes"):
        bodies.payload_of("hello", None)
    with pytest.raises(ConfigurationError, match="payload"):
        bodies.payload_of(None, str(tmp_path / "none"))
