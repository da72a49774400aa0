"""The one list of what goes into the product's image is read as a builder would read it."""

from pathlib import Path

import pytest

from tests.node.containerfile import ContainerfileError, read

ROOT = Path(__file__).parents[2]


def test_the_project_s_own_file_says_what_goes_in_and_how_it_runs() -> None:
    recipe = read(ROOT / "Containerfile")
    assert recipe.entrypoint == ("gpuruntime",)
    assert recipe.environment["PATH"].startswith(f"{recipe.prefix}/bin:/usr/local/sbin:")
    assert all((ROOT / source).exists() for source in recipe.sources)
    assert "gpuruntime" in recipe.sources


def test_the_product_s_image_does_not_run_as_root() -> None:
    user, _, group = read(ROOT / "Containerfile").user.partition(":")
    assert int(user) > 0
    assert int(group) > 0


def test_a_file_without_a_second_stage_is_refused(tmp_path: Path) -> None:
    (tmp_path / "Containerfile").write_text("FROM scratch\n")
    with pytest.raises(ContainerfileError, match="has 1 stages"):
        read(tmp_path / "Containerfile")


def test_a_last_stage_without_a_user_is_refused(tmp_path: Path) -> None:
    text = (ROOT / "Containerfile").read_text().replace("USER ", "LABEL ")
    (tmp_path / "Containerfile").write_text(text)
    with pytest.raises(ContainerfileError, match="0 times USER"):
        read(tmp_path / "Containerfile")
