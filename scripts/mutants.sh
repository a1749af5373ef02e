#!/bin/sh
# mutants.sh [-n N] [-s SEED] [FOLDER...]: how many mutants of the sources the unit tests catch. From
# each folder of src/ about N mutants (20 unless told) are taken, evenly over all there are and from
# where SEED says (1 unless told), so that the same call takes the same ones. Prints a table by folder
# and each mutant that was missed; the details stay in target/mutants. It decides nothing: exit 0.
set -eu
cd "$(dirname "$0")/.."
. scripts/lib.sh
FOLDERS='machine/parse model decide/experiment decide/plan change/apply machine/store measure/search decide/kernel'
OUT=${CARGO_TARGET_DIR:-target}/mutants

each=20 seed=1
while getopts n:s: option; do
    case $option in
    n) each=$OPTARG ;;
    s) seed=$OPTARG ;;
    *) say 'usage: scripts/mutants.sh [-n N] [-s SEED] [FOLDER...]'; exit 2 ;;
    esac
done
shift $((OPTIND - 1))
# shellcheck disable=SC2086 # the folders are words
[ $# -gt 0 ] || set -- $FOLDERS

use_rust || { say "mutants: no Rust 1.$RUST_WANTED_MINOR or later; run: make build"; exit 5; }
cargo mutants --version >/dev/null 2>&1 || {
    say 'mutants: cargo-mutants is not installed'
    say 'hint: cargo install --locked cargo-mutants'
    exit 5
}

count() { if [ -r "$1" ]; then wc -l <"$1"; else echo 0; fi; }

mkdir -p "$OUT"
: >"$OUT/table"
for folder in "$@"; do
    all=$(cargo mutants --list --file "src/$folder/**/*.rs" | wc -l)
    [ "$all" -gt 0 ] || { say "mutants: nothing to mutate in src/$folder"; exit 2; }
    shards=$(((all + each - 1) / each))
    out=$OUT/$(echo "$folder" | tr / -)
    rm -rf "$out"
    mkdir -p "$out"
    code=0
    cargo mutants --file "src/$folder/**/*.rs" --shard "$((seed % shards))/$shards" --sharding round-robin \
        --package linerate --baseline skip --timeout 300 --output "$out" -- --lib || code=$?
    # 2 and 3: some were missed, or some ran too long; anything else is no result.
    case $code in 0 | 2 | 3) ;; *) say "mutants: cargo mutants ended with exit code $code in src/$folder"; exit "$code" ;; esac
    result=$out/mutants.out
    missed=$(count "$result/missed.txt")
    # What never ends has been noticed too.
    caught=$(($(count "$result/caught.txt") + $(count "$result/timeout.txt")))
    tried=$((caught + missed))
    share=-
    [ "$tried" = 0 ] || share=$((caught * 100 / tried))
    printf '%-20s %5d of %5d tried, %4d caught (%s %%), %d not compilable\n' \
        "$folder" "$tried" "$all" "$caught" "$share" "$(count "$result/unviable.txt")" | tee -a "$OUT/table"
done
echo
cat "$OUT/table"
for folder in "$@"; do
    sed "s/^/missed: /" "$OUT/$(echo "$folder" | tr / -)/mutants.out/missed.txt"
done
