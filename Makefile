# Everything a person or a machine does here starts from one of these; `make` alone lists them.
.PHONY: help demo build test check lint

help: ## this list
	@sed -n 's/^\([a-z]*\):.*## /  make \1	/p' Makefile

demo: ## tune a router in a box on this kernel, and write linerate-report.html (a few minutes, root)
	@scripts/demo.sh

build: ## the static release binary
	@scripts/setup.sh build
	@scripts/build.sh

test: ## everything: lints, unit tests, namespaces, virtual machines (root; under 25 minutes)
	@scripts/test.sh

check: ## the fast inner loop: all tests but those in a virtual machine
	@scripts/setup.sh build
	@. scripts/lib.sh && use_rust && cargo test --workspace --exclude linerate-vm

lint: ## formatting, clippy, shellcheck, documentation, licences
	@scripts/test.sh lint
