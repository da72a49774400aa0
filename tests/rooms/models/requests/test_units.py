"""Every field of a unit is in its requests and its view, so that a new one cannot be forgotten."""

from typing import get_args, get_type_hints

import attrs
import pytest

from gpuruntime.models.encoding.members import default_of, shared_names
from gpuruntime.models.kinds.units import ENVELOPE, Access, GPUUnitSpec
from gpuruntime.models.requests.units import CreateUnit, UpdateUnit
from gpuruntime.models.views.units import AccessView, UnitView

SPEC = attrs.fields_dict(GPUUnitSpec)
CHOSEN = [name for name in SPEC if name not in ENVELOPE]
# A unit is created running.
ONLY_LATER = ("suspended",)


def test_a_caller_may_give_every_field_but_the_envelope() -> None:
    created = shared_names(GPUUnitSpec, CreateUnit)
    assert sorted(created) == sorted({"specName", *CHOSEN} - {*ONLY_LATER})
    assert [field.name for field in attrs.fields(UpdateUnit)] == CHOSEN


def test_the_view_shows_every_field_of_the_spec() -> None:
    assert shared_names(GPUUnitSpec, UnitView) == tuple(SPEC)


@pytest.mark.parametrize("name", [each for each in CHOSEN if each not in ONLY_LATER])
def test_a_field_has_the_same_default_in_the_kind_and_in_the_request(name: str) -> None:
    request = attrs.fields_dict(CreateUnit)[name]
    is_required = request.default is attrs.NOTHING
    assert is_required == (name == "image")
    assert is_required or default_of(request) == default_of(SPEC[name])


@pytest.mark.parametrize("name", CHOSEN)
def test_a_field_has_the_same_type_in_the_kind_and_in_the_change(name: str) -> None:
    given = get_args(get_type_hints(UpdateUnit)[name])[0]
    wanted = get_type_hints(GPUUnitSpec)[name]
    assert given in (wanted, *get_args(wanted))


def test_the_view_shows_every_member_of_the_access() -> None:
    assert shared_names(Access, AccessView) == tuple(attrs.fields_dict(Access))


def test_requests_may_send_back_the_members_that_only_the_view_of_the_access_has() -> None:
    hints = get_type_hints(AccessView)
    added = {name: hint for name, hint in hints.items() if name not in attrs.fields_dict(Access)}
    assert added == Access.SHOWN
