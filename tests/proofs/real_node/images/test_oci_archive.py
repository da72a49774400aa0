"""Tests of the packer: the contents of an archive, which are the same each time."""

import hashlib
import io
import json
import os
import tarfile
from pathlib import Path
from typing import Any

import pytest

from tests.proofs.real_node.images.oci_archive import Image, pack

IMAGE = Image(
    name="docker.io/library/sample:1",
    entrypoint=("/bin/sample",),
    command=("run",),
    user="65532:65532",
    environment={"COLOUR": "green"},
)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return filled(tmp_path / "root")


def filled(root: Path) -> Path:
    (root / "bin").mkdir(parents=True)
    (root / "bin/sample").write_text("#!/bin/true\n")
    (root / "bin/sample").chmod(0o755)
    (root / "bin/other").symlink_to("sample")
    return root


def read(archive: Path, name: str) -> bytes:
    with tarfile.open(archive) as opened:
        member = opened.extractfile(name)
        assert member
        return member.read()


def blob(archive: Path, description: dict[str, Any]) -> bytes:
    data = read(archive, "blobs/" + description["digest"].replace(":", "/"))
    assert len(data) == description["size"]
    assert f"sha256:{hashlib.sha256(data).hexdigest()}" == description["digest"]
    return data


def manifest_of(archive: Path) -> dict[str, Any]:
    [entry] = json.loads(read(archive, "index.json"))["manifests"]
    manifest: dict[str, Any] = json.loads(blob(archive, entry))
    return manifest


def test_the_same_input_gives_the_same_bytes(root: Path, tmp_path: Path) -> None:
    again = filled(tmp_path / "again")
    for path in (again, again / "bin/sample"):
        os.utime(path, (1, 1))
    first = pack(tmp_path / "first.tar", IMAGE, [root])
    second = pack(tmp_path / "second.tar", IMAGE, [again])
    assert first == second
    assert (tmp_path / "first.tar").read_bytes() == (tmp_path / "second.tar").read_bytes()


def test_another_mode_gives_another_digest(root: Path, tmp_path: Path) -> None:
    first = pack(tmp_path / "image.tar", IMAGE, [root])
    (root / "bin/sample").chmod(0o700)
    assert pack(tmp_path / "image.tar", IMAGE, [root]) != first


def test_an_archive_has_the_name_and_the_configuration_of_its_image(
    root: Path, tmp_path: Path
) -> None:
    archive = tmp_path / "image.tar"
    digest = pack(archive, IMAGE, [root])
    [entry] = json.loads(read(archive, "index.json"))["manifests"]
    assert entry["digest"] == digest
    assert entry["annotations"]["io.containerd.image.name"] == IMAGE.name
    config = json.loads(blob(archive, manifest_of(archive)["config"]))["config"]
    assert config["Entrypoint"] == ["/bin/sample"]
    assert config["Cmd"] == ["run"]
    assert config["User"] == "65532:65532"
    assert "COLOUR=green" in config["Env"]
    assert any(one.startswith("PATH=") for one in config["Env"])


def test_layers_keep_names_modes_and_links_and_belong_to_root(root: Path, tmp_path: Path) -> None:
    archive = tmp_path / "image.tar"
    pack(archive, IMAGE, [root])
    [layer] = manifest_of(archive)["layers"]
    with tarfile.open(fileobj=io.BytesIO(blob(archive, layer))) as opened:
        assert opened.getnames() == ["bin", "bin/other", "bin/sample"]
        program = opened.getmember("bin/sample")
        assert program.mode == 0o755
        assert opened.getmember("bin/other").linkname == "sample"
        assert {(one.uid, one.gid, one.mtime) for one in opened} == {(0, 0, 0)}


def test_a_shared_layer_is_the_same_in_each_image(root: Path, tmp_path: Path) -> None:
    own = tmp_path / "own"
    (own / "opt").mkdir(parents=True)
    pack(tmp_path / "one.tar", IMAGE, [root])
    pack(tmp_path / "two.tar", IMAGE, [root, own])
    [shared] = manifest_of(tmp_path / "one.tar")["layers"]
    first, second = manifest_of(tmp_path / "two.tar")["layers"]
    assert first == shared
    assert second != shared
    config = json.loads(blob(tmp_path / "two.tar", manifest_of(tmp_path / "two.tar")["config"]))
    assert config["rootfs"]["diff_ids"] == [first["digest"], second["digest"]]


def test_packing_leaves_only_the_archive(root: Path, tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    pack(tmp_path / "out/image.tar", IMAGE, [root])
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["image.tar"]
