"""The texts of the service: what it says to requests that it refuses."""

from tests.service.servers import serving

CSV, JSON = "text/csv", "application/json"
REQUESTS = [
    ("/v1/predict", JSON, b'{"rows": [{"x0": 1}]}'),
    ("/v1/predict", JSON, b'{"rows": [{"x0": "high", "x1": 1, "x2": 1, "x3": 1}]}'),
    ("/v1/predict?inlude=ratio", CSV, b""),
    ("/v1/predict?include=rato", CSV, b"x0,x1,x2,x3\n1,2,3,4\n"),
    ("/v1/predict?include=ratio", JSON, b'{"rows": []}'),
    ("/v1/predict", CSV, b"x0,x1,x2,x3\n1,2,3\n"),
    ("/v1/predict", CSV, b"x0,x1,x2,x3,x0\n1,2,3,4,5\n"),
    ("/v1/predict", "application/xml", b"<rows/>"),
    ("/v1/nowhere", JSON, b"{}"),
    ("/v2/models/other/infer", JSON, b"{}"),
]
TEXTS = """
422 wrong_columns: The request has no column 'x1', 'x2', 'x3', which the model was fitted with: it has 'x0'. Add them, empty where their values are not known, or fit a model without them (accous fit --drop x1,x2,x3).
422 bad_value: Row 0 (counted from 0), column 'x0': 'high' is not a number; fix or remove the row.
422 invalid: The address has the parameter 'inlude': use include, alpha, key.
422 invalid: include has 'rato': use words of ids, probabilities, ratio, sets.
422 invalid: The address has the parameter 'include': with JSON, put include, alpha and key beside the rows.
400 malformed_csv: Line 2 of the table has 3 fields, and the header has 4.
422 wrong_columns: The table has the column 'x0' twice.
415 unsupported_content_type: The header Content-Type is 'application/xml': use application/json or text/csv or application/vnd.apache.arrow.stream.
404 not_found: There is nothing at this address; /docs lists what there is.
404 There is one model here, 'model'.
"""  # noqa: E501


def test_what_is_refused_is_said_in_these_words(forks, numbers, tmp_path):
    said = []
    with serving(forks, numbers.copy(tmp_path / "model")) as server:
        for path, kind, content in REQUESTS:
            answer = server.client.post(path, content=content, headers={"content-type": kind})
            found = answer.json().get("error", answer.json())
            words = found if isinstance(found, str) else f"{found.get('code')}: {found.get('message')}"
            said.append(f"{answer.status_code} {words}")
    assert "\n".join(said) == TEXTS.strip()
