"""A folder that keeps the objects of the embedded cluster over restarts of its process.

A snapshot is written at the start and at the end. In between, changes go to a journal twice a
second, so a process that is killed loses at most the changes of its last second.
"""

import asyncio
import errno
import fcntl
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Final

import attrs
import msgspec

from gpuruntime.embedded.objects.registry import Kind
from gpuruntime.embedded.objects.store import FIRST_VERSION, Store
from gpuruntime.embedded.objects.versions import Change
from gpuruntime.errors import ConfigurationError

FORMAT: Final = 1
FLUSH_SECONDS: Final = 0.5
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

    def record(self, kind: Kind, change: Change) -> None:
        """Note a change of the store; the next flush writes it."""
        body = b"null" if change.after is None else change.after.body
        record = Record(kind.group, kind.plural, change.path, change.version, msgspec.Raw(body))
        self._pending.append(_encoder.encode(record))

    def save(self, store: Store) -> None:
        """Write a snapshot of the store, and begin an empty journal."""
        self._pending.clear()
        lines = [_encoder.encode(Head(version=store.version))]
        lines += (_encoder.encode(each) for each in _records(store))
        whole = b"\n".join(lines) + b"\n"
        _write_durably(self.path / SNAPSHOT, whole)
        self._snapshot_bytes = len(whole)
        self.close_journal()
        self._journal = (self.path / JOURNAL).open("wb")
        self._journal.write(_encoder.encode(Head(version=store.version)) + b"\n")
        self._journal.flush()

    def flush(self, store: Store) -> None:
        """Write the pending changes to the journal."""
        if self._journal is None or not self._pending:
            return
        self._journal.write(b"\n".join(self._pending) + b"\n")
        self._journal.flush()
        self._pending.clear()
        if self._journal.tell() > max(LARGEST_JOURNAL, self._snapshot_bytes):
            self.save(store)

    async def run(self, store: Store) -> None:
        """Flush until cancelled."""
        while True:
            await asyncio.sleep(FLUSH_SECONDS)
            self.flush(store)

    def close(self, store: Store) -> None:
        """Save the last snapshot. No journal beside it says that nothing is lost."""
        self.save(store)
        self.close_journal()
        (self.path / JOURNAL).unlink()

    def close_journal(self) -> None:
        if self._journal is not None:
            self._journal.close()
            self._journal = None


@contextmanager
def state_folder(path: Path) -> Iterator[StateFolder]:
    """Create the folder if it does not exist, and hold its lock until the end of the block."""
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        lock = (path / LOCK).open("ab")
    except OSError as error:
        raise ConfigurationError(f"--state {path}: {error.strerror}") from error
    with lock:
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
    with beside.open("wb") as output:
        output.write(content)
        output.flush()
        os.fsync(output.fileno())
    beside.replace(file)


def _place(record: Record) -> tuple[str, str, str]:
    return record.group, record.plural, record.path


_encoder: Final = msgspec.json.Encoder()
_head_decoder: Final = msgspec.json.Decoder(Head)
_decoder: Final = msgspec.json.Decoder(Record)
