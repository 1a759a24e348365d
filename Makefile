# `make` lists what there is. Everything is installed into .venv, and only there.

PORT ?= 5006
ADDRESS ?= 127.0.0.1
WORKERS ?=
DASK ?=
LIMIT ?=
TRAININGS ?=
ORIGIN ?=
FRAMES ?=
PROBLEM ?=
TOUR ?=
PYTHON ?=
TORCH ?= torch==2.13.0
PIP_TORCH_ARGS ?=
PYTEST_ARGS ?=
CONSTRAINTS ?= constraints.txt
FOLDER ?= static

EXTRAS := [test,notebooks,docs]
# Models written elsewhere; a comma would end an argument of `call`.
MODELS := [pymc,numpyro]
VENV := .venv
BIN := $(VENV)/bin
# The constraints for this environment: PyTorch's version in them is that of TORCH, with its build.
VERSIONS := $(VENV)/constraints.txt
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint $(VERSIONS)
UV := $(BIN)/uv pip install --quiet --compile-bytecode --python $(BIN)/python --constraint $(VERSIONS) \
    --build-constraint $(VERSIONS)
# uv takes a fifth of pip's time; where it is missing or fails, pip does the same.
install = if [ -x $(BIN)/uv ] && $(UV) $(1); then :; \
    else echo "  with pip, since uv could not"; $(PIP) $(1); fi

.DEFAULT_GOAL := help
.PHONY: help install serve static figures test test-all lint clean browser docs notebooks constraints

help:
	@echo "make serve   install, start the dashboard (PORT=$(PORT) ADDRESS=$(ADDRESS))"
	@echo "             WORKERS=2: processes that compute; DASK=tcp://...: Dask's workers instead"
	@echo "             LIMIT=60: seconds of computing that a visitor may ask for at once"
	@echo "             TRAININGS=2: trainings at a time, of all visitors together"
	@echo "             ORIGIN=name:port: a name that the page has elsewhere, such as a proxy's"
	@echo "             FRAMES=https://course.example: sites that may embed the page; by default all"
	@echo "             TOUR=my_tour.toml: a tour of your own"
	@echo "             PROBLEM=my_problem.py: problems of your own; my_problem.py=made: a folder of proposals"
	@echo "make static  write a page that needs no server into static/ (FOLDER=elsewhere)"
	@echo "make figures  the paper's figures, as SVG and PDF, with their data, into runs/figures (OUT=elsewhere)"
	@echo "             NAMES=fig1: one of them; QUICK=1: a try in minutes; WORKERS=2: processes"
	@echo "make test    install, lint, run the tests but the slow (PYTEST_ARGS='-k name' for some of them)"
	@echo "make test-all  the same with the slow tests: before a merge or a release"
	@echo "make lint    check style, formatting, types and which module imports which"
	@echo "make docs    build the documentation into site/, fail on warnings"
	@echo "make notebooks  open the notebooks in JupyterLab"
	@echo "make install install what the dashboard needs, start nothing"
	@echo "make constraints  write the installed versions to constraints.txt, once they are tested"
	@echo "make clean   remove the environment, caches and build output"
	@echo
	@echo "PYTHON=python3.12      the interpreter to use (3.11 or newer)"
	@echo "TORCH=torch==2.13.0    the PyTorch to install"
	@echo "PIP_TORCH_ARGS=...     options for that, such as the index of the CPU build"
	@echo "CONSTRAINTS=           the newest versions that pyproject.toml allows, not the tested ones"

install: $(VENV)/.installed
	@echo "Everything is installed in $(VENV)"

serve: $(VENV)/.installed
	@$(BIN)/python -m amci_explorer.server.serve --port "$(PORT)" --address "$(ADDRESS)" \
	    $(if $(WORKERS),--workers "$(WORKERS)") $(if $(DASK),--dask "$(DASK)") \
	    $(if $(ORIGIN),--origin "$(ORIGIN)") \
	    $(if $(FRAMES),--frames "$(FRAMES)") $(if $(LIMIT),--seconds "$(LIMIT)") \
	    $(if $(TRAININGS),--trainings "$(TRAININGS)") $(if $(TOUR),--tour "$(TOUR)") \
	    $(foreach file,$(PROBLEM),--problem "$(file)")

static: $(VENV)/.installed
	@$(BIN)/python -m amci_explorer.static "$(FOLDER)"

figures: $(VENV)/.installed
	@$(BIN)/python -m benchmarks.paper $(or $(NAMES),all) --out "$(or $(OUT),runs/figures)" \
	    $(if $(QUICK),--quick) $(if $(WORKERS),--workers "$(WORKERS)") $(if $(DASK),--dask "$(DASK)")

test: lint browser
	@echo "Running the tests but the slow"
	@$(BIN)/python -m pytest -m "not slow" --durations=20 $(PYTEST_ARGS)

test-all: lint browser $(VENV)/.installed-models
	@echo "Running all tests"
	@$(BIN)/python -m pytest --durations=20 $(PYTEST_ARGS)

lint: $(VENV)/.installed-test
	@echo "Checking style, formatting, types and imports"
	@$(BIN)/python -m ruff check --quiet .
	@$(BIN)/python -m ruff format --check --quiet .
	@$(BIN)/python -m mypy
	@$(BIN)/lint-imports --no-logo

browser: $(VENV)/.installed-test
	@$(BIN)/python tests/install_browser.py

docs: $(VENV)/.installed-test
	@NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict --quiet --config-file docs/mkdocs/mkdocs.yml
	@echo "The documentation is in site/index.html"

notebooks: $(VENV)/.installed-test
	@$(BIN)/python -m jupyterlab notebooks $(if $(filter 0,$(shell id -u)),--allow-root)

clean:
	@echo "Removing the environment, caches and build output"
	@rm -rf $(VENV) build dist site *.egg-info .pytest_cache .mypy_cache .ruff_cache
	@rm -rf $(dir $(wildcard static/made-by-amci-explorer.txt))
	@find amci_core app tests -type d -name __pycache__ -prune -exec rm -rf {} +

# Without build tags such as +cpu, which not every machine has.
constraints: $(VENV)/.installed-test
	@$(BIN)/python -m pip freeze --all --exclude pip --exclude-editable > $(VENV)/frozen.txt
	@sed 's/+.*//' $(VENV)/frozen.txt > constraints.txt
	@echo "constraints.txt has $$(wc -l < constraints.txt) versions"

# PyTorch goes first and by exact version: a looser request can bring gigabytes of GPU libraries.
# pip installs it, because only pip knows where this machine keeps a build of its own.
$(VENV)/.installed: $(VENV)/.created pyproject.toml $(wildcard $(CONSTRAINTS))
	@sed '/^torch==/d' $(or $(CONSTRAINTS),/dev/null) > $(VERSIONS)
	@echo "Installing PyTorch"
	@$(PIP) --no-deps $(PIP_TORCH_ARGS) "$(TORCH)"
	@$(BIN)/python -c 'from importlib.metadata import version as v; print("torch==" + v("torch"))' \
	    >> $(VERSIONS)
	@echo "Installing AMCI Explorer and what it needs"
	@$(PIP) uv || echo "  uv cannot be installed; pip is slower and installs the same"
	@$(call install,--editable .)
	@touch $@

$(VENV)/.installed-test: $(VENV)/.installed
	@echo "Installing the test tools"
	@$(call install,--editable ".$(EXTRAS)")
	@touch $@

$(VENV)/.installed-models: $(VENV)/.installed-test
	@echo "Installing PyMC and NumPyro"
	@$(call install,--editable ".$(MODELS)")
	@touch $@

$(VENV)/.created:
	@python=; \
	for candidate in $(or $(PYTHON),python3 python3.13 python3.12 python3.11 python); do \
	    if $$candidate -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; \
	    then python=$$candidate; break; fi; \
	done; \
	if [ -z "$$python" ]; then \
	    echo "Python 3.11 or newer is needed$(if $(PYTHON), and '$(PYTHON)' is not that)." \
	         "Install it, or name it: make PYTHON=/path/to/python3.12" >&2; exit 1; \
	fi; \
	if ! $$python -c 'import venv, ensurepip' 2>/dev/null; then \
	    echo "$$python cannot make virtual environments." \
	         "On Debian and Ubuntu: apt-get install python3-venv" >&2; exit 1; \
	fi; \
	echo "Creating $(VENV) with $$($$python --version)"; \
	$$python -m venv $(VENV)
	@touch $@
