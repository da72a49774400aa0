"""A container as a process of this machine: started, probed, restarted and stopped."""

import asyncio
import shutil
import signal
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from datetime import datetime
from pathlib import Path
from typing import Final

import attrs

from gpuruntime.concurrency.clock import loop_time
from gpuruntime.concurrency.waiting import is_set_within
from gpuruntime.embedded.kinds.container_objects import Hook, Probe
from gpuruntime.embedded.kinds.pod_objects import Container, ContainerState, Pod, Terminated
from gpuruntime.embedded.nodes.container_timeline import (
    back_off_words,
    backoffs,
    is_restarted,
    policy_of,
)
from gpuruntime.embedded.nodes.pod_secrets import RETRY_SECONDS, MissingSecretError
from gpuruntime.embedded.processes.guarded_processes import Process, Processes
from gpuruntime.embedded.processes.port_plan import (
    NO_PORTS,
    PortTakenError,
    demand_free,
    free_port,
    ports_of,
)
from gpuruntime.embedded.processes.probes import (
    port_asked,
    problem,
    wait_until_failed,
    wait_until_passed,
)
from gpuruntime.embedded.processes.programs import ProcessRules, Program
from gpuruntime.embedded.processes.running_command import (
    CommandOptions,
    RunningCommand,
    running_command,
)
from gpuruntime.embedded.processes.start_plan import Home, Start, command_in, start_of
from gpuruntime.kube.events import Note
from gpuruntime.models.kubernetes.pods import Running, Waiting

# After a run of this length the back-off starts over.
BACKOFF_RESET_SECONDS: Final = 600.0
LEAST_GRACE_SECONDS: Final = 2.0
_LONGEST_MESSAGE: Final = 2_000
_MEMORY_EVENTS: Final = Path("/proc/vmstat")
# The exit code of a shell for a program that cannot be started.
_NOT_STARTED: Final = 128


@attrs.frozen(kw_only=True, slots=True)
class ProcessStatus:
    """The container's current status."""

    state: ContainerState = ContainerState(waiting=Waiting(reason="PodInitializing"))
    last_state: ContainerState = ContainerState()
    restarts: int = 0
    is_started: bool = False
    is_ready: bool = False


@attrs.frozen(kw_only=True, slots=True)
class PodContext:
    """Dependencies of a Pod's containers; `changed` is called when a status changes.

    `variables` returns those of Secrets, or raises MissingSecretError. `note` queues an Event.
    With a `search_path` each container has that PATH, and a home: a folder of its own.
    """

    pod: Pod
    folder: Path
    processes: Processes
    now: Callable[[], datetime]
    changed: Callable[[], None]
    variables: Callable[[Container], Awaitable[Mapping[str, str]]]
    note: Callable[[Note], None]
    search_path: str | None = None


class ContainerProcess:
    def __init__(
        self, container: Container, program: Program, context: PodContext, *, is_init: bool
    ) -> None:
        self.container = container
        self.status = ProcessStatus()
        self.ports = NO_PORTS
        self.started = asyncio.Event()
        self.over = asyncio.Event()
        self._program = program
        self._context = context
        self._policy = policy_of(context.pod, container, is_init=is_init)
        self._process: Process | None = None
        self._start = Start(argv=(), environment={})
        self._commands: set[Process] = set()
        self._stopping = asyncio.Event()
        self._has_begun = False
        self._probe_failure = ""

    @property
    def is_running(self) -> bool:
        return self._process is not None

    @property
    def pid(self) -> int:
        return self._process.pid if self._process else 0

    def log(self, restarts: int) -> Path:
        return self._context.folder / f"{self.container.name}.{restarts}.log"

    def is_in_run(self, restarts: int) -> bool:
        return self.is_running and self.status.restarts == restarts

    @asynccontextmanager
    async def command(
        self, arguments: tuple[str, ...], rules: ProcessRules, *, options: CommandOptions
    ) -> AsyncIterator[RunningCommand]:
        """Run a command beside the process, which it does not outlive.

        Raise OSError if the command or its folder does not exist.
        """
        start, beside = command_in(self._start, arguments, rules), self._process
        async with running_command(self._context.processes, start, options) as command:
            if self._process is not beside:
                command.process.send(signal.SIGKILL)
            self._commands.add(command.process)
            try:
                yield command
            finally:
                self._commands.remove(command.process)

    async def run(self, places: Mapping[str, str]) -> bool:
        """Run the container until it has ended for good; return whether it succeeded."""
        if self._stopping.is_set():
            return False
        self._has_begun = True
        try:
            return await self._run_until_done(places)
        finally:
            if self._process is not None:
                await self._process.kill()
            self._kill_commands()
            self.over.set()

    @property
    def hook(self) -> Hook | None:
        return self.container.lifecycle.preStop

    async def stop(
        self, due_at: float, *, hook_port: int, after: Sequence["ContainerProcess"] = ()
    ) -> None:
        """Call the preStop hook, wait for the containers in `after`, and send SIGTERM.

        The process is killed at the loop's moment `due_at`, or two seconds after SIGTERM if that
        is later.
        """
        self._stopping.set()
        if not self._has_begun:
            self.over.set()
            return
        if self.hook is not None and self._process is not None and due_at > loop_time():
            await problem(self.hook, hook_port, within_seconds=due_at - loop_time())
        with suppress(TimeoutError):
            async with asyncio.timeout_at(due_at):
                for other in after:
                    await other.over.wait()
        await self._end_within(max(due_at, loop_time() + LEAST_GRACE_SECONDS))

    async def _end_within(self, due_at: float) -> None:
        self._send(signal.SIGTERM)
        try:
            async with asyncio.timeout_at(due_at):
                await self.over.wait()
        except TimeoutError:
            self._send(signal.SIGKILL)
            await self.over.wait()

    async def _run_until_done(self, places: Mapping[str, str]) -> bool:
        delays = backoffs()
        delay = 0
        while True:
            began_at = loop_time()
            if (variables := await self._prepared()) is None:
                return False
            end = await self._run_once(places, variables)
            if self._stopping.is_set() or not is_restarted(self._policy, end.exitCode):
                self._show(state=ContainerState(terminated=end), is_ready=False, is_started=False)
                return not end.exitCode
            if loop_time() - began_at >= BACKOFF_RESET_SECONDS:
                delay, delays = 0, backoffs()
            await self._pause(delay, end)
            delay = next(delays)
            self._show(restarts=self.status.restarts + 1)

    async def _prepared(self) -> Mapping[str, str] | None:
        """Wait until all Secrets exist and no port is taken; return the variables of Secrets.

        Return None if the container has to stop.
        """
        told = ""
        while not self._stopping.is_set():
            try:
                variables = await self._context.variables(self.container)
                self.ports = ports_of(self.container, self._program, free_port)
                demand_free(self.ports)
            except (MissingSecretError, PortTakenError) as error:
                if told != str(error):
                    told = str(error)
                    self._context.note(Note("Failed", f"Error: {told}", is_warning=True))
                is_taken = isinstance(error, PortTakenError)
                reason = "CreateContainerError" if is_taken else "CreateContainerConfigError"
                self._show(state=ContainerState(waiting=Waiting(reason=reason, message=told)))
                await is_set_within(self._stopping, RETRY_SECONDS)
            else:
                return variables
        return None

    async def _pause(self, seconds: int, end: Terminated) -> None:
        words = back_off_words(self._context.pod, self.container.name, seconds)
        waiting = ContainerState(waiting=Waiting(reason="CrashLoopBackOff", message=words))
        ended = ContainerState(terminated=end)
        self._show(
            state=waiting if seconds else ended,
            last_state=ended,
            is_ready=False,
            is_started=False,
        )
        await is_set_within(self._stopping, seconds)

    async def _run_once(
        self, places: Mapping[str, str], variables: Mapping[str, str]
    ) -> Terminated:
        began_at, self._probe_failure = self._context.now(), ""
        log = self.log(self.status.restarts)
        self.log(self.status.restarts - 2).unlink(missing_ok=True)
        try:
            start = self._start = self._start_with(places, variables)
            process = self._process = await self._context.processes.start(
                start.argv, log=log, environment=start.environment, folder=start.folder
            )
        except OSError as error:
            return self._end(_NOT_STARTED, began_at, f"cannot be started: {error}")
        kills = out_of_memory_kills()
        self._show(state=ContainerState(running=Running(startedAt=began_at)))
        if self._stopping.is_set():
            process.send(signal.SIGTERM)
        async with asyncio.TaskGroup() as tasks:
            watching = tasks.create_task(self._watch(process), name="probes")
            code = await process.ended()
            watching.cancel()
        self._process = None
        self._kill_commands()
        end = self._end(code if code >= 0 else _NOT_STARTED - code, began_at, _end_of_log(log))
        is_ours = bool(self._probe_failure) or self._stopping.is_set()
        reason = reason_of(code, is_ours=is_ours, kills=out_of_memory_kills() - kills)
        return attrs.evolve(end, reason=reason)

    def _start_with(self, places: Mapping[str, str], variables: Mapping[str, str]) -> Start:
        """Return the start, with an empty home, as the file system of a container is new."""
        context, home = self._context, None
        if context.search_path is not None:
            folder = context.folder / f"{self.container.name}.home"
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir()
            home = Home(folder=str(folder), search_path=context.search_path)
        start = start_of(
            context.pod, self.container, self._program, places=places, ports=self.ports, home=home
        )
        return attrs.evolve(start, environment={**start.environment, **variables})

    def _end(self, code: int, began_at: datetime, words: str) -> Terminated:
        return Terminated(
            exitCode=code,
            reason="Error" if code else "Completed",
            message=self._probe_failure or words,
            startedAt=began_at,
            finishedAt=self._context.now(),
        )

    async def _watch(self, process: Process) -> None:
        container = self.container
        if container.startupProbe is not None:
            why = await _started(container.startupProbe, self._port(container.startupProbe))
            if why:
                self._kill_for(process, f"startup probe failed: {why}")
                return
        self.started.set()
        self._show(is_started=True, is_ready=container.readinessProbe is None)
        async with asyncio.TaskGroup() as tasks:
            if container.readinessProbe is not None:
                tasks.create_task(self._watch_readiness(container.readinessProbe))
            if container.livenessProbe is not None:
                tasks.create_task(self._watch_life(container.livenessProbe, process))

    async def _watch_readiness(self, probe: Probe) -> None:
        await asyncio.sleep(probe.initialDelaySeconds)
        while True:
            if not await wait_until_passed(probe, self._port(probe)):
                self._show(is_ready=True)
                await wait_until_failed(probe, self._port(probe))
                self._show(is_ready=False)

    async def _watch_life(self, probe: Probe, process: Process) -> None:
        await asyncio.sleep(probe.initialDelaySeconds)
        why = await wait_until_failed(probe, self._port(probe))
        self._kill_for(process, f"liveness probe failed: {why}")

    def _kill_for(self, process: Process, verdict: str) -> None:
        self._probe_failure = verdict
        process.send(signal.SIGKILL)

    def _port(self, probe: Probe) -> int:
        return self.ports.real(port_asked(probe)) or 0

    def _kill_commands(self) -> None:
        for each in self._commands:
            each.send(signal.SIGKILL)

    def _send(self, number: signal.Signals) -> None:
        if self._process is not None:
            self._process.send(number)

    def _show(self, **changes: object) -> None:
        status = attrs.evolve(self.status, **changes)  # type: ignore[arg-type]  # members of ProcessStatus
        if status != self.status:
            self.status = status
            self._context.changed()


def reason_of(code: int, *, is_ours: bool, kills: int) -> str:
    """Return the reason of an end; `kills` of the kernel for memory came while it ran."""
    if code == -signal.SIGKILL and not is_ours and kills:
        return "OOMKilled"
    return "Error" if code else "Completed"


def out_of_memory_kills(events: Path = _MEMORY_EVENTS) -> int:
    """Return how many processes the kernel has killed to free memory, or 0 if it is unknown."""
    with suppress(OSError):
        for line in events.read_text().splitlines():
            name, _, number = line.partition(" ")
            if name == "oom_kill":
                return int(number)
    return 0


async def _started(probe: Probe, port: int) -> str:
    await asyncio.sleep(probe.initialDelaySeconds)
    return await wait_until_passed(probe, port)


def _end_of_log(log: Path) -> str:
    """Return the end of the log."""
    with log.open("rb") as file:
        file.seek(max(0, log.stat().st_size - _LONGEST_MESSAGE))
        return file.read().decode(errors="replace").strip()
