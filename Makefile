# `make run` shows the whole of Poolwright on a live database; `make test` runs every test. The scripts do the work.

.PHONY: help run lab check-lab build install uninstall docs test test-kernel test-mount fuzz sanitize bench lint ci clean
.DEFAULT_GOAL := help

# Found even where rustup's lines have not been read by the shell.
export PATH := $(PATH):$(HOME)/.cargo/bin

help: ## this list
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/make \1\t\2/p' Makefile | expand -t 18

run: ## install what is missing, start a private MariaDB under load, and find better settings for it
	@scripts/run.sh

lab: ## install what is missing, run the campaigns with real databases at their small scale; reports in lab-results/
	@scripts/lab.sh

check-lab: ## whether the campaigns can be relied on: killed and resumed, each trial is there once; run twice, they agree
	@scripts/lab/check.sh resume
	@scripts/lab/check.sh agree

build: ## the program, as target/release/poolwright
	cargo build --release -p poolwright

install: ## install the built program, man pages, completions and campaigns below PREFIX (/usr/local)
	@scripts/install-program.sh

uninstall: ## remove what `make install` installed below PREFIX
	@scripts/install-program.sh --remove

docs: ## the documentation as a book, in target/book (mdbook)
	@scripts/docs.sh

test: ## install what the tests use, and run all tests that need no kernel ZFS
	@scripts/test.sh

test-mount: ## real databases, public file-system suites and crashes on the FUSE mount (root; long)
	@scripts/test-mount.sh

test-kernel: ## what needs a kernel with ZFS: pools go back and forth between the engine and one in a virtual machine
	@scripts/test-kernel.sh

fuzz: ## everything that reads bytes from outside, fuzzed for ten minutes each (nightly toolchain; long)
	@scripts/fuzz.sh

sanitize: ## the engine's C and the mount under sanitizers, Miri and loom
	@scripts/sanitize.sh

bench: ## measure, each figure beside its reference; a table, and bench-results/latest.json
	@scripts/bench.sh

lint: ## formatting, clippy, licences and advisories of the dependencies, shell scripts
	@scripts/lint.sh

ci: ## what a CI job runs
	@.ci/run

clean: ## remove what was built and measured
	cargo clean
	rm -rf bench-results lab-results report.html plan.json
