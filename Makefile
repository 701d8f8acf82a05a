# Set-up and daily commands. Needs only Python 3.11 or newer and make; README.md gives the same as plain pip and pytest lines.
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
PIP    := $(BIN)/python -m pip --disable-pip-version-check
JOBS   ?= 2
PEERS  := zaber-motion moteus xarray h5netcdf silx nanite openpyxl atiiaftt dynamixel-sdk

.PHONY: help setup peers demo demo-joint demo-arm test truth faults kill-matrix lint types check benchmark oldest clean

help:
	@echo "make demo       set up, press the simulated phantom, archive it and judge its contact model"
	@echo "make demo-joint the same for the simulated joint: friction, compensation, impedance"
	@echo "make demo-arm   the same for the simulated six-axis arm: identification, payload, friction, contact"
	@echo "make test       set up and run every test but the benchmarks"
	@echo "make benchmark  set up with the peers and run the benchmarks (ratios within one run)"
	@echo "make truth      fifty simulated specimens, thirty joints and ten arms compared with their truth"
	@echo "make faults     the catalogue of an indenter's faults, and fifty sound ones that must raise no alarm"
	@echo "make kill-matrix  ends the program that drives a rig in every way and state; asks the simulated rig what was left"
	@echo "make lint types ruff and the strict type checker"
	@echo "make oldest     the DAQ client tests on the oldest nidaqmx this project supports"

$(VENV)/.set-up: pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(PIP) install --quiet --editable ".[excel]"
	@touch $@

# Rigid-body dynamics and the simulated arm: half a gigabyte, so only what drives an arm asks for it.
$(VENV)/.arm: $(VENV)/.set-up
	$(PIP) install --quiet --editable ".[arm,excel]"
	@touch $@

$(VENV)/.dev: $(VENV)/.arm
	$(PIP) install --quiet --editable ".[arm,dev,excel]"
	@touch $@

# Vendors' clients and viewers the tests compare with. One that has no wheel for this machine is left out; its tests then say so and skip.
$(VENV)/.peers: $(VENV)/.dev
	$(PIP) install --quiet --editable ".[peers]" || \
	  for peer in $(PEERS); do $(PIP) install --quiet $$peer || echo "left out: $$peer"; done
	@touch $@

setup: $(VENV)/.set-up

# Strict: every peer must install (what CI uses). All at once: the steps one by one would resolve four times.
peers: pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(PIP) install --quiet --editable ".[arm,dev,excel,peers]"
	@touch $(VENV)/.set-up $(VENV)/.arm $(VENV)/.dev $(VENV)/.peers

demo: $(VENV)/.set-up
	$(BIN)/python -m pytest tests/acceptance --rig indenter --operator "demo"

demo-joint: $(VENV)/.set-up
	$(BIN)/python -m pytest tests/acceptance --rig single_joint --operator "demo"

demo-arm: $(VENV)/.arm
	$(BIN)/python -m pytest tests/acceptance --rig full_arm --operator "demo"

# One file's tests stay in one process, each of which has a simulated lab of its own; in the files' order, which has the
# long ones first. Lab tests of joint and arm want their rigs, and run side by side; those of the arm that take longest
# are left to `make demo-arm`, whose procedures the tests run in short.
test: $(VENV)/.peers
	$(BIN)/python -m pytest tests -n $(JOBS) --dist loadfile --no-loadscope-reorder
	$(BIN)/python -m pytest tests/acceptance --rig single_joint & joint=$$!; \
	  $(BIN)/python -m pytest tests/acceptance/test_arm_identification.py --rig full_arm; \
	  arm=$$?; wait $$joint && exit $$arm

benchmark: $(VENV)/.peers
	$(BIN)/python -m pytest tests/performance -m performance

# The whole statement on uncertainty: fifty specimens, thirty joints and ten arms against the twins' truth. `make test` takes
# five, two and none.
truth: $(VENV)/.arm
	BENCH_TRUTH_SEEDS=50 $(BIN)/python -m pytest tests/reference/test_twin_truth.py
	BENCH_TRUTH_SEEDS=30 $(BIN)/python -m pytest tests/reference/test_joint_truth.py
	BENCH_TRUTH_SEEDS=10 $(BIN)/python -m pytest tests/reference/test_arm_truth.py tests/reference/test_arm_base_truth.py

# Every fault makes its own check fail, and no sound rig raises an alarm. `make test` takes the short rows and a sound rig or two.
faults: $(VENV)/.dev
	BENCH_FAULT_SEEDS=50 $(BIN)/python -m pytest tests/faults -k catalogue -n $(JOBS) --dist load

# In real time, one cell after the other: for a machine that does nothing else. Half an hour.
kill-matrix: $(VENV)/.dev
	rm -f results/kill-matrix.jsonl
	-$(BIN)/python tests/faults/kill_cells.py --results results/kill-matrix.jsonl
	$(BIN)/python tests/faults/kill_cells.py --results results/kill-matrix.jsonl --table

lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/.dev
	$(BIN)/mypy

check: lint types test

oldest:
	test -x .venv-oldest/bin/python || $(PYTHON) -m venv .venv-oldest
	.venv-oldest/bin/python -m pip --disable-pip-version-check install --quiet --editable . "nidaqmx[grpc]==1.0.0"
	.venv-oldest/bin/python -m pytest tests/contract/test_nidaqmx.py tests/contract/test_nidaqmx_client.py

clean:
	rm -rf $(VENV) .venv-oldest build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache
