"""Clients of other servers work unchanged: Triton's own client, the protocol by hand, and MLflow's forms."""

import numpy as np
import polars as pl
import pytest

from accous.table.model import load_table_model
from tests.service.servers import serving


@pytest.fixture(scope="module")
def server(forks, mixed, tmp_path_factory):
    with serving(forks, mixed.copy(tmp_path_factory.mktemp("inference") / "credit")) as running:
        yield running
        assert running.client.get("/readyz").json()["rounds"] == 0, "a prediction was learned from"


@pytest.fixture(scope="module")
def numeric(forks, numbers, tmp_path_factory):
    with serving(forks, numbers.copy(tmp_path_factory.mktemp("numeric") / "credit")) as running:
        yield running


def expected_of(fitted, n_rows: int) -> pl.DataFrame:
    frame = pl.DataFrame(fitted.rows[:n_rows], infer_schema_length=None)
    return load_table_model(fitted.folder).predict(frame)


def rows_of(mixed, n_rows: int) -> list[dict]:
    return [{name: value for name, value in row.items() if name != "id"} for row in mixed.rows[:n_rows]]


@pytest.mark.parametrize("is_binary", [True, False], ids=["binary", "json"])
def test_a_client_of_triton_sends_a_column_each(server, mixed, is_binary):
    http = pytest.importorskip("tritonclient.http", reason="needs tritonclient: pip install 'tritonclient[http]'")
    client = http.InferenceServerClient(server.address.removeprefix("http://"))
    assert client.is_server_live()
    assert client.is_server_ready()
    assert client.is_model_ready("credit")
    metadata = client.get_model_metadata("credit")
    assert [each["name"] for each in metadata["inputs"]] == ["x0", "x1", "x2", "x3", "colour", "day"]
    inputs = []
    for described in metadata["inputs"]:
        values = [row[described["name"]] for row in mixed.rows[:6]]
        if described["datatype"] == "FP64":
            array = np.array([np.nan if value is None else value for value in values], dtype=np.float64)
            values_binary = is_binary or np.isnan(array).any()  # JSON has no NaN
        else:
            array, values_binary = np.array([str(value).encode() for value in values], dtype=object), is_binary
        tensor = http.InferInput(described["name"], [6], described["datatype"])
        tensor.set_data_from_numpy(array, binary_data=bool(values_binary))
        inputs.append(tensor)
    found = client.infer("credit", inputs)
    expected = expected_of(mixed, 6)
    assert [text.decode() if isinstance(text, bytes) else text for text in found.as_numpy("predict")] == expected[
        "prediction"
    ].to_list()
    np.testing.assert_allclose(
        found.as_numpy("probabilities"), expected.select("p_no", "p_yes").to_numpy(), rtol=0, atol=1e-6
    )
    client.close()


def test_a_client_of_triton_sends_one_array(numeric, numbers):
    http = pytest.importorskip("tritonclient.http", reason="needs tritonclient: pip install 'tritonclient[http]'")
    client = http.InferenceServerClient(numeric.address.removeprefix("http://"))
    X = np.array([[row[f"x{number}"] for number in range(4)] for row in numbers.rows[:9]])
    tensor = http.InferInput("input", list(X.shape), "FP64")
    tensor.set_data_from_numpy(X)
    found = client.infer("credit", [tensor], outputs=[http.InferRequestedOutput("ratio", binary_data=False)])
    np.testing.assert_allclose(found.as_numpy("ratio"), expected_of(numbers, 9)["ratio"].to_numpy(), atol=1e-6)
    assert found.as_numpy("predict") is None
    client.close()


@pytest.fixture
def triton(numeric):
    http = pytest.importorskip("tritonclient.http", reason="needs tritonclient: pip install 'tritonclient[http]'")
    client = http.InferenceServerClient(numeric.address.removeprefix("http://"))
    yield http, client
    client.close()


def test_a_client_of_triton_can_read_what_was_refused(triton):
    """Its exception shows our sentence: the protocol has errors of its own shape."""
    http, client = triton
    tensor = http.InferInput("x0", [2], "FP64")
    tensor.set_data_from_numpy(np.zeros(2))
    with pytest.raises(http.InferenceServerException, match="column 'x1'"):
        client.infer("credit", [tensor])
    with pytest.raises(http.InferenceServerException, match="one model here"):
        client.get_model_metadata("other")
    with pytest.raises(http.InferenceServerException, match="address"):
        client.get_model_config("credit")


@pytest.mark.parametrize("packing", ["gzip", "deflate"])
def test_a_client_of_triton_may_pack_its_request(triton, numbers, packing):
    http, client = triton
    X = np.array([[row[f"x{number}"] for number in range(4)] for row in numbers.rows[:9]])
    tensor = http.InferInput("input", list(X.shape), "FP64")
    tensor.set_data_from_numpy(X)
    found = client.infer("credit", [tensor], request_compression_algorithm=packing)
    np.testing.assert_allclose(found.as_numpy("ratio"), expected_of(numbers, 9)["ratio"].to_numpy(), atol=1e-6)


def test_versions_and_names(server):
    assert server.client.get("/v2").json()["name"] == "accous"
    assert server.client.get("/v2/models/credit/versions/1").json()["versions"] == ["1"]
    assert server.client.get("/v2/models/credit/versions/1/ready").status_code == 200
    for path in ("/v2/models/other", "/v2/models/credit/versions/2", "/v2/models/other/ready", "/v2/models/credit/x"):
        assert server.client.get(path).status_code == 404, path


@pytest.mark.parametrize(
    "change",
    [
        {"shape": [3]},
        {"shape": [2, 2]},
        {"shape": [-1]},
        {"shape": []},
        {"datatype": "COMPLEX"},
        {"data": None},
        {"data": [{}, 1]},
        {"parameters": {"binary_data_size": 100}},
        {"name": "nothing"},
    ],
)
def test_tensors_that_cannot_be_used(numeric, change):
    inputs = [{"name": f"x{number}", "shape": [2], "datatype": "FP64", "data": [0.5, 1]} for number in range(4)]
    inputs[1] = inputs[1] | change
    answer = numeric.post("/v2/models/credit/infer", {"inputs": inputs})
    assert answer.status_code == 422, answer.text
    assert isinstance(answer.json()["error"], str)


def test_the_forms_of_mlflow(server, mixed):
    expected = expected_of(mixed, 4)["prediction"].to_list()
    rows = rows_of(mixed, 4)
    names = list(rows[0])
    used = ["x0", "x1", "x2", "x3", "colour", "day"]
    forms = [
        {"dataframe_records": rows},
        {"dataframe_split": {"columns": names, "data": [list(row.values()) for row in rows], "index": [0, 1, 2, 3]}},
        {"instances": rows},
        {"instances": [[row[name] for name in used] for row in rows]},
        {"inputs": {name: [row[name] for row in rows] for name in names}},
    ]
    for form in forms:
        answer = server.post("/invocations", form)
        assert (answer.status_code, answer.json()) == (200, {"predictions": expected}), form
    content = pl.DataFrame(rows, infer_schema_length=None).write_csv()
    answer = server.client.post("/invocations", content=content, headers={"content-type": "text/csv"})
    assert answer.json() == {"predictions": expected}
    assert server.client.get("/ping").status_code == 200


@pytest.mark.parametrize(
    "form",
    [
        {},
        {"instances": [], "inputs": {}},
        {"instances": [[1, 2]]},
        {"inputs": {"x0": [1], "x1": [1, 2]}},
        {"dataframe_split": {"columns": ["x0"], "data": [[1, 2]]}},
        {"dataframe_split": {"columns": ["x0"], "data": [[1]]}},
    ],
)
def test_forms_that_cannot_be_used(server, form):
    assert server.post("/invocations", form).status_code == 422
