# Two commands do everything on a machine with Python 3.11 or later: `make demo` and `make test`.

PYTHON ?= $(shell for python in python3 python3.13 python3.12 python3.11; do \
	$$python -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null \
	&& echo $$python && break; done)
VENV ?= .venv
BIN := $(VENV)/bin
NEWEST := .venv-newest
NEWER_PYTHON ?= $(shell for python in python3.12 python3.13 \
	$${PYENV_ROOT:-$$HOME/.pyenv}/versions/3.12.*/bin/python $${PYENV_ROOT:-$$HOME/.pyenv}/versions/3.13.*/bin/python; do \
	$$python -c 'import ensurepip, sys; sys.exit(sys.version_info < (3, 12))' 2>/dev/null \
	&& echo $$python && break; done)
DEMO := demo-output/$(shell date +%Y%m%d-%H%M%S)

# What depends on the version of JAX, of its compiler or of libtpu; the choices find what ends a newer XLA.
NEWEST_TESTS := $(patsubst %,tests/compile/test_%.py,compiler function inputs prediction pool tpu_compile) \
	tests/tune/space/test_space_compiles.py \
	$(wildcard tests/workflow/test_predict*.py tests/cli/test_predict*.py)
# Test modules are compiled once, also where the site keeps Python from writing that down.
export PYTHONDONTWRITEBYTECODE :=
WORKERS ?= 3  # tests of one process keep a core busy each, and few wait
SYSTEM_WORKERS ?= 4  # many of these wait for processes: four keep two cores busy
PYTEST := -m pytest --dist worksteal
# pyproject.toml says what the markers mean.
FIRST_TIER := -m 'smoke or not (system or deep)'
SYSTEM_TIER := -m 'system and not (smoke or deep)'

.PHONY: help demo test test-system test-deep newest trainers lint web web-check golden budget fuzz fuzz-guided growth docs docs-site tutorial tools clean lock
.DEFAULT_GOAL := help

help: ## this list
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1\t\2/p' Makefile

demo: $(VENV)/installed-all ## explain a step recorded on 8 virtual devices; predict one for 8 and 512 GPUs
	@mkdir -p $(DEMO)
	$(BIN)/python examples/sharded_step.py --profile $(DEMO)
	$(BIN)/counterpoint explain $(DEMO)
	$(BIN)/counterpoint predict examples/llama.py:make_step --target 8xH100 --top 5
	$(BIN)/counterpoint predict examples/llama.py:make_step --target 64x8xH100:8x400G --top 5 \
		--candidate fsdp --candidate combine-1GiB --candidate pgle-recommended

# Everything runs even when something fails, so that one look at the log shows all there is to mend;
# pytest comes last, and its summary ends the log.
test: $(VENV)/installed-all-dev ## the first tier: lint, types, layers and most tests (8 minutes); needs nothing but Python
	@lint=0; $(MAKE) --no-print-directory lint || lint=$$?; \
	echo "== pytest"; \
	$(BIN)/python $(PYTEST) -n $(WORKERS) $(FIRST_TIER) --junitxml=build/tests/first.xml || exit $$?; \
	[ $$lint -eq 0 ] || { echo "error: the tests pass, but lint, types or layers do not (above)" >&2; exit 1; }

test-system: $(VENV)/installed-all-dev ## the second tier: compilers, clusters, the browser, trainers (25 minutes)
	@$(BIN)/python tests/prerequisites.py $(NEWER_PYTHON); failed=; \
	for part in web-check docs-site budget fuzz newest; do \
		$(MAKE) --no-print-directory $$part || failed="$$failed $$part"; \
	done; \
	echo "== trainers: MaxText, Tunix and frameworks"; \
	export COUNTERPOINT_MAXTEXT="$$(tests/install_trainer.sh maxtext)"; \
	export COUNTERPOINT_FRAMEWORKS="$$(tests/install_trainer.sh frameworks)"; \
	echo "== pytest"; \
	$(BIN)/python $(PYTEST) -n $(SYSTEM_WORKERS) $(SYSTEM_TIER) --junitxml=build/tests/system.xml || exit $$?; \
	[ -z "$$failed" ] || { echo "error: the tests pass, but not$$failed (above)" >&2; exit 1; }

test-deep: $(VENV)/installed-all-dev ## the third tier: 500 examples per property, growth, an hour of fuzzing, all trainers (hours)
	@failed=; \
	for part in growth trainers "fuzz MINUTES=60"; do \
		$(MAKE) --no-print-directory $$part || failed="$$failed $$part,"; \
	done; \
	echo "== pytest"; \
	HYPOTHESIS_PROFILE=deep $(BIN)/python $(PYTEST) -n $(WORKERS) -m 'deep or not system' || exit $$?; \
	[ -z "$$failed" ] || { echo "error: the tests pass, but not$$failed (above)" >&2; exit 1; }

# JAX drops Pythons sooner than Counterpoint does, so beside the oldest Python there is an older JAX,
# and the newest one's compiler is tested in an environment of its own; so is libtpu's, for each generation.
newest: $(VENV)/installed-all-dev ## the compiler's tests with the newest JAX, where a newer Python is found
	@if $(BIN)/python -c 'import sys; sys.exit(sys.version_info < (3, 12))'; then \
		echo "== the newest JAX: skipped, since $(VENV) has it"; \
	elif [ -z "$(NEWER_PYTHON)" ]; then \
		echo "== the newest JAX: skipped, since it needs Python 3.12 or later, and none is on PATH or in pyenv"; \
	else \
		$(MAKE) --no-print-directory VENV=$(NEWEST) PYTHON=$(NEWER_PYTHON) $(NEWEST)/installed-compiler-tpu-dev \
		&& $(NEWEST)/bin/python -c 'import jax, sys; print("== pytest with jax", jax.__version__, "on Python", sys.version.split()[0])' \
		&& $(NEWEST)/bin/python $(PYTEST) -n $(SYSTEM_WORKERS) -m '(smoke or system) and not deep' --junitxml=build/tests/newest.xml $(NEWEST_TESTS); \
	fi

trainers: $(VENV)/installed-all-dev ## real trainers, run in environments of their own (gigabytes, once)
	@export COUNTERPOINT_MAXTEXT="$$(tests/install_trainer.sh maxtext)"; \
	export COUNTERPOINT_FRAMEWORKS="$$(tests/install_trainer.sh frameworks)"; \
	export COUNTERPOINT_LEVANTER="$$(tests/install_trainer.sh levanter)"; \
	export COUNTERPOINT_AXLEARN="$$(AXLEARN_CHECKOUT="$(AXLEARN_CHECKOUT)" tests/install_trainer.sh axlearn)"; \
	$(BIN)/python -m pytest tests/trainers

lint: $(VENV)/installed-all-dev ## ruff, pyright and import-linter only
	@status=0; run() { echo "== $$*"; $(BIN)/"$$@" || status=1; }; \
	run ruff check .; \
	run ruff format --check .; \
	run pyright --pythonpath $(BIN)/python; \
	run lint-imports --no-cache --no-logo; \
	exit $$status

# Users need no Node.js: what it builds from web/ is committed, and web-check compares the two.
NODE := command -v node >/dev/null && command -v npm >/dev/null
web/node_modules/.package-lock.json: web/package.json web/package-lock.json
	@cd web && npm ci --no-audit --no-fund && touch node_modules/.package-lock.json

web: ## the page of `counterpoint view` and --html, from web/ into the package
	@$(NODE) || { echo "error: building the page needs Node.js 20 or later with npm" >&2; \
		echo "  next: apt-get install nodejs npm" >&2; exit 1; }
	@$(MAKE) --no-print-directory web/node_modules/.package-lock.json
	@cd web && npm run --silent check && npm run --silent build

web-check: ## whether the committed page is what web/ builds
	@echo "== the page of web/"; \
	if ! $(NODE); then echo "skipped, since Node.js with npm is not installed"; exit 0; fi; \
	built=$$(mktemp -d); log=$$(mktemp); trap 'rm -rf "$$built" "$$log"' EXIT; \
	if ! $(MAKE) --no-print-directory web/node_modules/.package-lock.json >"$$log" 2>&1; then \
		tail -n 3 "$$log"; \
		echo "skipped, since npm could not install what builds it (above)"; exit 0; fi; \
	cd web; \
	npm run --silent check && node build.mjs "$$built" || exit 1; \
	diff -rq "$$built" ../src/counterpoint/view/assets \
	|| { echo "error: the committed page is not what web/ builds" >&2; echo "  next: make web" >&2; exit 1; }

golden: $(VENV)/installed-all-dev ## the golden texts and pictures anew, to be looked at before they are committed
	$(BIN)/python $(PYTEST) -n $(WORKERS) -q --renew-golden
	PYTHONPATH=tests:tests/diagnose $(BIN)/python tests/golden_pages.py
	@git status --short tests

budget: $(VENV)/installed-all-dev ## what explain costs, counted, against its limits
	@echo "== benchmarks/budget.py"; $(BIN)/python benchmarks/budget.py

# Each day tries other inputs; within a day a find can be repeated.
fuzz: $(VENV)/installed-all-dev ## damaged inputs for MINUTES (default 1): what ends badly is kept in build/fuzz
	@echo "== tests/fuzz/fuzz.py"; \
	$(BIN)/python tests/fuzz/fuzz.py --minutes $(or $(MINUTES),1) --seed $(or $(DAY),$(shell date -u +%Y%m%d))

fuzz-guided: $(VENV)/installed-all-dev ## a minute of inputs that reach new code in one parser: NAME=hlo-made; needs atheris
	$(BIN)/python tests/fuzz/guided.py $(or $(NAME),hlo-made) --seconds 60 || [ $$? -eq 77 ]

growth: $(VENV)/installed-all-dev ## how the time of a command grows with the size of 42 shapes of text
	$(BIN)/python tests/fuzz/growth.py

docs: $(VENV)/installed-all-dev ## the pages that are generated from the catalogue, the recipes and the rules
	$(BIN)/python tools/make_docs.py docs

tutorial: $(VENV)/installed-all-dev ## run the commands of the tutorial anew, and fill in what they print (minutes)
	$(BIN)/python tools/fill_outputs.py docs/tutorial.md

docs-site: $(VENV)/installed-all-dev ## the documentation as a site, in build/site
	@echo "== mkdocs build --strict"; $(BIN)/mkdocs build --strict

tools: ## Slurm, munge and Chromium for the tests that need them, where apt-get may install them
	@tests/install_cluster_tools.sh
	@tests/install_browser.sh

lock: $(VENV)/bin/uv ## resolve uv.lock anew
	$(BIN)/uv lock --upgrade

clean: ## remove the environment, caches and what the demo wrote
	rm -rf $(VENV) $(NEWEST) demo-output build/site .pytest_cache .ruff_cache .hypothesis .import_linter_cache
	find src tests tools examples benchmarks -name __pycache__ -prune -exec rm -rf {} + 2>/dev/null || true

# The lock is uv's; the installer is pip, which every Python has and every site has already set up
# for its mirror. uv only writes the lock down as pins: docs/decisions/0002-lock.md.
$(VENV)/installed-%: pyproject.toml uv.lock hatch_build.py native/xplane_events.rs $(VENV)/bin/uv
	@echo "installing counterpoint[$(subst -,$(comma),$*)] into $(VENV) (minutes at first)"
	@$(BIN)/uv export --quiet --frozen --all-extras --no-emit-project --no-hashes --output-file $(VENV)/pins.txt
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check \
		--constraint $(VENV)/pins.txt --editable '.[$(subst -,$(comma),$*)]'
	@$(BIN)/python -m compileall -q src  # an editable install does not, and some sites never write it
	@touch $@

$(VENV)/bin/uv:
	@$(or $(PYTHON),false) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || { \
		echo "error: Counterpoint needs Python 3.11 or later, $(if $(PYTHON),which $(PYTHON) is not,and none is on PATH)" >&2; \
		echo "  next: make $(MAKECMDGOALS) PYTHON=/path/to/python3.11" >&2; exit 1; }
	@echo "making $(VENV) with $$($(PYTHON) --version)"
	@$(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check 'uv>=0.9,<1'

# mkdocs-material prints an advertisement otherwise.
export NO_MKDOCS_2_WARNING := 1

comma := ,
