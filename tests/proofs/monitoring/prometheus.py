"""A real Prometheus beside a test, and its promtool."""

import json
import re
import subprocess
import urllib.parse
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import attrs
import yaml

from tests.eventually import eventually_blocking
from tests.proofs.monitoring import binaries
from tests.proofs.monitoring.rules import groups

SCRAPE_SECONDS = 1
# The line with the port that it chose; other lines repeat the requested one.
LISTENS = re.compile(r"tls_config\.go.* address=(\S+)")


@attrs.frozen
class Prometheus:
    address: str

    def ask(self, expression: str) -> list[dict[str, Any]]:
        """Return the current instant vector. An invalid expression is an error."""
        query = urllib.parse.urlencode({"query": expression})
        answer = self._get(f"/api/v1/query?{query}")
        assert answer["resultType"] == "vector", expression
        found: list[dict[str, Any]] = answer["result"]
        return found

    def rules(self) -> dict[str, str]:
        """Return the health of each rule by its name."""
        found = self._get("/api/v1/rules")["groups"]
        return {rule["name"]: rule["health"] for group in found for rule in group["rules"]}

    def _get(self, path: str) -> Any:
        with urllib.request.urlopen(self.address + path, timeout=10) as answer:
            return json.load(answer)["data"]


def promtool(*arguments: str) -> str:
    """Return promtool's output. If it fails, assert with its output."""
    command = [str(binaries.find() / "promtool"), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def write_rules(folder: Path) -> Path:
    path = folder / "rules.yaml"
    path.write_text(yaml.safe_dump(groups()))
    return path


@contextmanager
def prometheus(folder: Path, targets: Mapping[str, str]) -> Iterator[Prometheus]:
    """Run a Prometheus that scrapes these operations listeners, given by pod name."""
    config = folder / "prometheus.yaml"
    config.write_text(yaml.safe_dump(_configuration(write_rules(folder), targets)))
    log = folder / "prometheus.log"
    with log.open("w") as output:
        running = subprocess.Popen(
            [
                str(binaries.find() / "prometheus"),
                f"--config.file={config}",
                f"--storage.tsdb.path={folder / 'data'}",
                "--web.listen-address=127.0.0.1:0",
            ],
            stdout=output,
            stderr=output,
        )
    try:
        where = eventually_blocking(lambda: LISTENS.search(log.read_text()), explain=log.read_text)
        assert where
        yield Prometheus(f"http://{where[1]}")
    finally:
        running.terminate()
        running.wait()


def _configuration(rules: Path, targets: Mapping[str, str]) -> dict[str, Any]:
    """Return the configuration, with the labels that the PodMonitor would give."""
    return {
        "global": {"scrape_interval": f"{SCRAPE_SECONDS}s", "evaluation_interval": "1s"},
        "rule_files": [str(rules)],
        "scrape_configs": [
            {
                "job_name": "gpuruntime",
                "static_configs": [
                    {
                        "targets": [address.removeprefix("http://")],
                        "labels": {"namespace": "runtime-system", "pod": pod},
                    }
                    for pod, address in targets.items()
                ],
            }
        ],
    }
