"""The component for auth.mode kubernetes: the API may review callers, and nothing else."""

from pathlib import Path

import yaml

from gpuruntime.models.kubernetes.reviews import SUBJECT_ACCESS_REVIEWS, TOKEN_REVIEWS

FOLDER = Path(__file__).parents[3] / "manifests" / "authentication"


def test_the_api_may_create_both_reviews_and_nothing_else() -> None:
    component = yaml.safe_load((FOLDER / "kustomization.yaml").read_text())
    (file,) = component["resources"]
    role, binding = yaml.safe_load_all((FOLDER / file).read_text())
    rules = [(each["apiGroups"], each["resources"], each["verbs"]) for each in role["rules"]]
    reviews = (TOKEN_REVIEWS, SUBJECT_ACCESS_REVIEWS)
    assert rules == [([each.group], [each.plural], ["create"]) for each in reviews]
    assert binding["roleRef"]["name"] == role["metadata"]["name"]
    assert [each["name"] for each in binding["subjects"]] == ["gpuruntime-api"]


def test_the_component_is_optional() -> None:
    for folder in ("base", "control-plane", "serverless"):
        text = (FOLDER.parent / folder / "kustomization.yaml").read_text()
        assert "authentication" not in text
