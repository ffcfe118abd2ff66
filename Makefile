# `make run` shows Poolwright on a live database; `make test` runs the tests. The scripts do the work.

.PHONY: help run lab lab-full lab-docs check-lab build install uninstall deb dist check-deb docs test test-cluster test-hostile test-kernel test-kernel-all test-mount web test-web fuzz sanitize bench lint ci clean
.DEFAULT_GOAL := help

# rustup's directory, also if the shell has not read the login files.
export PATH := $(PATH):$(HOME)/.cargo/bin

help: ## list the targets
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/make \1\t\2/p' Makefile | expand -t 18

run: ## install missing packages, start a private MariaDB under load, and find better settings for it
	@scripts/run.sh

lab: ## run the campaigns with real databases at the small scale; writes reports to lab-results/
	@scripts/lab.sh

HOURS ?= 6
lab-full: ## the same at the scale of the original studies, for HOURS (6); repeat it to continue
	@scripts/lab.sh --scale full --for $(HOURS)h

lab-docs: ## take the results of `make lab` into docs/campaigns
	@python3 scripts/lab/docs.py

check-lab: ## test the campaigns: a killed run resumes without repeating a trial; two runs agree
	@scripts/lab/check.sh resume
	@scripts/lab/check.sh agree

build: ## build target/release/poolwright
	cargo build --release -p poolwright

install: ## install the built program, man pages, completions, campaigns and JSON Schemas below PREFIX (/usr/local)
	@scripts/install-program.sh

uninstall: ## remove what `make install` installed below PREFIX
	@scripts/install-program.sh --remove

deb: ## build the Debian package target/debian/poolwright_VERSION_amd64.deb (cargo-deb)
	@scripts/deb.sh

dist: ## build the release files in target/dist: a tar archive and a Debian package for every x86-64 Linux with glibc 2.31 or later
	@scripts/dist.sh

check-deb: ## install, run and purge the package in fresh systems of Debian 12 and 13, and beside a kernel's OpenZFS (root; long)
	@scripts/deb.sh --check
	@scripts/deb/vm.sh

docs: ## render the documentation as a book in target/book (mdbook)
	@scripts/docs.sh

test: ## run all tests that need no kernel ZFS
	@scripts/test.sh

test-mount: ## test the FUSE mount with real databases, public file-system suites and crashes (root; long)
	@scripts/test-mount.sh

test-hostile: ## run root's commands for an hour while the database's user exchanges its files against them (root)
	@scripts/test-hostile.sh

test-kernel: ## exchange pools between the engine and a kernel's OpenZFS in a virtual machine (long)
	@scripts/test-kernel.sh

test-kernel-all: ## the same, and databases, estimates of space and replays against the kernel (two hours)
	@scripts/test-kernel.sh --all

test-cluster: ## run a campaign on a private Slurm of three nodes on this machine, while a node and the controller are killed
	@scripts/test-cluster.sh

web: ## build the web page of `poolwright serve` again, into crates/monitor/page (Node.js)
	@scripts/web.sh

test-web: ## test the web page in Chromium, against a mounted pool under load (Node.js, Chromium)
	@scripts/web.sh --check
	@scripts/web.sh --test

fuzz: ## fuzz each parser for ten minutes (nightly toolchain; long)
	@scripts/fuzz.sh

sanitize: ## test the engine's C and the mount with sanitizers, Miri and loom
	@scripts/sanitize.sh

bench: ## measure each figure and its reference; writes bench-results/latest.json
	@scripts/bench.sh

lint: ## check formatting, clippy, layers, names, links, licences, scripts
	@scripts/lint.sh

ci: ## run the CI job
	@.ci/run

clean: ## remove build products and results
	cargo clean
	rm -rf bench-results lab-results report.html plan.json
