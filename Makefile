# `make demo` and `make test` do all their own set-up; nothing is installed outside .venv.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed
TORCHRUN = OMP_NUM_THREADS=1 $(BIN)/torchrun --standalone --nproc-per-node 4

.PHONY: demo test lint types unit update bench consumer catalog clean

demo: $(INSTALLED)
	$(BIN)/planlang compile plans/qwen_stable.plan
	$(BIN)/planlang show plans/qwen_stable.plan --model Qwen/Qwen3-8B --tp 4
	$(TORCHRUN) docs/examples/four_processes.py plans/qwen_stable.plan

test: lint types unit

lint: $(INSTALLED)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/planlang fmt --check plans
	$(BIN)/lint-imports

types: $(INSTALLED)
	$(BIN)/mypy

unit: $(INSTALLED)
	$(BIN)/python -m pytest -n auto --dist loadfile --no-loadscope-reorder

update: $(INSTALLED)  ## rewrite the expected outputs of the corpus
	$(BIN)/python -m pytest --update tests/test_corpus.py tests/test_check_corpus.py tests/targets

bench: $(INSTALLED)
	$(BIN)/python -m benchmarks

catalog: $(INSTALLED)  ## remake the data of the model catalog
	$(BIN)/python -m planlang.model.build_catalog

consumer:  ## resolve emitted and bundled plans with the real nemo-automodel, in an environment of its own
	sh tests/consumer/run $(PYTHON)

$(INSTALLED): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet -c constraints.txt -e '.[dev]'
	touch $@

clean:
	rm -rf $(VENV) dist .mypy_cache .ruff_cache .pytest_cache .hypothesis
