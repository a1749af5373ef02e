# shellcheck shell=sh
# Shared by the scripts here; sourced, never run. Needs nothing but a POSIX shell.

RUST_WANTED_MINOR=88 # Rust 1.88: the first with `if let ... && ...`; as in Cargo.toml

say() { printf '%s\n' "$*" >&2; }

# The minor version in the output of `rustc --version` or `cargo --version`; nothing when it is
# not a 1.x (or when a rustup proxy without a toolchain answers with an error).
rust_minor() { "$1" --version 2>/dev/null | sed -n 's/^[a-z]* 1\.\([0-9][0-9]*\)\..*/\1/p'; }

# rust_in DIR: does DIR hold a cargo and a rustc that are new enough?
rust_in() {
    for tool in cargo rustc; do
        [ -x "$1/$tool" ] || return 1
        minor=$(rust_minor "$1/$tool")
        [ "${minor:-0}" -ge "$RUST_WANTED_MINOR" ] || return 1
    done
}

# Puts a Rust that is new enough first on PATH: the caller's own, rustup's, or a versioned package
# (Ubuntu keeps those under /usr/lib/rust-1.NN/bin). False when there is none.
use_rust() {
    if cargo=$(command -v cargo) && rust_in "$(dirname "$cargo")"; then return 0; fi
    found=
    # shellcheck disable=SC2086 # the pattern is one; a test names other places
    for dir in "${CARGO_HOME:-$HOME/.cargo}/bin" ${LINERATE_RUST_DIRS-/usr/bin /usr/lib/rust-1.*/bin}; do
        if rust_in "$dir"; then found=$dir; fi
        case $found in */.cargo/bin) break ;; esac
    done
    [ -n "$found" ] || return 1
    PATH=$found:$PATH
    export PATH
}

# Sets AS_ROOT to the words that run a command as root without asking; false when there are none.
find_root() {
    AS_ROOT=
    [ "$(id -u)" != 0 ] || return 0
    sudo -n true 2>/dev/null || return 1
    # shellcheck disable=SC2034 # read by the scripts that source this
    AS_ROOT='sudo -n'
}

# The target of the static release binary: musl where Rust's library for it is there, which makes the
# smaller file; else the machine's own, with its C library linked in.
static_target() {
    host=$(rustc -vV | sed -n 's/^host: //p')
    musl=$(echo "$host" | sed 's/-gnu$/-musl/')
    if [ -d "$(rustc --print sysroot)/lib/rustlib/$musl/lib" ]; then echo "$musl"; else echo "$host"; fi
}

# The commit that this is, with a + where files differ from it; a source archive has it written down.
commit() {
    if [ -e .git ]; then
        git describe --always --exclude '*' --abbrev=12 --dirty=+ 2>/dev/null || true
    elif [ -r COMMIT ]; then
        cat COMMIT
    fi
}

# Is the source of Rust's standard library there? With it the library is built along, for size.
has_std_source() { [ -r "$(rustc --print sysroot)/lib/rustlib/src/rust/library/Cargo.lock" ]; }

# The target of the program for the arm64 guest.
# shellcheck disable=SC2034 # read by the scripts that source this
ARM_TARGET=aarch64-unknown-linux-musl

# can_build_for TRIPLE: is Rust's library for it there, and Rust's own linker, which links for all?
can_build_for() {
    libraries=$(rustc --print sysroot)/lib/rustlib
    [ -d "$libraries/$1/lib" ] && [ -x "$libraries/$(rustc -vV | sed -n 's/^host: //p')/bin/rust-lld" ]
}

# Is Zig there, as a linker with a C library for every processor, and cargo's way to it?
can_link_by_zig() {
    cargo zigbuild --help >/dev/null 2>&1 || return 1
    command -v zig >/dev/null || python3 -m ziglang version >/dev/null 2>&1
}
