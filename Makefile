# Short names for the presets of CMakePresets.json. `make help` lists them.
PREFIX ?= $(CURDIR)/build/install
TOOLS = PATH="$(CURDIR)/.venv/bin:$$PATH"

.PHONY: help setup setup-core setup-fuzz build build-cuda-all core test test-core test-long test-asan test-tsan test-cuda test-wheel python fuzz bench bench-cuda demo audio sensor install install-core format clean

help:
	@echo "make demo                 set up, build, take a tour of the command, train a small model, deploy it"
	@echo "make audio | sensor       a product: a voice in a measured room | digits that come in pixel by pixel"
	@echo "make test                 set up, build and run every test"
	@echo "make build | core         build everything | the torch-free part"
	@echo "make python               the Python package into .venv: import rtf, and the command"
	@echo "make build-cuda-all       everything for A100 and for B200, in build/sm_80 and build/sm_100"
	@echo "make test-core            the torch-free tests"
	@echo "make test-long            10,000 random cases against long double, the small experiments (minutes)"
	@echo "make test-asan, test-tsan the tests under AddressSanitizer + UBSan, ThreadSanitizer"
	@echo "make test-cuda            the tests on the GPU, and compute-sanitizer"
	@echo "make test-wheel           the Python package in a fresh environment, outside this folder (downloads PyTorch)"
	@echo "make fuzz SECONDS=600      every reader of files fed with damaged ones, so long each (needs clang)"
	@echo "make bench                side by side with PyTorch and SciPy"
	@echo "make bench-cuda           the GPU side by side with PyTorch and JAX"
	@echo "make install PREFIX=dir   the commands, headers, libraries, CMake package; install-core without PyTorch"

setup:
	@scripts/setup.sh

setup-core:
	@scripts/setup.sh core

setup-fuzz:
	@scripts/setup.sh fuzz

# One rule for every preset: configure once, then build. These need PyTorch.
build/release/build.ninja build/dev/build.ninja build/sm_80/build.ninja build/sm_100/build.ninja: | setup
build/fuzz/build.ninja: | setup-fuzz
build/%/build.ninja: CMakePresets.json CMakeLists.txt | setup-core
	@$(TOOLS) cmake --preset $*

define build_preset
	@$(TOOLS) cmake --build --preset $(1)
endef

build: build/release/build.ninja
	$(call build_preset,release)

build-cuda-all: build/sm_80/build.ninja build/sm_100/build.ninja
	$(call build_preset,sm_80)
	$(call build_preset,sm_100)

core: build/core/build.ninja
	$(call build_preset,core)

# Several tests at a time, as many as there are cores.
define test_preset
	@$(TOOLS) ctest --preset $(1) -j
endef

test: build
	$(call test_preset,release)

test-core: core
	$(call test_preset,core)

test-long: build
	@build/release/tests/parity_long
	@.venv/bin/python -m pytest -q -p no:cacheprovider -m long tests

test-asan: build/asan/build.ninja
	$(call build_preset,asan)
	$(call test_preset,asan)

test-tsan: build/tsan/build.ninja
	$(call build_preset,tsan)
	$(call test_preset,tsan)

test-cuda: build
	@scripts/test_cuda.sh build/release

# For the PyTorch of .venv, which is there: nothing is downloaded.
python: setup
	@$(TOOLS) .venv/bin/pip install --disable-pip-version-check --no-build-isolation --no-deps .

test-wheel: setup
	@scripts/test_wheel.sh

SECONDS ?= 600
fuzz: build/fuzz/build.ninja
	$(call build_preset,fuzz)
	@scripts/fuzz.sh build/fuzz $(SECONDS)

bench: build
	@.venv/bin/python bench/compare.py --build build/release

# JAX is not among what `make setup` installs: any Python that has it and PyTorch will do.
bench-cuda: build
	@$${RTF_BENCH_PYTHON:-.venv/bin/python} bench/compare_cuda.py --build build/release

demo: build
	@$(TOOLS) examples/demo.sh build/release/rtf

# As an outside project: against what is installed.
audio: install-core
	@$(TOOLS) examples/audio/run.sh "$(PREFIX)"

sensor: install
	@$(TOOLS) examples/sensor/run.sh "$(PREFIX)"

install: build
	@$(TOOLS) cmake --install build/release --prefix "$(PREFIX)"

# What is installed alone: nobody waits for the tests.
install-core: build/core/build.ninja
	@$(TOOLS) cmake --build --preset core --target rtf rtf_shared rtf_command
	@$(TOOLS) cmake --install build/core --prefix "$(PREFIX)"

format:
	@git ls-files '*.c' '*.h' '*.cpp' '*.cu' | xargs clang-format -i

clean:
	@rm -rf build
