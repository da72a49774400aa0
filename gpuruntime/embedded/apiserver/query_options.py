"""Query parameters of lists, watches, writes and deletions, parsed and checked."""

from collections.abc import Iterable, Mapping
from typing import Final, Literal

import attrs
import msgspec

from gpuruntime.embedded.apiserver.status_errors import (
    bad_request,
    internal_error,
    invalid_options,
)
from gpuruntime.embedded.objects.deletion import FINALIZERS_OF, DeleteOptions
from gpuruntime.embedded.schemas.faults import Fault, forbidden_field, not_supported

Query = Mapping[str, str]
Validation = Literal["Strict", "Warn", "Ignore"]

TRUE: Final = ("1", "true", "True", "TRUE", "t", "T")
FALSE: Final = ("0", "false", "False", "FALSE", "f", "F")
EXACT: Final = "Exact"
NOT_OLDER: Final = "NotOlderThan"
LARGEST_INTEGER: Final = 2**63 - 1


@attrs.frozen(kw_only=True, slots=True)
class ListOptions:
    """Options of a list or watch; version 0 also means that the caller named none."""

    version: int = 0
    names_version: bool = False
    is_exact: bool = False
    limit: int = 0
    continue_token: str = ""
    timeout_seconds: float | None = None
    wants_bookmarks: bool = False
    wants_initial_events: bool | None = None


@attrs.frozen(kw_only=True, slots=True)
class WriteOptions:
    is_dry_run: bool = False
    validation: Validation = "Warn"


def first_values(query: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Return the first value of each parameter."""
    values: dict[str, str] = {}
    for name, value in query:
        values.setdefault(name, value)
    return values


def is_watch(query: Query) -> bool:
    return query.get("watch", "false") not in (*FALSE, "")


def list_options(query: Query, *, is_watch: bool) -> ListOptions:
    limit, timeout = _integer(query, "limit"), _integer(query, "timeoutSeconds")
    faults = _match_faults(query, is_watch=is_watch)
    if faults:
        raise invalid_options("ListOptions", *faults)
    text, token = query.get("resourceVersion", ""), query.get("continue", "")
    if token and text not in ("", "0"):
        raise bad_request("specifying resource version is not allowed when using continue")
    version = _version(text, is_watch=is_watch)
    match = query.get("resourceVersionMatch", "")
    is_whole = text == "0" and not token
    initial = query.get("sendInitialEvents")
    return ListOptions(
        version=version,
        names_version=bool(text),
        is_exact=match == EXACT or (not match and bool(version) and limit > 0),
        limit=0 if is_whole else max(limit, 0),
        continue_token=token,
        timeout_seconds=float(timeout) if timeout > 0 else None,
        wants_bookmarks=query.get("allowWatchBookmarks") in TRUE,
        wants_initial_events=None if initial is None else initial not in FALSE,
    )


def write_options(query: Query, kind: str) -> WriteOptions:
    """Return the options; `kind` is the options' name in error messages, such as CreateOptions."""
    validation = query.get("fieldValidation", "")
    if validation not in ("", "Strict", "Warn", "Ignore"):
        supported = ["", "Ignore", "Strict", "Warn"]
        raise invalid_options(kind, not_supported("fieldValidation", validation, supported))
    return WriteOptions(
        is_dry_run=_is_dry_run(kind, [query["dryRun"]] if query.get("dryRun") else []),
        validation=validation or "Warn",  # type: ignore[arg-type]  # checked above
    )


class _Preconditions(msgspec.Struct):
    uid: str | None = None
    resourceVersion: str | None = None


class _Body(msgspec.Struct):
    gracePeriodSeconds: int | None = None
    preconditions: _Preconditions | None = None
    propagationPolicy: str | None = None
    orphanDependents: bool | None = None
    dryRun: list[str] | None = None


def delete_options(query: Query, body: bytes | None) -> DeleteOptions:
    """Return the options of the body, or without a body those of the query."""
    asked = _delete_body(body) if body else _delete_query(query)
    propagation = asked.propagationPolicy or ""
    if asked.orphanDependents is not None and not propagation:
        propagation = "Orphan" if asked.orphanDependents else "Background"
    if propagation and propagation not in FINALIZERS_OF:
        supported = [*FINALIZERS_OF, "nil"]
        fault = not_supported("propagationPolicy", propagation, supported)
        raise invalid_options("DeleteOptions", fault)
    preconditions = asked.preconditions or _Preconditions()
    return DeleteOptions(
        uid=preconditions.uid or "",
        resource_version=preconditions.resourceVersion or "",
        propagation=propagation,
        grace_seconds=asked.gracePeriodSeconds,
        is_dry_run=_is_dry_run("DeleteOptions", asked.dryRun or []),
    )


def _delete_body(body: bytes) -> _Body:
    try:
        return msgspec.json.decode(body, type=_Body)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise internal_error(f"cannot read DeleteOptions: {error}") from error


def _delete_query(query: Query) -> _Body:
    seconds = _integer(query, "gracePeriodSeconds") if "gracePeriodSeconds" in query else None
    orphans = query["orphanDependents"] in TRUE if "orphanDependents" in query else None
    return _Body(
        gracePeriodSeconds=seconds,
        propagationPolicy=query.get("propagationPolicy"),
        orphanDependents=orphans,
        dryRun=[query["dryRun"]] if query.get("dryRun") else None,
    )


def _is_dry_run(kind: str, asked: list[str]) -> bool:
    if any(each != "All" for each in asked):
        raise invalid_options(kind, not_supported("dryRun", asked, ["All"]))
    return bool(asked)


def _integer(query: Query, name: str) -> int:
    text = query.get(name, "")
    try:
        number = int(text) if text else 0
    except ValueError as error:
        message = f'strconv.ParseInt: parsing "{text}": invalid syntax'
        raise bad_request(message) from error
    if abs(number) > LARGEST_INTEGER:
        raise bad_request(f'strconv.ParseInt: parsing "{text}": value out of range')
    return number


def _version(text: str, *, is_watch: bool) -> int:
    if text and not text.isdecimal():
        fault = f'resourceVersion: Invalid value: "{text}": strconv.ParseUint: parsing "{text}"'
        if is_watch:
            raise internal_error(f"{fault}: invalid syntax")
        raise bad_request(f"invalid resource version: {fault}: invalid syntax")
    return int(text or "0")


def _match_faults(query: Query, *, is_watch: bool) -> list[Fault]:
    if is_watch:
        return _watch_match_faults(query)
    match, version = query.get("resourceVersionMatch", ""), query.get("resourceVersion", "")
    if "sendInitialEvents" in query:
        why = "sendInitialEvents is forbidden for list"
        return [forbidden_field("sendInitialEvents", why)]
    faults = []
    if match and not version:
        why = "resourceVersionMatch is forbidden unless resourceVersion is provided"
        faults.append(forbidden_field("resourceVersionMatch", why))
    if match and query.get("continue"):
        why = "resourceVersionMatch is forbidden when continue is provided"
        faults.append(forbidden_field("resourceVersionMatch", why))
    if match not in ("", EXACT, NOT_OLDER):
        faults.append(not_supported("resourceVersionMatch", match, [EXACT, NOT_OLDER, ""]))
    if match == EXACT and version == "0":
        why = 'resourceVersionMatch "exact" is forbidden for resourceVersion "0"'
        faults.append(forbidden_field("resourceVersionMatch", why))
    return faults


def _watch_match_faults(query: Query) -> list[Fault]:
    match = query.get("resourceVersionMatch", "")
    if "sendInitialEvents" not in query:
        why = "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided"
        return [forbidden_field("resourceVersionMatch", why)] if match else []
    faults = []
    if match != NOT_OLDER:
        why = "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan"
        faults.append(forbidden_field("resourceVersionMatch", why))
    if match not in ("", NOT_OLDER):
        faults.append(not_supported("resourceVersionMatch", match, [NOT_OLDER]))
    return faults
