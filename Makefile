# Every target sets up what it needs; only `toolchain` and `mpi` may touch the machine beyond this folder.

.PHONY: demo test lint doc bench diff mutants asan miri bundle package registry-test release-check ptxas compilers aarch64-test windows-test macos-check book libcuda libcuda-test page-test service-test video-test soak dist dist-starters mpi wheel c candle burn arrays toolchain

PICTURES := target/demo
BUILT := $(or $(CARGO_TARGET_DIR),target)
LIBCUDA := target/libcuda
HOST = $(shell rustc -vV | sed -n 's/^host: //p')

demo: toolchain ## Run every demo, checked against the CPU (without a GPU on two emulated ones), and filter a picture
	FERROWARP_EMULATOR_DEVICES=2 cargo run --release -- demo --pictures $(PICTURES)
	cargo run --release -- image sobel $(PICTURES)/scene.png -o $(PICTURES)/edges.png

test: toolchain ## Run all tests, on the GPU if there is one, else on the emulator
	cargo test --workspace

# Neither needs compiled kernels, which DOCS_RS leaves out. In a folder of its own, so that the next build need not compile them again.
LINT := DOCS_RS=1 CARGO_TARGET_DIR=$(BUILT)/lint

lint: toolchain ## Format, clippy and documentation, all without warnings
	cargo fmt --all --check
	$(LINT) cargo clippy --workspace --all-targets -- -D warnings
	$(LINT) RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps

bench: toolchain ## Our operations beside the peers that the machine has; allocation, graphs, the speed of the emulator
	cargo run --release -- bench --json target/bench.json --html target/bench.html --picture target/bench.png
	cargo bench --bench allocation
	cargo bench --bench emulator
	cargo bench --bench graphs

diff: toolchain ## Every instruction form on the emulator and on this machine's GPU, bit for bit
	FERROWARP_DEVICE=cuda cargo test --release -p ferrowarp-driver --test differential -- --ignored --nocapture

mutants: toolchain ## Small faults in a sample of the code, and which no test notices (MUTANTS="--each 5 driver")
	scripts/mutants $(MUTANTS)

asan: toolchain ## The driver front's tests under AddressSanitizer; with no leaks, which statics are
	@ls $$(rustc --print target-libdir)/librustc-*_rt.asan.a >/dev/null 2>&1 || \
		{ echo "asan: this compiler came without its runtime, librustc-*_rt.asan.a; rustup's Rust has it" >&2; exit 1; }
	RUSTC_BOOTSTRAP=1 RUSTFLAGS=-Zsanitizer=address ASAN_OPTIONS=detect_leaks=0 FERROWARP_DEVICE=emulator \
		CARGO_TARGET_DIR=$(BUILT)/asan cargo test -p ferrowarp-driver --tests --target $(HOST)

miri: ## Views, indices and shared arrays of cuda_std under Miri, which only a nightly compiler has
	@cargo +nightly miri --version >/dev/null 2>&1 || \
		{ echo "miri: no nightly compiler with Miri: rustup toolchain install nightly -c miri -c rust-src" >&2; exit 1; }
	cargo +nightly miri test -p ferrowarp-std --lib

bundle: toolchain ## Program, tests and benchmark in bundle/, to run on a machine with no Rust
	scripts/bundle bundle

package: toolchain ## All published crates as packages in target/package, the kernels compiled
	scripts/package

registry-test: package ## What a user does with the packages: an own registry of them in a folder, no network, no checkout
	scripts/registry-test

release-check: toolchain ## Packages, documentation as docs.rs builds it, licences and sources of dependencies, semantic versions
	scripts/release-check

ptxas: toolchain ## All PTX through NVIDIA's assembler, which PyPI has, for six architectures; registers and spills against a table
	scripts/ptxas

compilers: toolchain ## The tests of kernels, builder and panics with the oldest and the newest supported compiler
	scripts/compilers

aarch64-test: toolchain ## The tests for AArch64, under qemu-user
	scripts/cross-test aarch64

windows-test: toolchain ## The tests for Windows, under wine
	scripts/cross-test windows

macos-check: toolchain ## Everything compiled, not linked, for macOS
	scripts/cross-test macos

book: toolchain ## The book, as web pages in book/book
	@command -v mdbook >/dev/null || cargo install --locked mdbook
	mdbook build book

libcuda: toolchain ## The driver as target/libcuda/libcuda.so.1, for programs in other languages
	cargo build --release -p ferrowarp-libcuda
	mkdir -p $(LIBCUDA)
	cp $(BUILT)/release/libferrowarp_libcuda.so $(LIBCUDA)/libcuda.so.1
	ln -sf libcuda.so.1 $(LIBCUDA)/libcuda.so

libcuda-test: libcuda ## Python programs on that library, with packages from PyPI
	python3 -m venv $(LIBCUDA)/venv
	$(LIBCUDA)/venv/bin/pip install --quiet -r crates/libcuda/tests/python/requirements.txt
	LD_LIBRARY_PATH=$(LIBCUDA) PYTHONDONTWRITEBYTECODE=1 $(LIBCUDA)/venv/bin/pytest \
		-p no:cacheprovider crates/libcuda/tests/python

CHROMIUM := $(or $(FERROWARP_CHROMIUM),chromium)

page-test: toolchain ## The profiler's and the benchmark's pages in a headless Chromium: widths, light and dark, sorting
	@command -v $(CHROMIUM) >/dev/null || { echo "there is no $(CHROMIUM): install the package chromium, or set \
	FERROWARP_CHROMIUM to the name of a Chromium or Chrome" >&2; exit 1; }
	FERROWARP_CHROMIUM=$(CHROMIUM) cargo test -p ferrowarp-tools --test cli page:: -- --ignored --nocapture

service-test: toolchain ## The example web service: right answers, overload, clients that leave, a clean end
	cargo build -p examples --features service --example service
	cargo test -p examples --features service --test service
	cargo clippy -p examples --features service --all-targets -- -D warnings

video-test: toolchain ## The example video pipeline: films read back, frames compared with the CPU
	cargo build -p examples --features video --example video
	cargo test -p examples --features video --test video
	cargo clippy -p examples --features video --all-targets -- -D warnings

soak: toolchain ## Mixed work for MINUTES (9), by SEED (1): results, planted faults and memory are checked all along
	cargo run --release -- soak --minutes $(or $(MINUTES),9) --seed $(or $(SEED),1)

# More ranks than cores, and as root, too: Open MPI refuses both unless it is told.
MPI_ENV := FERROWARP_DEVICE=emulator OMPI_MCA_rmaps_base_oversubscribe=1 OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1

dist: toolchain mpi ## Collectives and operations over MPI among emulated devices: the demo with 4 ranks, the tests with 1, 2, 3, 4 and 7
	cargo build -p ferrowarp-tools --features mpi
	$(MPI_ENV) mpirun -n 4 $(BUILT)/debug/ferrowarp dist demo
	cargo test -p ferrowarp-tools -p ferrowarp-dist --features ferrowarp-tools/mpi,ferrowarp-dist/ops --test collectives --test domains --test meeting --test ops --lib
	cargo test -p ferrowarp-tools --features mpi --test cli -- launch:: ranks::

dist-starters: toolchain mpi ## What starts ranks in examples/dist, tried: mpirun, torchrun, Slurm, Kubernetes, Ray; two hosts as namespaces
	cargo build -p examples --features mpi --example dist
	scripts/dist-starters $(BUILT)/debug/examples/dist $(STARTERS)

# A workspace of its own, so that nothing else builds candle.
CANDLE = --manifest-path crates/candle/Cargo.toml --target-dir $(abspath $(BUILT)) --locked

candle: toolchain ## Operations on tensors of candle, tested against candle's own; the example
	cargo fmt --manifest-path crates/candle/Cargo.toml --check
	cargo clippy $(CANDLE) --all-targets -- -D warnings
	cargo test $(CANDLE)
	cargo run $(CANDLE) --example sampling

# As candle. Flex is another backend of burn.
BURN = --manifest-path crates/burn/Cargo.toml --target-dir $(abspath $(BUILT)) --locked

burn: toolchain ## Operations on tensors of burn, tested against burn's own; the example
	cargo fmt --manifest-path crates/burn/Cargo.toml --check
	cargo clippy $(BURN) --lib -- -D warnings
	cargo clippy $(BURN) --features flex --all-targets -- -D warnings
	RUSTDOCFLAGS="-D warnings" cargo doc $(BURN) --features flex --no-deps --lib
	cargo test $(BURN) --features flex
	cargo run $(BURN) --features flex --example sampling

ARRAYS = --features ferrowarp/faer,ferrowarp/ndarray

arrays: toolchain ## Arrays of ndarray and matrices of faer on the device, which other builds do not compile; the example
	cargo clippy -p ferrowarp $(ARRAYS) --lib --test arrays -- -D warnings
	cargo clippy -p examples --features arrays --example arrays -- -D warnings
	cargo test -p ferrowarp $(ARRAYS) --test arrays
	cargo test -p ferrowarp $(ARRAYS) --doc arrays
	cargo run -p examples --features arrays --example arrays

PREFIX = $(BUILT)/c

c: toolchain ## The library for C, with its header and its file for pkg-config, in PREFIX (target/c)
	cargo build --release -p ferrowarp-c
	install -d $(PREFIX)/include $(PREFIX)/lib/pkgconfig
	install -m 644 crates/c/include/ferrowarp.h $(PREFIX)/include/
	install -m 755 $(BUILT)/release/libferrowarp_c.so $(PREFIX)/lib/libferrowarp.so.0
	ln -sf libferrowarp.so.0 $(PREFIX)/lib/libferrowarp.so
	sed -e 's|@PREFIX@|$(abspath $(PREFIX))|' -e 's|@VERSION@|'$$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -1)'|' \
		crates/c/ferrowarp.pc.in > $(PREFIX)/lib/pkgconfig/ferrowarp.pc

# The package is a workspace of its own, so that nothing else needs a Python to build.
wheel: toolchain ## The Python package as a wheel in target/wheel, tested on the emulator in an environment of its own
	cargo fmt --manifest-path python/Cargo.toml --check
	cargo clippy --manifest-path python/Cargo.toml --release --target-dir $(BUILT) --locked -- -D warnings
	RUSTDOCFLAGS="-D warnings" cargo doc --manifest-path python/Cargo.toml --release --target-dir $(BUILT) --locked --no-deps --document-private-items
	scripts/wheel

mpi:
	@scripts/mpi

toolchain:
	@scripts/toolchain
