#!/bin/sh
# processors.sh [--built] [--all] [NAME...]: for each processor that routers have (all of them where none is
# named) builds the router's program, runs `show`, `check` and `plan` on captured machines under qemu-user,
# and compares their JSON with that of this machine's own build, byte for byte. The machines are those of
# fixtures/hosts; with --all also scenes and outcomes (hours). With --built takes what is built already.
# Prints a line for each processor: triple, bytes, bytes packed by xz, and how many answers are the same.
set -eu
cd "$(dirname "$0")/.."
. scripts/lib.sh

# NAME TRIPLE QEMU. MIPS is soft float as the 24Kc and 1004Kc of routers are; armv6 and armv5 have no
# floating point registers either.
PROCESSORS='
i686 i686-unknown-linux-musl i386
aarch64 aarch64-unknown-linux-musl aarch64
armv7 armv7-unknown-linux-musleabihf arm
armv6 arm-unknown-linux-musleabi arm
armv5 armv5te-unknown-linux-musleabi arm
mips mips-unknown-linux-musl mips
mipsel mipsel-unknown-linux-musl mipsel
riscv64 riscv64gc-unknown-linux-musl riscv64
'
OWN=x86_64-unknown-linux-musl
built=no
all=no
while :; do
    case ${1:-} in
    --built) built=yes ;;
    --all) all=yes ;;
    *) break ;;
    esac
    shift
done
use_rust || { say "processors: no Rust 1.$RUST_WANTED_MINOR or later; run: make build"; exit 5; }
[ "$(uname -m)" = x86_64 ] || { say 'processors: compares with x86_64, so run it there'; exit 5; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
releases=${CARGO_TARGET_DIR:-target}

# program TRIPLE: the path of the router's program for it; nothing where it is not to be had.
program() {
    binary=$releases/$1/release/linerate-router
    if [ "$built" = no ]; then scripts/build.sh -q --router --target "$1"; elif [ -x "$binary" ]; then echo "$binary"; fi
}

# answers DIRECTORY COMMAND...: what the program says of every captured machine, a file for each answer.
# The exit code belongs to it: `check` found something. The program is called linerate by its messages.
answers() {
    into=$1
    shift
    mkdir "$into"
    for host in "$work"/hosts/*; do
        machine=$(basename "$host")
        for verb in show check plan; do
            answer=$into/$machine.$verb
            output=
            [ "$verb" != plan ] || output='--output plan.toml --force'
            # shellcheck disable=SC2086 # options are words
            (cd "$into" && code=0 && "$@" "$verb" --json --host "$host" $output >"$answer" 2>"$answer.err" || code=$?
            echo "exit $code" >>"$answer.err")
        done
        mv "$into/plan.toml" "$into/$machine.toml" 2>/dev/null || true
    done
}

mkdir "$work/hosts"
for host in fixtures/hosts/*/; do
    name=$(basename "$host")
    if [ -e "$host/capture.tar.gz" ]; then host=$host/capture.tar.gz; fi
    ln -s "$PWD/$host" "$work/hosts/$name"
done
if [ "$all" = yes ]; then
    for scene in fixtures/scenes/*.txt; do
        cargo run --quiet --locked --example unpack-scene "$scene" "$work/hosts/$(basename "$scene" .txt)"
    done
    mkdir "$work/outcomes"
    tar xzf fixtures/outcomes/hosts.tar.gz -C "$work/outcomes"
    for host in "$work"/outcomes/*/*/; do
        ln -s "$host" "$work/hosts/$(basename "$(dirname "$host")")-$(basename "$host")"
    done
fi

own=$(program $OWN)
[ -n "$own" ] || { say "processors: $OWN is not built"; exit 5; }
answers "$work/own" "$(readlink -f "$own")"
grep -lx 'exit 0' "$work"/own/*.show.err >/dev/null || { say 'processors: this machine answers nothing itself'; exit 1; }

# shellcheck disable=SC2046 # names are words
[ $# != 0 ] || set -- $(echo "$PROCESSORS" | cut -d' ' -f1)
code=0
for name; do
    line=$(echo "$PROCESSORS" | grep "^$name ") || { say "processors: there is no $name; there are: $(echo "$PROCESSORS" | cut -d' ' -f1 | tr '\n' ' ')"; exit 2; }
    triple=$(echo "$line" | cut -d' ' -f2)
    qemu=qemu-$(echo "$line" | cut -d' ' -f3)-static
    binary=$(program "$triple") || { echo "$name: $triple could not be built"; code=1; continue; }
    [ -n "$binary" ] || { echo "$name: $triple is not built"; continue; }
    sizes="$name: $triple, $(wc -c <"$binary") bytes, $(xz -9 --stdout "$binary" | wc -c) packed"
    command -v "$qemu" >/dev/null || { echo "$sizes; not run, for there is no $qemu here"; continue; }
    answers "$work/$name" "$qemu" "$(readlink -f "$binary")"
    files=$(find "$work/own" -type f | wc -l)
    if diff -r "$work/own" "$work/$name" >"$work/diff"; then
        echo "$sizes; all $files files of answers are the same"
        continue
    fi
    code=1
    echo "$sizes; $(grep -Ec '^(diff|Only in) ' "$work/diff") of $files files of answers DIFFER"
    sed -n '1,40p' "$work/diff" | cut -c1-200 | sed 's/^/    /'
done
exit "$code"
