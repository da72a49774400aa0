"""The sessions check the project, under the same names on a laptop and in CI."""

import os
import shutil

import nox

nox.options.sessions = ["lint", "typing", "tests"]
nox.options.reuse_existing_virtualenvs = True
nox.options.error_on_missing_interpreters = True

PYPROJECT = nox.project.load_toml("pyproject.toml")
# Outside their session, the suites of functions try fewer.
FULL_PROOF = {"GPURUNTIME_CHAIN_INVOCATIONS": "10000", "GPURUNTIME_CHAIN_SCHEDULES": "20"}
FULL_SCALING = {"GPURUNTIME_SCALING_SEEDS": "500"}
LONG_GATEWAY = {"GPURUNTIME_GATEWAY_MIB": "2048", "GPURUNTIME_GATEWAY_SOCKETS": "5000"}
# Virtual time needs no processor at once: sessions beside it measure real seconds.
YIELDING = ("nice", "-n", "19", "python", "-m")
# A process takes tests from the other one when it has none left: some take half a minute.
EVENLY = ("-n", "2", "--dist", "worksteal")
# Each process has a control plane of its own, and each world one process; see tests/conftest.py.
BY_WORLD = ("-n", "2", "--dist", "loadscope", "--no-loadscope-reorder")


def install(session: nox.Session, group: str, *extras: str) -> None:
    """Install the product in editable form, and the pinned tools of one group."""
    product = f".[{','.join(extras)}]" if extras else "."
    session.install("-q", "-e", product, *nox.project.dependency_groups(PYPROJECT, group))


@nox.session
def lint(session: nox.Session) -> None:
    """Check the format, the lint rules, the order of the rooms, and the prose."""
    install(session, "lint")
    session.run("ruff", "format", "--check", "-q")
    session.run("ruff", "check", "-q")
    session.run("lint-imports", "--no-cache", silent=True)
    session.run("python", ".ci/prose_check.py")


@nox.session
def typing(session: nox.Session) -> None:
    """Run mypy, strict, over the product and its tests."""
    install(session, "typing", "local", "ssh")
    session.run("mypy", "--no-error-summary")


@nox.session
def tests(session: nox.Session) -> None:
    """Run every test that needs only Python."""
    install(session, "tests", "local", "postgres", "ssh")
    for shell in ("zsh", "fish"):
        if shutil.which(shell) is None:
            session.warn(f"{shell} is not installed: nothing asks it for completions")
    session.run(
        "pytest", *EVENLY, "-m", "not cluster and not node and not serverless", *session.posargs
    )


@nox.session
def cluster(session: nox.Session) -> None:
    """Run the suites against a real control plane; build it first if there is none."""
    install(session, "tests", "local", "postgres", "ssh")
    for proof in ("real_cluster", "real_file_server", "monitoring", "browser", "openssh"):
        session.run("python", "-m", f"tests.proofs.{proof}.binaries")
    # Objects that a thread of the fault proxy leaves unclosed are no fault of the product.
    unclosed = "ignore::pytest.PytestUnraisableExceptionWarning"
    session.run("pytest", *BY_WORLD, "-m", "cluster", "-W", unclosed, *session.posargs)


@nox.session
def node(session: nox.Session) -> None:
    """Run the suites against one real node with real Pods; needs root, and leaves no trace."""
    if os.geteuid() != 0:
        session.error("a real node needs root: run `nox -s node` as root")
    install(session, "tests", "local", "postgres", "ssh")
    for proof in ("real_cluster", "real_node", "real_file_server", "openssh"):
        session.run("python", "-m", f"tests.proofs.{proof}.binaries")
    session.run("python", "-m", "tests.rooms.serverless.binaries")
    session.run("python", "-m", "tests.proofs.real_node.images.preloaded")
    enclosed = ("python", "-m", "tests.proofs.real_node.isolation.enclosure", "python", "-m")
    session.run(*enclosed, "pytest", "-m", "node", "tests/proofs/real_node", *session.posargs)


@nox.session
def serverless(session: nox.Session) -> None:
    """Run invocations on a real broker under kills, pauses and lost connections."""
    install(session, "tests", "local", "postgres", "ssh")
    session.run("python", "-m", "tests.rooms.serverless.binaries")
    given = os.environ  # noqa: TID251 - the environment may ask for fewer or more
    proof = {name: given.get(name, most) for name, most in FULL_PROOF.items()}
    session.run("pytest", "-m", "serverless", *session.posargs, env=proof)


@nox.session
def bench(session: nox.Session) -> None:
    """Measure the budgets as ratios, side by side in one run."""
    install(session, "bench", "local", "postgres", "ssh")
    session.run("python", "-m", "tests.proofs.bench", *session.posargs)


@nox.session(name="long-gateway")
def long_gateway(session: nox.Session) -> None:
    """Pass 2 GiB each way and hold 5,000 idle WebSockets at a gateway, within its memory."""
    install(session, "bench", "local", "postgres", "ssh")
    session.run("pytest", "-s", "tests/proofs/gateway_bytes", *session.posargs, env=LONG_GATEWAY)


@nox.session
def load(session: nox.Session) -> None:
    """Run 10,000 stock units and 2,000 claims on a real control plane, within budgets."""
    install(session, "bench", "local", "postgres", "ssh")
    session.run("python", "-m", "tests.proofs.load", *session.posargs)


@nox.session
def simulate(session: nox.Session) -> None:
    """Run the whole product in virtual time under planned faults, seed after seed."""
    install(session, "tests", "local", "postgres", "ssh")
    # These seeds crash before, during and after every write that they make 500 times.
    seeds = session.posargs or ["--seeds", "0-199", "--covered", "500"]
    session.run(*YIELDING, "tests.proofs.simulation", *seeds, external=True)
    if not session.posargs:
        scaling = ("pytest", *EVENLY, "tests/rooms/serverless/test_schedules.py")
        session.run(*YIELDING, *scaling, env=FULL_SCALING, external=True)


@nox.session
def mutations(session: nox.Session) -> None:
    """Check that the simulation finds defects: each is planted, one at a time."""
    install(session, "tests", "local", "postgres", "ssh")
    session.run("python", "-m", "tests.proofs.simulation.mutations", *session.posargs)


@nox.session
def model(session: nox.Session) -> None:
    """Explore the claim and stock protocol in small scopes, then without each clause."""
    install(session, "tests", "local", "postgres", "ssh")
    session.run(*YIELDING, "tests.proofs.model", *session.posargs, external=True)
