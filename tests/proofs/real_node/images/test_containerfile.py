"""Tests of the reader of `Containerfile`: it reads the file as a builder would."""

from pathlib import Path

import pytest

from tests.proofs.real_node.images.containerfile import ContainerfileError, read

ROOT = Path(__file__).parents[4]
INSTALL = "pip install --no-cache-dir --no-compile"


def test_the_projects_own_file_can_be_read() -> None:
    recipe = read(ROOT / "Containerfile")
    assert recipe.entrypoint == ("gpuruntime",)
    assert recipe.environment["PATH"].startswith(f"{recipe.prefix}/bin:/usr/local/sbin:")
    assert all((ROOT / source).exists() for source in recipe.sources)
    assert "gpuruntime" in recipe.sources


def test_the_products_image_does_not_run_as_root() -> None:
    user, _, group = read(ROOT / "Containerfile").user.partition(":")
    assert int(user) > 0
    assert int(group) > 0


def test_a_file_without_a_second_stage_is_refused(tmp_path: Path) -> None:
    (tmp_path / "Containerfile").write_text("FROM scratch\n")
    with pytest.raises(ContainerfileError, match="has 1 stages"):
        read(tmp_path / "Containerfile")


@pytest.mark.parametrize(
    ("said", "instead", "fault"),
    [
        ("python:3.12-slim\n", "debian:13\n", "and then docker.io/library/debian:13"),
        ("USER ", "LABEL user=", "not understood: LABEL"),
        ("USER ", "USER 0:0\nUSER ", "2 times USER"),
        ("WORKDIR /src", "ADD https://example.com/model /src", "not understood: ADD"),
        ("CMD ", "HEALTHCHECK NONE\nCMD ", "not understood: HEALTHCHECK"),
        ("CMD ", "RUN apt-get install -y git\nCMD ", "not understood: RUN"),
        (INSTALL, f"{INSTALL} torch", "not understood: RUN"),
        (INSTALL, f"apt-get update && {INSTALL}", "not understood: RUN"),
        ("compileall -q", "compileall -q -o 2", "not understood: RUN"),
        ("COPY gpuruntime gpuruntime", "COPY gpuruntime other", "not understood: COPY"),
        ("COPY gpuruntime", "COPY --chmod=600 gpuruntime", "not understood: COPY"),
        ("/opt/gpuruntime /opt/gpuruntime", "/opt/gpuruntime /opt/other", "not what is compiled"),
        ("ENV ", "ENV HOME=$USER ", "not understood: ENV"),
    ],
)
def test_an_instruction_that_the_packing_would_leave_out_is_refused(
    tmp_path: Path, said: str, instead: str, fault: str
) -> None:
    text = (ROOT / "Containerfile").read_text()
    assert said in text
    (tmp_path / "Containerfile").write_text(text.replace(said, instead))
    with pytest.raises(ContainerfileError, match=fault):
        read(tmp_path / "Containerfile")
