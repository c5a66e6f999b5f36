"""Tutorials and how-to pages work as written, in an empty folder."""

import pytest

from accous_bench import contenders
from tests.docs_pages import SESSIONS, name_of
from tests.docs_sessions import Session, assert_prints

NEED_PACKAGE = {"deploy.md": "uvicorn", "images.md": "efficientnet_lite_pytorch"}
SLOW = {"deploy.md", "images.md", "late_labels.md", "own_contender.md", "pipeline.md", "table.md"}


def session_params():  # pages that take more than a few seconds of processor time are slow
    for page in SESSIONS:
        yield pytest.param(page, id=name_of(page), marks=[pytest.mark.slow] if page.name in SLOW else [])


@pytest.mark.parametrize("page", list(session_params()))
def test_page_works_as_written(page, tmp_path, forks, monkeypatch):
    if page.name in NEED_PACKAGE:
        pytest.importorskip(NEED_PACKAGE[page.name], reason="needs what the page uses: pip install 'accous[dev]'")
    monkeypatch.setattr(contenders, "_CONTENDERS", dict(contenders._CONTENDERS))  # a block may register one
    Session(page, tmp_path, forks).run()


PAGE = """\
Take [a script](tool.py).

```python
print("one", 1.25)
```

<!-- output -->
```text
one 1.26
```

```toml
# settings.toml
a = 1
```

```console
$ cat settings.toml   # as above
# settings.toml
...
$ accous --version
accous ...
```

<!-- exit code 2 -->
```console
$ accous fit
accous: Missing argument ...
```

<!-- no-test -->
```console
$ exit 1
```
"""


@pytest.fixture
def page(tmp_path):
    (tmp_path / "tool.py").write_text("pass")
    path = tmp_path / "page.md"
    path.write_text(PAGE)
    return path


def test_a_session_runs_everything_in_order(page, tmp_path, forks):
    folder = tmp_path / "empty"
    folder.mkdir()
    session = Session(page, folder, forks)
    session.run()
    assert session.n_blocks == 5
    assert (folder / "tool.py").exists()


@pytest.mark.parametrize(("old", "new"), [("one 1.26", "one 1.36"), ("accous ...", "river ..."), ("code 2", "code 1")])
def test_a_session_fails_where_the_page_is_wrong(old, new, page, tmp_path, forks):
    page.write_text(PAGE.replace(old, new).replace("(tool.py)", "(#below)"))
    with pytest.raises(AssertionError):
        Session(page, tmp_path, forks).run()


@pytest.mark.parametrize(
    ("printed", "expected"),
    [
        ("10,000 rows, error 27.3%", "10,000 rows, error 27.2%"),
        ("a\n  b\nc", "a b c"),
        ("a\nmany lines\nb", "a\n...\nb"),
        ("0.123456", "0.1235"),
    ],
)
def test_what_counts_as_the_same(printed, expected):
    assert_prints(printed, expected)


@pytest.mark.parametrize(
    ("printed", "expected"),
    [("10,001 rows", "10,000 rows"), ("error 27.3%", "error 26.3%"), ("a b", "a c"), ("a b c", "a b")],
)
def test_what_counts_as_different(printed, expected):
    with pytest.raises(AssertionError):
        assert_prints(printed, expected)
