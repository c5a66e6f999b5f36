"""The description of the interface: its examples work, and whatever it allows gets an answer that it describes."""

import ast
import html
import re
from collections import Counter
from pathlib import Path

import pytest

import accous.service
from accous.service.app import Service, make_app
from accous.service.bodies import BatchReader, Limits
from accous.service.interface import Gate, Tokens
from accous.service.live import Metrics
from accous.table.model import load_table_model
from tests.service.servers import serving
from tests.waiting import PATIENCE


@pytest.fixture(scope="module")
def server(forks, mixed, tmp_path_factory):
    with serving(forks, mixed.copy(tmp_path_factory.mktemp("interface") / "model")) as running:
        yield running
    assert "Traceback" not in running.stderr


@pytest.fixture(scope="module")
def interface(server):
    return server.client.get("/openapi.json").json()


def test_every_example_works(server, interface):
    n_tried = 0
    for path, methods in interface["paths"].items():
        for method, operation in methods.items():
            for kind, content in operation.get("requestBody", {"content": {}})["content"].items():
                if "example" not in content:  # JSON cannot hold one in Arrow
                    continue
                example = content["example"]
                sent = {"content": example} if isinstance(example, str) else {"json": example}
                answer = server.client.request(method, path, headers={"content-type": kind}, **sent)
                assert answer.status_code == 200, (path, answer.text)
                n_tried += 1
            if method == "get" and path != "/v1/events":
                assert server.client.get(path).status_code == 200, path
    assert n_tried == 10


def test_the_commands_of_the_page_have_the_token_that_they_need(forks, numbers, tmp_path):
    (tmp_path / "tokens").write_text(f"read: {'r' * 30}\n")
    with serving(forks, numbers.copy(tmp_path / "model"), "--token-file", tmp_path / "tokens") as server:
        page = server.client.get("/docs", headers={"authorization": f"Bearer {'r' * 30}"}).text
    commands = [html.unescape(each) for each in re.findall(r"<pre>(.*?)</pre>", page, flags=re.DOTALL)]
    is_open = [command.split()[1].endswith(("/healthz", "/readyz", "/ready", "/v2")) for command in commands]
    has_token = ['-H "Authorization: Bearer $TOKEN"' in command for command in commands]
    assert has_token == [not each for each in is_open]


def test_what_the_address_may_say_is_described(interface):
    def named(path: str) -> set[str]:
        return {each["name"] for each in interface["paths"][path]["post"]["parameters"]}

    assert named("/v1/predict") == {"include", "alpha"}
    assert named("/v1/step") == {"Idempotency-Key", "include", "alpha", "key"}
    assert named("/v1/adapt") == {"Idempotency-Key", "key"}


def test_the_page_shows_every_endpoint_with_a_command(server, interface):
    page = server.client.get("/docs").text
    assert page.count("<pre>curl ") == len([method for methods in interface["paths"].values() for method in methods])
    for path in interface["paths"]:
        assert f"<code>{path}</code>" in page


def test_whatever_the_description_allows_is_answered_as_described(server, interface):
    """Requests drawn from the description, right and wrong ones."""
    schemathesis = pytest.importorskip("schemathesis", reason="needs schemathesis: pip install schemathesis")
    from hypothesis import HealthCheck, given, settings
    from schemathesis.generation import GenerationMode

    described = dict(interface)
    described["paths"] = {path: each for path, each in interface["paths"].items() if path != "/v1/events"}
    schema = schemathesis.openapi.from_dict(described)
    checks = [
        schemathesis.checks.not_a_server_error,
        schemathesis.specs.openapi.checks.status_code_conformance,
        schemathesis.specs.openapi.checks.content_type_conformance,
        schemathesis.specs.openapi.checks.response_schema_conformance,
    ]
    n_examples = max(2, settings.default.max_examples // 7)
    for operation in schema.get_all_operations():
        for mode in (GenerationMode.POSITIVE, GenerationMode.NEGATIVE):
            if mode is GenerationMode.NEGATIVE and not len(operation.ok().body):
                continue

            @settings(max_examples=n_examples, deadline=None, suppress_health_check=list(HealthCheck), database=None)
            @given(case=operation.ok().as_strategy(generation_mode=mode))
            def try_it(case):
                answer = case.call(base_url=server.address, timeout=PATIENCE)
                case.validate_response(answer, checks=checks)

            try_it()


def test_metrics_are_what_prometheus_reads(server, mixed):
    from prometheus_client.parser import text_string_to_metric_families

    server.post("/v1/predict", {"rows": mixed.rows[:3]})
    answer = server.client.get("/metrics")
    assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
    families = {family.name: family for family in text_string_to_metric_families(answer.text)}
    wanted = {
        *("accous_rounds", "accous_rows", "accous_state", "accous_effective_rows", "accous_alarm", "accous_labels"),
        *("accous_queue_depth", "accous_request_seconds", "accous_learn_seconds", "accous_log_sync_seconds"),
        *("accous_requests", "accous_predicted_rows", "accous_outside_share"),
        *(f"accous_metric_{name}" for name in ("value", "low", "high", "at_fit")),
    }
    assert wanted <= families.keys()
    predicted = families["accous_predicted_rows"].samples[0].value
    assert predicted >= 3
    (low,), (value,), (high,) = (families[f"accous_metric_{name}"].samples for name in ("low", "value", "high"))
    assert low.value <= value.value <= high.value
    assert value.labels == {"metric": "error", "basis": "expected"}
    assert sum(sample.value for sample in families["accous_state"].samples) == 1
    counted = [
        sample for sample in families["accous_requests"].samples if sample.labels.get("endpoint") == "/v1/predict"
    ]
    assert any(sample.labels["status"] == "200" and sample.value >= 1 for sample in counted)
    # An address that there is not must not become a label of its own.
    server.client.get("/made/up/address")
    assert "made" not in server.client.get("/metrics").text


def test_html_in_names_and_categories_stays_text(forks, tmp_path):
    """A model whose columns, classes and categories are HTML: pages show it as text."""
    import numpy as np
    import polars as pl

    from accous.cli import main

    evil = "<img src=x onerror=alert(1)>"
    random = np.random.default_rng(0)
    x = random.normal(size=120)
    table = pl.DataFrame(
        {
            f"{evil}a": x,
            "b</script><script>alert(2)</script>": np.where(random.random(120) < 0.5, f"{evil}red", "blue"),
            "label": np.where(x > 0, "<b>yes</b>", "no & none"),
        }
    )
    table.write_csv(tmp_path / "reference.csv")
    assert main(["fit", str(tmp_path / "reference.csv"), "--label", "label", "-o", str(tmp_path / "model"), "-q"]) == 0
    rows = table.drop("label").with_columns(pl.col(f"{evil}a") + 5.0).to_dicts()
    with serving(forks, tmp_path / "model") as server:
        for start in range(0, 120, 4):
            server.step(rows[start : start + 4])
        server.wait_for_rounds(30)
        for path in ("/", "/report", "/docs"):
            page = server.client.get(path).text
            assert "<img" not in page, path
            assert "<script>alert" not in page, path
        view = server.client.get("/page/view")
        assert view.headers["content-type"] == "application/json"
        wrong = server.post("/v1/predict", {"rows": [{f"{evil}z": 1}]})
        assert wrong.headers["content-type"] == "application/json"
        assert wrong.headers["x-content-type-options"] == "nosniff"
        inner = re.findall(r"<script>(.*?)</script>", server.client.get("/report").text, flags=re.DOTALL)
        assert len(inner) == 1


FRAMEWORK = ("uvicorn", "starlette", "h11", "uvloop")


def test_server_and_framework_are_used_as_they_are():
    """No class of ours derives from one of the server's, and nothing private of it or of the framework is touched."""
    for path in Path(accous.service.__file__).parent.glob("*.py"):
        tree = ast.parse(path.read_text())
        imports = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
        found = {each.name: node.module for node in imports for each in node.names if node.module is not None}
        theirs = {name: module for name, module in found.items() if module.split(".")[0] in FRAMEWORK}
        assert not any(part.startswith("_") for pair in theirs.items() for part in ".".join(pair).split(".")), path
        servers = {name for name, module in theirs.items() if not module.startswith("starlette")} | {"uvicorn"}
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef):
                assert not servers & {
                    each.id for base in node.bases for each in ast.walk(base) if isinstance(each, ast.Name)
                }
            if isinstance(node, ast.Attribute) and node.attr.startswith("_") and not node.attr.startswith("__"):
                assert getattr(node.value, "id", "") in ("self", "fresh"), (path, node.lineno)  # fresh: a log of ours


def test_every_address_is_answered_in_one_place(numbers):
    reader = BatchReader(load_table_model(numbers.folder), Limits())
    service = Service(name="m", reader=lambda: reader, limits=Limits(), gate=Gate(Tokens()), metrics=Metrics())
    found = Counter((route.path, method) for route in make_app(service).routes for method in route.methods or ())
    assert max(found.values()) == 1
    assert ("/v1/step", "POST") in found
