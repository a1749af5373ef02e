#!/bin/sh
# setup.sh build|demo|test: finds what this machine lacks and installs it by apt-get, saying so;
# where it may not, prints the exact command and exits 5. Does nothing when nothing is missing.
set -eu
cd "$(dirname "$0")/.."
. scripts/lib.sh

purpose=${1:-}
case $purpose in build | demo | test) ;; *) say 'usage: scripts/setup.sh build|demo|test'; exit 2 ;; esac

have() { command -v "$1" >/dev/null 2>&1; }

# Packages that are needed, and those that only some checks want (a check without its tool is
# skipped by name, so their absence from the archive must not stop anybody).
needed=''
wanted=''
reasons=''
need() { needed="$needed $1"; reasons="$reasons
  - $2"; }

# A static link needs libc.a and the start files too, so try exactly that.
links() {
    have cc || return 1
    object=$(mktemp) || return 1
    if echo 'int main(void) { return 0; }' | cc -x c - -static -o "$object" 2>/dev/null; then links=0; else links=1; fi
    rm -f "$object"
    return "$links"
}

static_busybox() { have busybox && ! ldd "$(command -v busybox)" 2>/dev/null | grep -q '=>'; }

candidate() { apt-cache policy "$1" 2>/dev/null | sed -n 's/^  Candidate: //p'; }

# new_enough PACKAGE: can apt install it at the wanted version or later?
new_enough() {
    minor=$(candidate "$1" | sed -n 's/^\([0-9]*:\)\{0,1\}1\.\([0-9][0-9]*\)\..*/\2/p')
    [ "${minor:-0}" -ge "$RUST_WANTED_MINOR" ]
}

# The newest Rust that the archive offers, as a suffix pattern: Debian 12 carries one for building
# browsers (rustc-web, from its security archive), Debian 13 a plain one, Ubuntu versioned ones.
# Prints "RUSTC CARGO CLIPPY RUSTFMT".
rust_packages() {
    if new_enough rustc-web; then
        echo 'rustc-web cargo-web rust-web-clippy rustfmt-web'
    elif new_enough rustc && new_enough cargo; then
        echo 'rustc cargo rust-clippy rustfmt'
    else
        newest=$(apt-cache search --names-only '^rustc-1\.[0-9]+$' 2>/dev/null |
            sed -n 's/^rustc-1\.\([0-9][0-9]*\) .*/\1/p' | sort -n | tail -n 1)
        if [ "${newest:-0}" -ge "$RUST_WANTED_MINOR" ]; then
            echo "rustc-1.$newest cargo-1.$newest rust-1.$newest-clippy rustfmt-1.$newest"
        fi
    fi
}

lists_are_empty() { ! ls /var/lib/apt/lists/*Packages* >/dev/null 2>&1; }

may_install=yes
find_root || may_install=no
have apt-get || may_install=no

updated=no
update_lists() {
    [ "$updated" = no ] || return 0
    updated=yes
    say 'setup: fetching the package lists (apt-get update)'
    # shellcheck disable=SC2086 # AS_ROOT is words
    $AS_ROOT apt-get update -qq || say 'setup: apt-get update failed; going on with the lists there are'
}

# --- what is missing ---------------------------------------------------------------------------
links || need 'gcc libc6-dev' 'a C compiler driver and libc to link with'
rust_missing=no
use_rust || rust_missing=yes
[ -r /etc/ssl/certs/ca-certificates.crt ] || [ -n "${SSL_CERT_FILE:-}" ] ||
    need ca-certificates 'certificates, for cargo to fetch the dependencies'
if [ "$purpose" = test ]; then
    have qemu-system-x86_64 || need qemu-system-x86 'QEMU, for the tests in a virtual machine'
    have qemu-system-aarch64 || wanted="$wanted qemu-system-arm" # a guest with two kinds of CPU
    static_busybox || need busybox-static 'a static busybox, for the guest of those tests'
    have depmod || [ -x /sbin/depmod ] || need kmod "depmod, for the guest kernel's modules"
    have ip || [ -x /sbin/ip ] || need iproute2 'ip, an independent view of what the tests leave behind'
    # The tests of PPPoE run the real programs in a guest.
    have pppd || [ -x /usr/sbin/pppd ] || need ppp "pppd, for the tests of PPPoE"
    have pppoe-server || [ -x /usr/sbin/pppoe-server ] || need pppoe "pppoe-server, for pppd to dial"
    have shellcheck || wanted="$wanted shellcheck"
    # Independent witnesses of what the tests do, and what the generator is compared with.
    for tool in iperf3 ethtool nft:nftables iptables-legacy:iptables strace mandoc zsh fish; do
        have "${tool%:*}" || [ -x "/usr/sbin/${tool%:*}" ] || wanted="$wanted ${tool#*:}"
    done
    have mmdebstrap || wanted="$wanted mmdebstrap" # the guest with systemd
    # The page's tests: a browser, and what runs them.
    have node || wanted="$wanted nodejs"
    have npm || wanted="$wanted npm"
    have chromium || wanted="$wanted chromium"
    have mke2fs || [ -x /sbin/mke2fs ] || wanted="$wanted e2fsprogs"
fi

lint_packages() { # the linters that belong to the Rust that is, or will be, there
    if [ "$rust_missing" = yes ]; then
        packages=$(rust_packages)
        echo "$packages" | cut -s -d' ' -f3,4
        return
    fi
    cargo_dir=$(dirname "$(command -v cargo)")
    [ ! -x "$cargo_dir/cargo-clippy" ] || [ ! -x "$cargo_dir/cargo-fmt" ] || return 0
    if [ -x "$cargo_dir/rustup" ]; then
        rustup component add clippy rustfmt >&2 || say 'setup: rustup could not add clippy and rustfmt'
    elif have dpkg; then
        case $(dpkg -S "$(readlink -f "$cargo_dir/cargo")" 2>/dev/null) in
        cargo-web:*) echo 'rust-web-clippy rustfmt-web' ;;
        cargo:*) echo 'rust-clippy rustfmt' ;;
        cargo-1.*) dpkg -S "$(readlink -f "$cargo_dir/cargo")" | sed 's/^cargo-\(1\.[0-9]*\).*/rust-\1-clippy rustfmt-\1/' ;;
        esac
    fi
}

if [ "$may_install" = yes ] && { [ "$rust_missing" = yes ] || [ -n "$needed$wanted" ]; } && lists_are_empty; then
    update_lists
fi
if [ "$rust_missing" = yes ]; then
    packages=$(rust_packages)
    if [ -z "$packages" ] && [ "$may_install" = yes ]; then
        update_lists # the lists may be older than the package
        packages=$(rust_packages)
    fi
    if [ -n "$packages" ]; then
        need "$(echo "$packages" | cut -d' ' -f1,2)" "Rust 1.$RUST_WANTED_MINOR or later, with cargo"
    elif ! lists_are_empty; then
        say "setup: Rust 1.$RUST_WANTED_MINOR or later is missing, and this system's packages have none so new."
        say 'hint: install rustup (its package, or https://rustup.rs), then: rustup default stable'
        exit 5
    fi
fi
[ "$purpose" != test ] || wanted="$wanted $(lint_packages)"

# Of the wanted ones, those that the archive has.
extra=
if have apt-cache; then
    for package in $wanted; do
        case $(candidate "$package") in '' | '(none)') say "setup: no package $package here; what needs it is skipped" ;;
        *) extra="$extra $package" ;; esac
    done
fi

if [ -n "$needed$extra" ] || [ "$rust_missing" = yes ]; then
    [ -z "$reasons" ] || say "setup: missing for '$purpose':$reasons"
    # shellcheck disable=SC2086 # package names are words
    set -- $needed $extra
    if [ "$may_install" = no ]; then
        if [ -z "$needed" ] && [ "$rust_missing" = no ]; then exit 0; fi
        say 'hint: this needs root; run:'
        if lists_are_empty || ! have apt-get; then # apt can't be asked yet what there is
            have apt-get || say "  (this system has no apt-get: install the above, and Rust 1.$RUST_WANTED_MINOR or later, by its own package manager)"
            ! have apt-get || say "  sudo apt-get update && sudo scripts/setup.sh $purpose"
        else
            say "  sudo apt-get update && sudo apt-get install -y --no-install-recommends $*"
        fi
        exit 5
    fi
    say "setup: installing: $*"
    install() {
        # shellcheck disable=SC2086 # AS_ROOT is words
        $AS_ROOT env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$@" >&2
    }
    # A first failure is most often a list older than the archive: fetch the lists, try once more.
    if ! install "$@"; then
        update_lists
        install "$@" || {
            say "setup: apt-get install failed"
            say "hint: by hand: sudo apt-get update && sudo apt-get install -y --no-install-recommends $*"
            exit 5
        }
    fi
fi

links || { say 'setup: cc is there but cannot link a static program'; exit 5; }
use_rust || { say "setup: no Rust 1.$RUST_WANTED_MINOR or later found after the installation"; exit 5; }

rustup=$(dirname "$(command -v cargo)")/rustup
# The program for that guest; its test is skipped where there is no rustup to fetch the library.
if [ "$purpose" = test ] && [ -x "$rustup" ] && ! can_build_for "$ARM_TARGET"; then
    say "setup: adding Rust's target $ARM_TARGET, for the guest with two kinds of CPU"
    "$rustup" target add "$ARM_TARGET" >&2 || say "setup: rustup could not add $ARM_TARGET; what needs it is skipped"
fi

# What judges the pages of reports in a browser; that test is skipped where it can't be had.
axe=${CARGO_TARGET_DIR:-target}/axe
if [ "$purpose" = test ] && have chromium && have npm && [ ! -e "$axe/node_modules/axe-core" ]; then
    say 'setup: fetching axe-core, for the tests of pages in a browser'
    mkdir -p "$axe"
    npm install --prefix "$axe" --no-save --silent axe-core@4 >&2 ||
        say 'setup: npm could not fetch axe-core; what needs it is skipped'
fi

# rustup can fetch the library for musl; the build goes without it where this fails.
case $(static_target) in
*-musl) ;;
*-gnu)
    if [ -x "$rustup" ]; then
        musl=$(rustc -vV | sed -n 's/^host: \(.*\)-gnu$/\1-musl/p')
        say "setup: adding Rust's target $musl, for a small static binary"
        "$rustup" target add "$musl" >&2 || say "setup: rustup could not add $musl; building with this system's C library"
    fi
    ;;
esac
# The source of Rust's library, to build it for size; the build goes without it where this fails.
if [ -x "$rustup" ] && ! has_std_source; then
    say "setup: adding the source of Rust's library, for a small static binary"
    "$rustup" component add rust-src >&2 || say "setup: rustup could not add rust-src; the binary will be some larger"
fi
