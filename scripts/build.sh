#!/bin/sh
# build.sh [-q] [--router] [--target TRIPLE]: the static release binary; prints its path and size, fails
# when it is too large or not static. With -q prints the path alone. With --router it has the verbs that
# a router needs (see [features] in Cargo.toml). With --target it is for another processor: linked by
# Rust's own linker where rustup has the library for it, else by Zig's, which brings musl for all of
# them, with Rust's library built along (MIPS, for which Rust has none).
set -eu
cd "$(dirname "$0")/.."
. scripts/lib.sh
LIMIT=$((37 * 1024 * 1024 / 8)) # bytes: routers have little flash; 3 MiB are aimed at
ROUTER=$((29 * 1024 * 1024 / 10)) # bytes, for the build that a router needs; 1.5 MiB are aimed at
GLIBC=900000  # what glibc adds where musl is not to be had
OTHER=600000  # what other linkers keep; tables for unwinding too, where Rust's library is taken as it comes
MIPS=1100000  # what MIPS needs more: no short instructions, no outliner, addresses by a table
STD=450000    # what Rust's library takes more as it comes: built for speed, with all it can do

quiet=no
router=no
wanted=
while [ $# -gt 0 ]; do
    case $1 in
    -q) quiet=yes ;;
    --router) router=yes ;;
    --target)
        wanted=${2:-}
        [ -n "$wanted" ] || { say 'build: --target needs a triple, as rustc names it'; exit 2; }
        shift
        ;;
    *) say 'usage: scripts/build.sh [-q] [--router] [--target TRIPLE]'; exit 2 ;;
    esac
    shift
done

[ "$router" = no ] || LIMIT=$ROUTER
use_rust || { say "build: no Rust 1.$RUST_WANTED_MINOR or later; run: make build"; exit 5; }
triple=${wanted:-$(static_target)}
linker=cc
if [ -n "$wanted" ]; then
    if can_build_for "$wanted"; then
        linker=rust-lld
    elif can_link_by_zig && has_std_source; then
        linker=zig
    else
        say "build: no library and no linker for $wanted here"
        say "hint: rustup target add $wanted; where Rust has none: rustup component add rust-src, pip install ziglang cargo-zigbuild"
        exit 5
    fi
fi
case $triple in
*-musl*) ;;
*)
    say "build: Rust has no musl target here, so the binary carries this system's larger C library"
    LIMIT=$((LIMIT + GLIBC))
    ;;
esac
# With --target, these flags leave build scripts and procedural macros alone, which can't be static.
unset CARGO_ENCODED_RUSTFLAGS
RUSTFLAGS="${RUSTFLAGS:-} -C target-feature=+crt-static"
# A router's flash is small: a fixed address (no relocations), no padding between segments, no
# tables for unwinding, and equal runs of instructions once.
case $linker in
rust-lld)
    LIMIT=$((LIMIT + OTHER))
    RUSTFLAGS="$RUSTFLAGS -C force-unwind-tables=no -C linker=rust-lld -C link-self-contained=yes -C link-arg=-znoseparate-code"
    ;;
zig)
    LIMIT=$((LIMIT + OTHER))
    # Zig's musl is new: seconds have 64 bits, which the libc crate has to be told. Where a processor's
    # assembler is not settled in Rust, rustix calls the kernel by it all the same, and needs no libc.
    RUSTFLAGS="$RUSTFLAGS -C force-unwind-tables=no -C link-self-contained=no --cfg=libc_unstable_musl_v1_2 --cfg=rustix_use_experimental_asm"
    ;;
cc) RUSTFLAGS="$RUSTFLAGS -C link-arg=-Wl,-z,noseparate-code" ;;
esac
case $triple in
# What musl wrote in assembler expects its own address in a register, as code that may lie anywhere
# hands it over; and all of our code in one piece needs more than the 64 KiB of a small table of addresses.
mips*)
    LIMIT=$((LIMIT + MIPS))
    RUSTFLAGS="$RUSTFLAGS -C target-feature=+xgot"
    ;;
*) RUSTFLAGS="$RUSTFLAGS -C relocation-model=static" ;;
esac
case $triple in # the outliner knows these processors
x86_64-* | i686-* | aarch64-* | arm* | riscv*) RUSTFLAGS="$RUSTFLAGS -C llvm-args=-enable-machine-outliner=always" ;;
esac
if [ -z "$wanted" ] && command -v ld.bfd >/dev/null; then # only it knows how to leave the tables out
    RUSTFLAGS="$RUSTFLAGS -C link-arg=-fuse-ld=bfd -C link-arg=-Wl,-T,scripts/no-unwind.ld"
    # Without tables there is nothing to walk, and the walker (libunwind) need not come along: any
    # function that returns a number not 0 says "end of the stack".
    case $triple in *-musl) RUSTFLAGS="$RUSTFLAGS -C link-arg=-Wl,--defsym=_Unwind_Backtrace=getpid" ;; esac
fi
# Two builds in two folders are equal: no path of this machine is in the program.
RUSTFLAGS="$RUSTFLAGS --remap-path-prefix=$PWD=. --remap-path-prefix=${CARGO_HOME:-$HOME/.cargo}=cargo --remap-path-prefix=$(rustc --print sysroot)=rust"
export RUSTFLAGS
commit=$(commit)
features='router, measure, top'
[ "$router" = no ] || features=router
LINERATE_BUILT="$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -n 1) (${commit:+commit $commit, }features: $features)"
export LINERATE_BUILT
build() {
    [ "$router" = no ] || set -- "$@" --no-default-features --features router
    command=build
    [ "$linker" != zig ] || command=zigbuild
    cargo "$command" --quiet --release --locked --package linerate --bin linerate --target "$triple" "$@" >&2
}
# With its source (rustup component add rust-src) Rust's library is built for size and without what
# walks stacks. Cargo calls that unstable; a compiler that will not have it, or no crates to be had,
# is no reason to stop.
small_std() {
    has_std_source || return 1
    RUSTC_BOOTSTRAP=1 build -Zbuild-std=std,panic_abort -Zbuild-std-features=optimize_for_size && return 0
    say "build: Rust's library could not be built along; taking it as it comes"
    return 1
}
if ! small_std; then
    [ "$linker" != zig ] || exit 1
    LIMIT=$((LIMIT + STD))
    build
fi

binary=${CARGO_TARGET_DIR:-target}/$triple/release/linerate
if [ "$router" = yes ]; then # beside the whole program, which has the same name
    cp "$binary" "$binary-router"
    binary=$binary-router
fi
size=$(wc -c <"$binary")
if ldd "$binary" 2>/dev/null | grep -q '=>'; then
    say "build: $binary is not static"
    exit 1
fi
if [ "$size" -ge $LIMIT ]; then
    say "build: $binary has $size bytes, over the limit of $LIMIT"
    exit 1
fi
if [ "$quiet" = yes ]; then readlink -f "$binary"; else echo "$binary: $size bytes, static ($triple)"; fi
