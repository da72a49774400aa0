"""A stand-in for a later version: its code gives every Pod another template."""

import sys
from unittest.mock import patch

import attrs

from gpuruntime import cli
from gpuruntime.models.encoding.json import JsonObject
from gpuruntime.models.kinds.units import GPUUnit
from gpuruntime.reconcilers.options import UnitOptions
from gpuruntime.reconcilers.unit import children
from gpuruntime.reconcilers.unit.pod_template import Placement, pod_template
from gpuruntime.roles import manager
from gpuruntime.roles.options import unit_options_of
from gpuruntime.settings.schema import Settings

LABEL = "newer-version"


def newer_template(unit: GPUUnit, options: UnitOptions, placement: Placement) -> JsonObject:
    template = pod_template(unit, options, placement)
    metadata: JsonObject = {"labels": {**_labels_in(template), LABEL: "yes"}}
    return {**template, "metadata": metadata}


def newer_options(settings: Settings) -> UnitOptions:
    options = unit_options_of(settings)
    return attrs.evolve(options, template_revision=options.template_revision + 1)


def _labels_in(template: JsonObject) -> JsonObject:
    metadata = template["metadata"]
    assert isinstance(metadata, dict)
    labels = metadata["labels"]
    assert isinstance(labels, dict)
    return labels


if __name__ == "__main__":
    with (
        patch.object(children, "pod_template", newer_template),
        patch.object(manager, "unit_options_of", newer_options),
    ):
        sys.exit(cli.main())
