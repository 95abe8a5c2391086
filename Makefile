# All set-up happens here: with only python3 and make, `make demo` and `make test` do the rest.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
UV := 0.13.8
GO ?= go
JAVAC ?= javac
MVN ?= mvn
# In the order of tests/conftest.py: what takes longest begins first.
SIDE_BY_SIDE := --dist loadfile --no-loadscope-reorder --numprocesses
UPGRADE ?= --upgrade

# Files side by side, two of those with a Ray; last, alone, what is timed. $(1) leaves tests out.
define run_tests
@$(BIN)/python -m pytest $(SIDE_BY_SIDE) 3 -m "not ray and not chaos and not kube$(1)"
@$(BIN)/python -m pytest $(SIDE_BY_SIDE) 2 -m "ray and not chaos and not timed$(1)"
@$(BIN)/python -m pytest -m "timed and not chaos$(1)"
endef

CHAOS = $(BIN)/python -m chaos $(if $(CLUSTER),--cluster $(CLUSTER)) $(if $(SEED),--seed $(SEED))

# A container's environment often has it. Each of the thousand commands that tests run would compile all modules again.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help setup demo test test-all check coverage lint chaos chaos-long chaos-timers chaos-deliveries chaos-jobs chaos-cases chaos-broken reference-cases bench bench-peers bench-peers-go bench-peers-jvm prometheus faketime pgbouncer chromium oidc-provider iproute2 helm kube docs screenshots dashboards wheels sbom lock clean

help: ## list these commands
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## (.*)/\1|\2/' | awk -F'|' '{ printf "  make %-15s %s\n", $$1, $$2 }'

setup: $(READY) ## make .venv with the locked dependencies (PYTHON=python3.13 chooses an interpreter)

demo: setup ## fire 5,000 timers, kill a shard and a worker half way, check every record
	@$(BIN)/shardclock demo

test: export TEST_POSTGRES = 18
test: setup ## run the tests, on real Postgres and real Ray (a quarter of an hour)
	$(call run_tests, and not exhaustive)

test-all: setup ## run also those that take minutes each or try thousands of cases (three quarters of an hour)
	$(call run_tests)

check: lint ## lint, and the quick tests on one version of Postgres: before each commit
	@TEST_POSTGRES=18 $(BIN)/python -m pytest -q $(SIDE_BY_SIDE) 2 -m "not ray and not kube and not slow and not long and not exhaustive"

coverage: setup ## run the tests that need no Ray, and print how much of each package they run
	@rm -rf build/coverage && mkdir -p build/coverage
	@$(BIN)/coverage run -m pytest -q $(SIDE_BY_SIDE) 2 -m "not ray and not chaos and not kube"; tests=$$?; \
	$(BIN)/coverage combine --quiet && $(BIN)/coverage json --quiet && $(BIN)/python -m tests.support.covered && exit $$tests

lint: setup ## format, lint, types and import contracts
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache

chaos: setup ## break everything for ten minutes under load, and judge what was recorded (CLUSTER=local, ray or standby, the default; SEED=7 repeats a run)
	$(CHAOS) --minutes 10

chaos-long: setup ## the same for an hour, at about 800 timers a second and 83 instances of processes, beside floods
	$(CHAOS) --minutes 60 --calls-per-s 97 --instances-per-s 83

chaos-timers: setup ## an hour with timers alone, about 930 a second with its floods: no targets, no processes
	$(CHAOS) --of timers --minutes 60 --calls-per-s 92

chaos-deliveries: setup ## kill workers, handlers' processes, shards and Postgres 50 times each (ten minutes)
	$(CHAOS) --minutes 10 --of deliveries

chaos-jobs: setup ## while jobs run, kill workers, runs' processes, shards, the coordinator and Postgres, and then the whole Ray, 50 times each (an hour and a quarter)
	$(BIN)/python -m chaos.jobs --of processes $(if $(SEED),--seed $(SEED))
	$(BIN)/python -m chaos.jobs --of ray $(if $(SEED),--seed $(SEED))

chaos-cases: setup ## faults that need root, several nodes or a machine of their own (nine minutes; skipped with a reason where they can't be)
	$(BIN)/python -m pytest -m chaos

chaos-broken: setup ## break the product in fourteen ways, and see that the judge finds each (ten minutes)
	$(BIN)/python -m chaos.broken

reference-cases: setup ## draw 10,000 requests from the reference of the HTTP API, and hold the answers against it (CASES_SEED=8 draws others)
	@CASES=10000 $(if $(CASES_SEED),CASES_SEED=$(CASES_SEED)) TEST_POSTGRES=18 $(BIN)/python -m pytest tests/gateway/test_schemathesis.py

bench: setup ## measure it beside its peers, and write docs/benchmarks (some hours; the machine must have nothing else to do)
	$(BIN)/python -m benchmarks --to docs/benchmarks

bench-peers: ## install the peers for `make bench` into build/peers, at pinned versions
	@mkdir -p build/peers
	@cp benchmarks/peers/*.* build/peers
	@$(PYTHON) -m venv build/peers/venv
	@build/peers/venv/bin/python -m pip install --quiet --disable-pip-version-check -r build/peers/requirements.txt
	@cd build/peers && PATH="$$PWD/venv/bin:$$PATH" npm install --no-package-lock --no-audit --no-fund --loglevel=error \
		|| echo "npm failed: graphile-worker and pg-boss are left out of the benchmarks"

bench-peers-go: ## build River for `make bench` into build/peers, at pinned versions (needs Go; without it River is left out)
	@command -v $(GO) >/dev/null || { echo "no $(GO) here: River is left out of the benchmarks"; exit 0; }; \
	mkdir -p build/peers/river && cp benchmarks/peers/river/* build/peers/river \
		&& cd build/peers/river && $(GO) build -o of_river .

bench-peers-jvm: ## build db-scheduler for `make bench` into build/peers, at pinned versions (needs a JDK and Maven; without them it is left out)
	@for needed in $(JAVAC) $(MVN); do command -v $$needed >/dev/null \
		|| { echo "no $$needed here: db-scheduler is left out of the benchmarks"; exit 0; }; done; \
	rm -rf build/peers/db-scheduler && mkdir -p build/peers/db-scheduler && cp benchmarks/peers/db-scheduler/* build/peers/db-scheduler \
		&& cd build/peers/db-scheduler && $(MVN) --quiet --batch-mode dependency:copy-dependencies -DoutputDirectory=. \
		&& $(JAVAC) -cp './*' OfDbScheduler.java

prometheus: ## install Debian's Prometheus, which the monitoring tests start (needs root; without it they are skipped)
	apt-get install --yes --no-install-recommends prometheus
	@systemctl disable --now prometheus 2>/dev/null || true # ours are started by the tests

faketime: ## install Debian's libfaketime, with which a test sets Postgres's clock wrong (needs root; without it it is skipped)
	apt-get install --yes --no-install-recommends libfaketime

pgbouncer: ## install Debian's pgbouncer, in front of which tests show that a pooler is refused (needs root; without it they are skipped)
	apt-get install --yes --no-install-recommends pgbouncer
	@systemctl disable --now pgbouncer 2>/dev/null || true # ours are started by the tests

chromium: ## install Debian's chromium, in which tests open the console's pages (needs root; without it they are skipped)
	apt-get install --yes --no-install-recommends chromium

oidc-provider: ## install the OpenID provider at which tests of the console sign in (needs npm; without it they are skipped)
	@mkdir -p $(HOME)/.cache/shardclock/oidc-provider
	@cp tests/support/oidc_provider/package*.json $(HOME)/.cache/shardclock/oidc-provider
	npm ci --prefix $(HOME)/.cache/shardclock/oidc-provider --ignore-scripts --no-audit --no-fund --loglevel=error

iproute2: ## install Debian's iproute2, with which tests make hosts of their own and cut them off (needs root; without it they are skipped)
	apt-get install --yes --no-install-recommends iproute2

helm: ## build Helm 4, with which tests render the charts (needs Go and minutes; without it they are skipped)
	@tools/kube_build.sh $(HOME)/.cache/shardclock/kube helm

kube: setup ## build a Kubernetes (Go, once ten minutes), and try the manifests, the charts and the upgrade on it (three minutes)
	@tools/kube_build.sh $(HOME)/.cache/shardclock/kube
	@$(BIN)/python -m pytest -m kube tests/kube

docs: setup ## write docs/sql.md from the SQL functions' comments, docs/openapi.json from the routes, docs/bpmn-elements.md from the models, docs/refusals.md from the codes, the charts' README from their values, the sync clients from the async ones
	$(BIN)/python -m tools.sql_reference
	$(BIN)/python -m tools.openapi
	$(BIN)/python -m tools.bpmn_page
	$(BIN)/python -m tools.refusals_page
	$(BIN)/python -m tools.chart_values
	$(BIN)/python -m tools.unasync

screenshots: setup ## make the screenshots of docs/console.md (needs chromium: `make chromium`)
	$(BIN)/python -m tests.support.screenshots

dashboards: setup ## write Grafana's JSON from the dashboards' spec in k8s/monitoring/dashboards
	$(BIN)/python -m k8s.monitoring.dashboards

wheels: setup ## build both distributions into dist/, with the same bytes for the same commit
	@$(BIN)/python -m tools.wheels

sbom: setup ## write the bill of materials of the image into dist/, in CycloneDX
	@mkdir -p dist && $(BIN)/python k8s/image/sbom.py ray > dist/shardclock.cdx.json

# cyclonedx-bom brings rfc3987-syntax, which builds 38 grammars in each process that imports Ray: 1.4 s of processor time.
lock: ## resolve the dependencies again, at their newest, into requirements.lock (UPGRADE= keeps the versions that it has)
	@set -e; scratch=$$(mktemp -d); trap 'rm -rf "$$scratch"' EXIT; \
	$(PYTHON) -m venv "$$scratch"; \
	"$$scratch/bin/pip" install --quiet uv==$(UV); \
	echo 'rfc3987-syntax; python_version < "3"' > "$$scratch/overrides"; \
	"$$scratch/bin/uv" pip compile --quiet --overrides "$$scratch/overrides" $(UPGRADE) --universal --python-version 3.11 \
	    --generate-hashes --extra ray --extra dev \
	    --no-config --no-header --no-annotate --no-emit-index-url --no-emit-find-links --no-emit-package shardclock-client \
	    --output-file requirements.lock pyproject.toml

clean: ## remove what make made
	rm -rf $(VENV) build dist *.egg-info .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache

# The stamp is written last, so a set-up that was interrupted starts again.
$(READY): requirements.lock pyproject.toml client/pyproject.toml
	@command -v $(PYTHON) >/dev/null || { echo "make: no $(PYTHON) here; say which with PYTHON=/path/to/python3" >&2; exit 1; }
	@$(PYTHON) -c 'import sys; v = sys.version_info[:2]; (3, 11) <= v <= (3, 14) or sys.exit("make: $(PYTHON) is Python %d.%d, Shardclock needs 3.11 to 3.14; say which with PYTHON=python3.13" % v)'
	@test ! -L $(VENV) || { echo "make: $(VENV) is a link, and making it anew would empty what it leads to; remove the link" >&2; exit 1; }
	@$(PYTHON) -m venv --clear $(VENV) || { echo "make: $(PYTHON) can't make a venv; on Debian and Ubuntu: apt install python3-venv" >&2; exit 1; }
	@echo "installing the locked dependencies into $(VENV)"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes --no-deps -r requirements.lock
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-build-isolation --no-deps --editable ./client --editable .
	@touch $(READY)
