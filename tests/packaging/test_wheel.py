"""What is declared to pip, and what the wheel holds."""

import re
import tomllib
import zipfile

import pytest

from tests.packaging.wheels import ROOT, build, foreign_files, metadata_of, missing_files

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
CORE = {"numba", "numpy", "scikit-learn", "scipy", "threadpoolctl"}
EXTRAS = {
    "cli": {"polars", "pooch[progress]", "rich", "typer"},
    "dask": {"distributed"},
    "plot": {"matplotlib"},
    "river": {"river"},
    "serve": {
        "accous[cli]", "h11", "msgspec", "prometheus-client", "starlette", "uvicorn", "uvloop; sys_platform != 'win32'",
    },
    "spark": {"accous[cli]", "pandas", "protobuf", "pyarrow", "pyspark"},
    "all": {"accous[cli,dask,plot,river,serve]"},
}  # fmt: skip


def names_of(requirements: list[str]) -> set[str]:
    """Requirements without their versions, of which only lower bounds are allowed."""
    assert all(
        re.fullmatch(r"[\w.,\[\]-]+(>=[\d.]+)?(; sys_platform != 'win32')?", requirement)
        for requirement in requirements
    ), requirements
    return {requirement.partition(">=")[0] for requirement in requirements}


def test_what_is_declared():
    extras = PROJECT["optional-dependencies"]
    assert names_of(PROJECT["dependencies"]) == CORE
    assert {extra: names_of(extras[extra]) for extra in EXTRAS} == EXTRAS
    # Development builds on all, and brings no torch.
    assert {"accous[all]", "build", "hatchling", "twine"} <= names_of(extras["dev"])
    assert "torch" not in names_of(extras["dev"])
    # The command is guarded against a missing extra.
    assert PROJECT["scripts"] == {"accous": "accous.__main__:main"}


def test_addresses_are_those_of_the_citation_and_no_others():
    """No address is invented: a repository has one in both places or in none."""
    citation = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert f'url: "{PROJECT["urls"]["Paper"]}"' in citation
    repository = re.search(r'^repository-code: "(.+)"', citation, re.MULTILINE)
    assert PROJECT["urls"].get("Repository") == (repository and repository[1])
    assert all(address.startswith("https://") for address in PROJECT["urls"].values())


def test_the_benchmark_is_a_distribution_of_its_own_that_adds_a_command(tmp_path):
    for tool in ("build", "hatchling"):
        pytest.importorskip(tool, reason="needs build and hatchling: pip install 'accous[dev]'")
    (wheel,) = build(tmp_path, "--wheel", package="accous_bench")
    assert missing_files(wheel, "accous_bench") == []
    assert foreign_files(wheel, "accous_bench") == []
    metadata = metadata_of(wheel)
    assert metadata["Version"] == PROJECT["version"]
    assert set(metadata.get_all("Provides-Extra")) == {"deep"}
    with zipfile.ZipFile(wheel) as archive:
        name = next(name for name in archive.namelist() if name.endswith("entry_points.txt"))
        assert "[accous.commands]\nbench = accous_bench.commands:bench" in archive.read(name).decode()


def test_the_wheel_holds_the_package_and_the_licence(tmp_path):
    for tool in ("build", "hatchling"):
        pytest.importorskip(tool, reason="needs build and hatchling: pip install 'accous[dev]'")
    (wheel,) = build(tmp_path, "--wheel")
    assert missing_files(wheel) == []
    assert foreign_files(wheel) == []
    metadata = metadata_of(wheel)
    assert metadata["License-Expression"] == "BSD-3-Clause"
    assert metadata["License-File"] == "LICENSE"
    assert metadata["Requires-Python"] == ">=3.11"
    assert metadata.get_all("Project-URL") == [f"{name}, {url}" for name, url in PROJECT["urls"].items()]
    assert metadata["Description-Content-Type"] == "text/markdown"
    assert set(metadata.get_all("Provides-Extra")) == {*EXTRAS, "deep", "dev", "docs"}
    assert {name for name in metadata.get_all("Requires-Dist") if "extra ==" not in name} == {
        *(CORE - {"scikit-learn"}), "scikit-learn>=1.6",
    }  # fmt: skip
    versions = [line.rpartition(" ")[2] for line in metadata.get_all("Classifier") if "Python :: 3." in line]
    assert versions == ["3.11", "3.12", "3.13"]


def test_a_release_has_one_version_everywhere():
    version = PROJECT["version"]
    bench = tomllib.loads((ROOT / "bench" / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert bench["version"] == version
    assert f"\nversion: {version}\n" in (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert f"\n## [{version}] - " in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
