# Nitro Canvas. The two that matter: `make run` and `make test`.

PYTHON ?= python3
VENV ?= .venv
PY := $(VENV)/bin/python
ARGS ?=

# Stamps: newer than the requirements means installed, so nothing is asked of pip again.
RUN_READY := $(VENV)/.ready-run
DEV_READY := $(VENV)/.ready-dev

.PHONY: run test test-slow gpu-test lint types format bench browser fonts pocket pocket-smoke \
	clean help
.DEFAULT_GOAL := help

help:
	@echo "make run           install what is missing and open the page on port 7860"
	@echo "make test          lint, types and tests (a few minutes on two cores)"
	@echo "make test-slow     the tests that take longer, full-size parity among them"
	@echo "make gpu-test      the tests that need a GPU"
	@echo "make lint          ruff only;  make types: mypy only;  make format: reformat"
	@echo "make bench         operations and latency of every variant"
	@echo "make pocket        train Pocket's weights anew (about six hours on two cores)"
	@echo "make pocket-smoke  every stage of the training from nothing, a minute each"
	@echo "make clean         remove caches and $(VENV); runs/ and outputs/ stay"

run: $(RUN_READY)
	$(PY) app.py $(ARGS)

test: lint types browser fonts
	$(PY) -m pytest $(ARGS)

test-slow: $(DEV_READY) browser fonts
	$(PY) -m pytest -m "(slow or load) and not gpu" $(ARGS)

gpu-test: $(DEV_READY)
	$(PY) -m pytest -m gpu $(ARGS)

lint: $(DEV_READY)
	$(PY) -m ruff check --output-format concise .
	$(PY) -m ruff format --check .

types: $(DEV_READY)
	$(PY) -m mypy

format: $(DEV_READY)
	$(PY) -m ruff check --fix .
	$(PY) -m ruff format .

bench: $(RUN_READY)
	$(PY) -m benchmarks.flops $(ARGS)
	$(PY) -m benchmarks.latency $(ARGS)

# --- installation ---------------------------------------------------------------------------

$(PY):
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and \
		"Python 3.11 or newer is needed; set PYTHON=...")'
	$(PYTHON) -m venv $(VENV) || { rm -rf $(VENV); \
		echo "No virtual environment could be made. On Debian: apt-get install python3-venv"; exit 1; }

$(RUN_READY): requirements.txt constraints.txt deploy/install.sh | $(PY)
	sh deploy/install.sh $(PY) requirements.txt
	@touch $@

$(DEV_READY): requirements-dev.txt $(RUN_READY)
	sh deploy/install.sh $(PY) requirements-dev.txt
	@touch $@

# A real browser for the page's tests: Debian's where apt can be used, else Playwright's own.
browser: $(DEV_READY)
	@if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then sh deploy/system.sh chromium; \
	elif command -v chromium >/dev/null; then :; \
	else $(PY) -m playwright install chromium; fi

# The emoji font is Pocket's world: training needs it, drawing does not.
fonts:
	@sh deploy/system.sh fonts keywords || echo "Going on without the font; training and its tests need it."

# --- Pocket's weights -----------------------------------------------------------------------

# Minutes each stage gets in pocket-smoke.
SMOKE_MINUTES ?= 1

# The steps of the shipped weights; with more of them Pocket gets better. Every stage is seeded and
# resumes where it was stopped; schedules follow the step count, not the clock.
AE_STEPS ?= 7446
SCENES ?= 40000
AR_STEPS ?= 8184
JOINT_STEPS ?= 3323
E_STEPS ?= 8363
PAIRS ?= 3000
PREVIEW_STEPS ?= 2189
DIST_STEPS ?= 968
TOKENIZER_STEPS ?= 5749
INSTELLA_STEPS ?= 1413

pocket: $(DEV_READY) fonts
	$(PY) -m training.autoencoder --steps $(AE_STEPS)
	$(PY) -m training.latents --count $(SCENES)
	$(PY) -m training.preview --steps $(PREVIEW_STEPS)
	$(PY) -m training.generator --variant pocket-ar --steps $(AR_STEPS)
	$(PY) -m training.generator --variant pocket-ar-joint --steps $(JOINT_STEPS) \
		--encoder-from runs/pocket-ar --start-from runs/pocket-ar
	$(PY) -m training.generator --variant pocket-e --steps $(E_STEPS) \
		--encoder-from runs/pocket-ar --start-from runs/pocket-ar
	$(PY) -m training.distill --pairs $(PAIRS) --steps $(DIST_STEPS)
	$(PY) -m training.tokenizer --steps $(TOKENIZER_STEPS) --batch 32
	$(PY) -m training.bits --count $(SCENES)
	$(PY) -m training.generator --variant pocket-instella --steps $(INSTELLA_STEPS) \
		--latents runs/bits.pt --autoencoder runs/tokenizer --encoder-from runs/pocket-ar
	$(PY) -m training.export --runs runs --out assets/pocket

pocket-smoke: $(DEV_READY) fonts
	@set -eu; runs=$$(mktemp -d); trap 'rm -rf "$$runs"' EXIT; set -x; \
	$(PY) -m training.autoencoder --out $$runs/autoencoder --minutes $(SMOKE_MINUTES); \
	$(PY) -m training.latents --autoencoder $$runs/autoencoder --out $$runs/latents.pt \
		--count 1024; \
	$(PY) -m training.preview --autoencoder $$runs/autoencoder --latents $$runs/latents.pt \
		--pictures 200 --steps 200 --out $$runs/preview; \
	$(PY) -m training.generator --variant pocket-ar --minutes $(SMOKE_MINUTES) \
		--autoencoder $$runs/autoencoder --latents $$runs/latents.pt --out $$runs/pocket-ar; \
	$(PY) -m training.generator --variant pocket-ar-joint --minutes $(SMOKE_MINUTES) \
		--autoencoder $$runs/autoencoder --latents $$runs/latents.pt \
		--encoder-from $$runs/pocket-ar --start-from $$runs/pocket-ar \
		--out $$runs/pocket-ar-joint; \
	$(PY) -m training.generator --variant pocket-e --minutes $(SMOKE_MINUTES) \
		--autoencoder $$runs/autoencoder --latents $$runs/latents.pt \
		--encoder-from $$runs/pocket-ar --start-from $$runs/pocket-ar --out $$runs/pocket-e; \
	$(PY) -m training.distill --teacher $$runs/pocket-e --autoencoder $$runs/autoencoder \
		--latents $$runs/latents.pt --out $$runs/pocket-e-dist --pairs 64 \
		--minutes $(SMOKE_MINUTES); \
	$(PY) -m training.adversarial --variant pocket-ar --start-from $$runs/pocket-ar \
		--autoencoder $$runs/autoencoder --latents $$runs/latents.pt --steps 20 \
		--out $$runs/adversarial; \
	$(PY) -m training.tokenizer --out $$runs/tokenizer --minutes $(SMOKE_MINUTES); \
	$(PY) -m training.bits --tokenizer $$runs/tokenizer --out $$runs/bits.pt --count 512; \
	$(PY) -m training.generator --variant pocket-instella --minutes $(SMOKE_MINUTES) \
		--autoencoder $$runs/tokenizer --latents $$runs/bits.pt \
		--encoder-from $$runs/pocket-ar --out $$runs/pocket-instella; \
	$(PY) -m training.export --runs $$runs --out $$runs/assets; \
	$(PY) -m training.evaluate --pocket $$runs/assets --per-skill 2

clean:
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
