"""Console blocks of README and of the pages at the top of `docs/` run, or are listed with a reason."""

import textwrap

import pytest

from tests.docs_left_out import COMMANDS_LEFT_OUT, PAGES_LEFT_OUT, SLOW_COMMANDS
from tests.docs_pages import FENCE, GUIDES, ROOT, SESSIONS, name_of
from tests.docs_sessions import Session, bare, steps_of
from tests.docs_tables import write_tables

SHELLS = {"bash", "console", "sh", "shell", "shell-session", "zsh"}


def commands_of(page):
    """Every command of the page's console blocks, without remarks."""
    fences = FENCE.finditer(page.read_text(encoding="utf-8"))
    blocks = [textwrap.dedent(fence["code"]) for fence in fences if fence["language"] == "console"]
    return [bare(command) for block in blocks for command, _ in steps_of(block)]


RUN = [
    page
    for page in GUIDES
    if page not in PAGES_LEFT_OUT and set(commands_of(page)) - set(COMMANDS_LEFT_OUT.get(page, ()))
]


@pytest.mark.parametrize("page", RUN, ids=name_of)
def test_commands_work_as_written(page, tmp_path, forks):
    write_tables(tmp_path)
    left_out = {*COMMANDS_LEFT_OUT.get(page, ()), *SLOW_COMMANDS}
    Session(page, tmp_path, forks, left_out).run(["console"])


@pytest.mark.slow
@pytest.mark.parametrize("command", sorted(SLOW_COMMANDS))
def test_slow_commands_work_as_written(command, tmp_path, forks):
    page = tmp_path / "page.md"
    page.write_text(f"```console\n$ {command}\n```\n")
    Session(page, tmp_path, forks).run()


def test_what_is_left_out_is_on_its_page():
    for page, commands in COMMANDS_LEFT_OUT.items():
        assert set(commands) <= set(commands_of(page)), name_of(page)
    assert all(commands_of(page) for page in PAGES_LEFT_OUT)
    assert {command for page in GUIDES for command in commands_of(page)} >= SLOW_COMMANDS


def test_no_block_is_left_out_elsewhere():
    """A mark on a page at the top would leave out a block without a reason; another language would, too."""
    for page in GUIDES:
        for fence in FENCE.finditer(page.read_text(encoding="utf-8")):
            if fence["language"] in SHELLS and page not in PAGES_LEFT_OUT:
                assert fence["language"] == "console", name_of(page)
                assert fence["word"] != "no-test", name_of(page)
                assert fence["code"].lstrip().startswith("$ "), name_of(page)


def test_where_a_page_promises_silence_it_is_heard():
    promises = [page for page in SESSIONS if "prints nothing" in FENCE.sub("", page.read_text(encoding="utf-8"))]
    assert [name_of(page) for page in promises] == ["docs/tutorials/late_labels.md"]
    assert all("<!-- prints nothing -->" in page.read_text(encoding="utf-8") for page in promises)


def test_a_loud_command_breaks_the_promise(tmp_path, forks):
    page = tmp_path / "page.md"
    page.write_text("<!-- prints nothing -->\n```console\n$ accous --version\n```\n")
    with pytest.raises(AssertionError):
        Session(page, tmp_path, forks).run()


def test_the_reader_of_commands_finds_them():
    assert "make demo" in commands_of(ROOT / "README.md")
    assert bare("accous fit a.csv   # decide") == "accous fit a.csv"
