# mhbench: repro | test | test-whole | lab | export | readers | bench | readme | hooks | clean
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DELETE_ON_ERROR:
.PHONY: docs outputs repro test lab bench readme clean data data-update golden readers replication export hooks test-form test-fast test-whole licences advisories audit mutants

PYTHON ?= python3
BIN := .venv/bin
READY := .venv/.installed
export PYTHONHASHSEED := 0
export TOKENIZERS_PARALLELISM := false
export DVC_NO_ANALYTICS := 1
# DVC keeps pickles in a folder that every user of the machine may write, if not told otherwise (CVE-2025-69872).
export DVC_SITE_CACHE_DIR := $(CURDIR)/.mhbench/dvc
export PATH := $(CURDIR)/.venv/bin:$(PATH)

# Narrow a run: make repro STUDIES=mhqa ITEMS=200 (see README). Nothing given: run.yaml as it stands.
STUDIES ?=
MODELS ?=
ITEMS ?=
STAGE ?=
NB ?=

# Another index for torch: https://download.pytorch.org/whl/cpu has the build without CUDA, 2.3 GB in all and not 6.6.
TORCH_INDEX ?=
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check

# What is installed is up to date where the stamp is that of these files in this folder, whatever their times are.
STAMP := $(shell cat requirements.txt pyproject.toml | cksum) $(CURDIR)
ifneq ($(shell cat $(READY) 2>/dev/null),$(STAMP))
.PHONY: $(READY)
endif

$(READY):
	@$(PYTHON) -c 'import sys; sys.exit(0 if (3, 11) <= sys.version_info[:2] <= (3, 13) else "the pinned packages need Python 3.11, 3.12 or 3.13; this is %s. Say make PYTHON=python3.11" % sys.version.split()[0])'
	@if test -L .venv; then echo "make: .venv must be a folder of this clone; got a link to $$(readlink .venv), whose package would be changed; remove the link" >&2; exit 1; fi
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	@echo "some 310 packages, 2.3 GB (6.6 GB with CUDA): pip is silent for some minutes"
	$(PIP) $(if $(TORCH_INDEX),--extra-index-url $(TORCH_INDEX)) -r requirements.txt
	$(PIP) --no-deps --no-build-isolation -e .
	@echo "$(STAMP)" > $(READY)

data: $(READY)  ## bring the bundled demo banks
	@install -d -m 700 .mhbench .mhbench/dvc
	$(BIN)/dvc pull --quiet data.dvc

repro: data  ## run every stage that is out of date, then print the tables
	$(BIN)/mhbench select $(if $(STUDIES),--studies "$(STUDIES)") $(if $(MODELS),--models "$(MODELS)") $(if $(ITEMS),--items "$(ITEMS)")
	$(BIN)/dvc repro
	$(BIN)/mhbench ledger --front reports/index.html
	$(if $(STUDIES)$(MODELS),,$(BIN)/mhbench cache verify gemma)
	$(BIN)/mhbench summary

WRITE ?=
WORKERS := $(shell env -u OMP_NUM_THREADS nproc 2>/dev/null || echo 2)

PYTEST := OMP_NUM_THREADS=1 HF_HUB_OFFLINE=1 $(BIN)/python -m pytest -n $(WORKERS) --dist loadfile --no-loadscope-reorder

test: data  ## the parts form and fast, as many tests at a time as there are cores
	$(PYTEST) -m "form or fast"

test-form: data  ## the repository about itself: structure, style, pages, names, the form of notebooks
	$(PYTEST) -m form

test-fast: data  ## every notebook, and the units
	$(PYTEST) -m fast

SELECTED ?=

test-whole: data .venv/.compared  ## replications (of the files in MHBENCH_DATASETS), pipeline, coverage, browser, servers, wheel, site; SELECTED=--lf: those that failed
	$(PYTEST) -m whole $(SELECTED)

.venv/.compared: tests/requirements.txt $(READY)
	$(PIP) -r tests/requirements.txt -c requirements.txt
	@touch $@

data-update: $(READY)  ## after a change of a demo bank: copy the banks, add them to DVC, push them to the bundled remote
	rm -rf data
	$(BIN)/python -c "import shutil, pathlib; from mhbench.corpus.demo import demo_files; [(pathlib.Path('data', n).parent.mkdir(parents=True, exist_ok=True), shutil.copy(p, pathlib.Path('data', n))) for n, p in demo_files().items()]"
	$(BIN)/dvc add --quiet data
	$(BIN)/dvc push --quiet data.dvc

golden: repro  ## run the demo and compare its numbers with tests/golden; WRITE=1: make these files again
	$(BIN)/python tests/golden_tables.py results $(if $(WRITE),--write)

readers: data  ## the demo's executed notebooks and its page, for readers who run nothing; STAGE=score: one stage's alone
	$(BIN)/dvc repro $(if $(STAGE),--single-item inputs $(STAGE))
	$(BIN)/mhbench publish $(STAGE)
	$(BIN)/mhbench ledger --front reports/index.html

replication: $(READY)  ## reports/replication, its ledger and the first page, made again from the authors' files in DATASETS=folder (a folder a study)
	for study in mentat counselingbench mhqa; do \
	  $(BIN)/mhbench replicate $$study $(if $(DATASETS),--from $(DATASETS)/$$study) --publish reports/replication || exit 1; \
	done
	$(BIN)/mhbench ledger --to reports/ledger.html
	$(BIN)/mhbench ledger --front reports/index.html

outputs: $(READY)  ## what module notebooks show, stored in those that have no outputs; the site shows stored outputs
	$(BIN)/python docs/outputs.py
	$(BIN)/nbdev_clean

docs: $(READY)  ## the documentation as a site: _docs/html/index.html; NB=nbs/x/NN.ipynb: the page of one notebook
	$(BIN)/python docs/build.py $(NB)

lab: data
	$(BIN)/jupyter lab nbs

bench: $(READY)  ## every speed claim that needs nothing from outside; benchmarks/client.py says what it needs
	for f in benchmarks/*.py; do case $$f in benchmarks/client*) continue;; esac; echo "== $$f"; $(BIN)/python $$f; done

export: $(READY)  ## after editing notebooks: the package, and what is made of the parameters; NB=nbs/x/NN.ipynb: one module alone
ifneq ($(NB),)
	$(BIN)/nbdev_clean --fname $(NB)
	$(BIN)/ruff format --quiet $(NB)
	$(BIN)/nbdev_export --path $(NB)
else
	$(BIN)/nbdev_clean
	$(BIN)/ruff format --quiet nbs tests benchmarks
	$(BIN)/nbdev_export
	$(BIN)/python -c "from mhbench.run.shape import write_schema; write_schema('params.schema.json')"
endif

hooks: $(READY)  ## have git check params.yaml, and export, before every commit
	git config core.hooksPath .githooks

licences: $(READY)  ## what every pinned requirement says of its licence
	$(BIN)/python tests/check_licences.py

advisories: $(READY)  ## known advisories on the pinned requirements, as far as tests/advisories.tsv has them; no network
	$(BIN)/python tests/check_advisories.py

audit: $(READY)  ## all known advisories; asks a service on the network, and needs `pip install pip-audit`
	$(BIN)/python tests/check_advisories.py --audit

MODULE ?=
SAMPLE ?= 20
SEED ?= 1
mutants: data  ## faults that no notebook, test or stage notices, after make repro: make mutants MODULE="stats/metrics stages/panel"
	$(BIN)/python tests/mutants.py --sample $(SAMPLE) --seed $(SEED) $(MODULE)

readme: export  ## README.md from nbs/index.ipynb
	$(BIN)/python tests/check_readme.py --write

clean:  ## what builds and tests leave behind; the environment, the data and the cached answers stay
	rm -rf build dist *.egg-info .pytest_cache .hypothesis _proc _docs
	find . -name __pycache__ -not -path './.venv/*' -prune -exec rm -rf {} +
	find . -name .ipynb_checkpoints -not -path './.venv/*' -prune -exec rm -rf {} +
