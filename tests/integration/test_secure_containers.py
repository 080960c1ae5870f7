"""Both clusters with TLS, logins and rights, as docs/operations.md starts them: they run the example job.

Needs a Docker engine. What rights forbid is tried on processes, in test_rights.py.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from bench.compose.project import BUILD_S, DockerFailed, Project, no_engine
from tests.support.containers import build

pytestmark = [
    pytest.mark.docker,
    pytest.mark.kafka,
    pytest.mark.slow,
    pytest.mark.timeout(3600),
]

CERTIFICATES = Path(__file__).parents[2] / "infra" / "security" / "certificates"
CLUSTERS = {"small": ("kafka",), "": ("kafka-1", "kafka-2", "kafka-3")}
"""Names of brokers by the name of a compose file."""
RECORDS = 100


@pytest.fixture(params=["small", pytest.param("", marks=pytest.mark.long)], ids=lambda name: name or "three brokers")
def project(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Project]:
    if why := no_engine():
        pytest.skip(why)
    keys = tmp_path / "keys"
    subprocess.run([CERTIFICATES, str(keys), *CLUSTERS[request.param]], check=True)
    name = f".{request.param}" if request.param else ""
    secured = {"HOLDFAST_SECURITY": str(keys), "HOLDFAST_CLUSTER_SECRET_FILE": str(keys / "cluster.secret")}
    made = Project(tmp_path, f"compose{name}.yaml", f"compose{name}.secure.yaml", variables=secured)
    try:
        build(made)
        made.up()
        yield made
    except BaseException:
        print(made.logs())
        raise
    finally:
        made.down()


def test_the_example_job_runs_where_everybody_logs_in(project: Project, tmp_path: Path) -> None:
    assert "job visits runs" in cli(project, "submit", "visits.yaml", "--create-topics")
    visits = tmp_path / "data" / "visits.ndjson"
    visits.parent.mkdir()
    visits.write_text("\n".join(json.dumps({"page": "ab"[number % 2], "ms": number}) for number in range(RECORDS)))
    project.compose("run", "--rm", "-v", f"{visits.parent}:/data:ro", "cli", "send", "visits", "/data/visits.ndjson")
    rows = [json.loads(line) for line in cli(project, "results", "visits", "pages", "--until-idle", "3").splitlines()]
    assert {row["page"]: row["visits"] for row in rows} == {"a": RECORDS // 2, "b": RECORDS // 2}
    broker = next(service for service in project.services() if service.startswith("kafka"))
    with pytest.raises(DockerFailed):  # without TLS nobody answers
        project.inside(broker, f"timeout 20 /opt/kafka/bin/kafka-topics.sh --bootstrap-server {broker}:9092 --list")
    with pytest.raises(DockerFailed, match=r"(?i)authenticat|password|log in|SASL"):
        project.compose("run", "--rm", "-e", "HOLDFAST_KAFKA_CLIENT_SASL_USERNAME=stranger", "cli", "list")


def cli(project: Project, *words: str) -> str:
    return project.compose("run", "--rm", "cli", *words, seconds=BUILD_S)
