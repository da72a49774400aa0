"""A folder that keeps the objects of the embedded cluster over restarts of its process.

A snapshot is written at the start and at the end. In between, changes go to a journal twice a
second, so a process that is killed loses at most the changes of its last second. If the disk is
full, the process goes on and says so; when there is room again, it writes a new snapshot.
"""

import asyncio
import errno
import fcntl
import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Final

import attrs
import msgspec
import structlog

from gpuruntime.embedded.objects.registry import Kind
from gpuruntime.embedded.objects.store import FIRST_VERSION, Store
from gpuruntime.embedded.objects.versions import Change
from gpuruntime.errors import ConfigurationError, StateNotKeptError

log = structlog.get_logger()

FORMAT: Final = 1
FLUSH_SECONDS: Final = 0.5
# A snapshot that the disk has refused is tried again after this time.
RETRY_SECONDS: Final = 5.0
# All that is written at the start takes less.
LEAST_FREE_BYTES: Final = 16 * 1024 * 1024
# After a kill the versions of lost changes are skipped: none is given to two states of an object.
SKIPPED_VERSIONS: Final = 100_000
# The journal is folded into a new snapshot when it exceeds this size, and the snapshot's.
LARGEST_JOURNAL: Final = 64 * 1024 * 1024
SNAPSHOT: Final = "objects.jsonl"
JOURNAL: Final = "journal.jsonl"
LOCK: Final = "lock"


class Head(msgspec.Struct):
    """The first line of the snapshot and of the journal."""

    version: int
    format: int = FORMAT


class Record(msgspec.Struct):
    """An object at one version; without a body it is its removal."""

    group: str
    plural: str
    path: str
    version: int
    body: msgspec.Raw = msgspec.Raw(b"null")

    @property
    def is_removal(self) -> bool:
        return bytes(self.body) == b"null"


@attrs.frozen(kw_only=True, slots=True)
class Restored:
    """The objects of an earlier process, in the order of their versions, and its last version."""

    version: int
    records: Sequence[Record]
    was_killed: bool


class StateFolder:
    """The files of one folder; `state_folder` opens it for one process alone."""

    def __init__(self, path: Path) -> None:
        """Raise ConfigurationError if a file is damaged, except for a torn end of the journal."""
        self.path = path
        self.restored = _restored(path)
        self._pending: list[bytes] = []
        self._journal: IO[bytes] | None = None
        self._snapshot_bytes = 0
        # The journal lacks changes, and may end in half a line. Only a snapshot mends that.
        self._is_behind = False

    def record(self, kind: Kind, change: Change) -> None:
        """Note a change of the store; the next flush writes it."""
        body = b"null" if change.after is None else change.after.body
        record = Record(kind.group, kind.plural, change.path, change.version, msgspec.Raw(body))
        self._pending.append(_encoder.encode(record))

    def begin(self, store: Store) -> None:
        """Write the first snapshot; raise ConfigurationError if the folder cannot be written."""
        try:
            self._save(store)
        except OSError as error:
            raise ConfigurationError(f"--state {self.path}: {error.strerror}") from error

    def flush(self, store: Store) -> None:
        """Write the pending changes to the journal; log it if the disk refuses them."""
        was_behind = self._is_behind
        try:
            self._flush(store)
        except OSError as error:
            self._is_behind = True
            self._pending.clear()
            if not was_behind:
                remedy = "make room: until then changes are lost when dev ends"
                log.warning(
                    "state not kept", folder=str(self.path), reason=error.strerror, remedy=remedy
                )
        else:
            if was_behind:
                log.info("state kept again", folder=str(self.path))

    async def run(self, store: Store) -> None:
        """Flush until cancelled."""
        while True:
            await asyncio.sleep(RETRY_SECONDS if self._is_behind else FLUSH_SECONDS)
            self.flush(store)

    def close(self, store: Store) -> None:
        """Save the last snapshot. No journal beside it says that nothing is lost.

        Raise StateNotKeptError if the disk refuses both the snapshot and the journal.
        """
        self.flush(store)
        try:
            self._save(store)
            self.close_journal()
            (self.path / JOURNAL).unlink()
        except OSError as error:
            if self._is_behind:
                raise StateNotKeptError(
                    f"--state {self.path}: {error.strerror}: the folder has the state from before "
                    "the disk refused the first change"
                ) from error
            # The journal has all changes, as after a kill.
            log.warning("last snapshot not written", folder=str(self.path), reason=error.strerror)

    def close_journal(self) -> None:
        journal, self._journal = self._journal, None
        if journal is not None:
            with suppress(OSError):  # what a flush could not write is tried again
                journal.close()

    def _flush(self, store: Store) -> None:
        if self._is_behind:
            self._save(store)
        elif self._journal is not None and self._pending:
            self._journal.write(b"\n".join(self._pending) + b"\n")
            self._journal.flush()
            self._pending.clear()
            if self._journal.tell() > max(LARGEST_JOURNAL, self._snapshot_bytes):
                self._save(store)

    def _save(self, store: Store) -> None:
        """Write a snapshot of the store, and begin an empty journal."""
        lines = [_encoder.encode(Head(version=store.version))]
        lines += (_encoder.encode(each) for each in _records(store))
        whole = b"\n".join(lines) + b"\n"
        _write_durably(self.path / SNAPSHOT, whole)
        self._pending.clear()
        self._snapshot_bytes = len(whole)
        self.close_journal()
        self._journal = (self.path / JOURNAL).open("wb")
        self._journal.write(_encoder.encode(Head(version=store.version)) + b"\n")
        self._journal.flush()
        self._is_behind = False


@contextmanager
def state_folder(path: Path) -> Iterator[StateFolder]:
    """Create the folder if it does not exist, and hold its lock until the end of the block."""
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        lock = (path / LOCK).open("ab")
    except OSError as error:
        raise ConfigurationError(f"--state {path}: {error.strerror}") from error
    free = shutil.disk_usage(path).free
    with lock:
        if free < LEAST_FREE_BYTES:
            raise ConfigurationError(
                f"--state {path}: {free // 2**20} MiB of its disk are free: make room for at "
                f"least {LEAST_FREE_BYTES // 2**20} MiB, or name another folder"
            )
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            if error.errno not in (errno.EAGAIN, errno.EACCES):
                raise
            raise ConfigurationError(
                f"--state {path}: another gpuruntime dev uses this folder: stop it, or name "
                "another folder"
            ) from error
        state = StateFolder(path)
        try:
            yield state
        finally:
            state.close_journal()


def _restored(path: Path) -> Restored | None:
    """Return what an earlier process has left, or None if there is nothing."""
    snapshot, journal = path / SNAPSHOT, path / JOURNAL
    if not snapshot.exists():
        return None
    head, objects = _read(snapshot, may_be_torn=False)
    was_killed = journal.exists()
    version, latest = head.version, {_place(each): each for each in objects}
    for record in _read(journal, may_be_torn=True)[1] if was_killed else ():
        if record.version <= head.version:
            continue  # the process died after the snapshot and before its journal was emptied
        version = record.version
        if record.is_removal:
            latest.pop(_place(record), None)
        else:
            latest[_place(record)] = record
    records = sorted(latest.values(), key=lambda each: each.version)
    version += SKIPPED_VERSIONS if was_killed else 0
    return Restored(version=version, records=records, was_killed=was_killed)


def _records(store: Store) -> Iterator[Record]:
    for collection in store.collections():
        kind = collection.kind
        for stored in collection.present():
            body = msgspec.Raw(stored.body)
            yield Record(kind.group, kind.plural, stored.path, stored.version, body)


def _read(file: Path, *, may_be_torn: bool) -> tuple[Head, list[Record]]:
    lines = file.read_bytes().split(b"\n")
    tail = lines.pop()
    if tail and not may_be_torn:
        raise _damaged(file, len(lines) + 1)
    if not lines and not may_be_torn:
        raise _damaged(file, 1)
    head, records = Head(version=FIRST_VERSION), list[Record]()
    for number, line in enumerate(lines):
        try:
            if number:
                records.append(_decoder.decode(line))
            else:
                head = _head_decoder.decode(line)
        except msgspec.DecodeError as error:
            if may_be_torn and number == len(lines) - 1 > 0:
                break
            raise _damaged(file, number + 1) from error
    if head.format != FORMAT:
        raise ConfigurationError(
            f"{file}: its format is {head.format}, and this version of gpuruntime knows "
            f"{FORMAT}: use the version that wrote it, or another folder"
        )
    return head, records


def _damaged(file: Path, line: int) -> ConfigurationError:
    return ConfigurationError(
        f"{file}: line {line} is damaged: restore the folder from a copy, or name another folder"
    )


def _write_durably(file: Path, content: bytes) -> None:
    """Replace the file in one step: a reader finds the old content or the new one."""
    beside = file.with_suffix(".new")
    try:
        with beside.open("wb") as output:
            output.write(content)
            output.flush()
            os.fsync(output.fileno())
        beside.replace(file)
    finally:
        beside.unlink(missing_ok=True)


def _place(record: Record) -> tuple[str, str, str]:
    return record.group, record.plural, record.path


_encoder: Final = msgspec.json.Encoder()
_head_decoder: Final = msgspec.json.Decoder(Head)
_decoder: Final = msgspec.json.Decoder(Record)
