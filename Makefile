# Everything a person or a machine does here starts from one of these; `make` alone lists them.
.PHONY: help demo build router man install dist packages processors test check web lint mutants

help: ## this list
	@sed -n 's/^\([a-z]*\):.*## /  make \1	/p' Makefile

demo: ## tune a router in a box on this kernel, and write linerate-report.html (a few minutes, root)
	@scripts/demo.sh

build: ## the static release binary
	@scripts/setup.sh build
	@scripts/build.sh

router: ## the static release binary with the verbs that a router needs
	@scripts/setup.sh build
	@scripts/build.sh --router

man: ## manual pages and completions of bash, zsh and fish, in target/manual
	@scripts/setup.sh build
	@. scripts/lib.sh && use_rust && cargo run --quiet --locked --example manual target/manual
	@echo target/manual

install: ## the program, its pages and completions below $(DESTDIR)$(PREFIX) (/usr/local)
	@scripts/setup.sh build
	@. scripts/lib.sh && use_rust && for one in manual bill; do cargo run --quiet --locked --example $$one target/manual || exit; done
	@DESTDIR="$(DESTDIR)" PREFIX="$(PREFIX)" scripts/install.sh "$$(scripts/build.sh -q)"

dist: ## the static program for another processor: TARGET=mipsel-unknown-linux-musl (ROUTER=1: the router's)
	@scripts/setup.sh build
	@scripts/build.sh --target "$(TARGET)" $(if $(ROUTER),--router)

packages: ## .deb, .rpm, .ipk (ARCH=mipsel_24kc and the like) and the source with all crates, in target/packages
	@scripts/setup.sh build
	@scripts/packages.sh $(if $(ARCH),--arch $(ARCH))

processors: ## the router's program for each processor that routers have, compared under qemu-user (slow)
	@scripts/setup.sh build
	@scripts/processors.sh

test: ## everything: lints, unit tests, namespaces, virtual machines (root; under 20 minutes)
	@scripts/test.sh

check: ## the fast inner loop: all tests but those that measure traffic or need a virtual machine
	@scripts/setup.sh build
	@. scripts/lib.sh && use_rust && cargo test --lib --bins --test pure --test transaction --test live

web: ## the tests of the page for Cockpit and LuCI (node, Chromium; root for real changes)
	@scripts/setup.sh build
	@. scripts/lib.sh && use_rust && cargo build --quiet --locked
	@LINERATE_WEB_REPORTER=spec scripts/web.sh test

lint: ## formatting, clippy, shellcheck, documentation, licences
	@scripts/test.sh lint

mutants: ## what the unit tests catch of mutants, by folder (a sample; minutes to hours)
	@scripts/setup.sh build
	@scripts/mutants.sh
