#!/bin/sh
# test.sh [lint]: all checks and tests (or the static checks alone); ends with a summary and the line
# `N passed, N failed, N skipped`. A test that can't run here says so on stderr (`SKIPPED name: why`)
# and is counted as skipped; with CI=true that is a failure, because CI has root, namespaces and QEMU,
# unless it says `SKIPPED (optional)`: that is for guests of other processors.
set -eu
cd "$(dirname "$0")/.."
. scripts/lib.sh
only=${1:-all}

scripts/setup.sh test
use_rust
start=$(date +%s)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
: >"$work/skipped"
: >"$work/failed"
# Thousands of simulated experiments and searches: minutes to an hour, for figures that only a change of
# the analysis or the search can change. So are those called whole_table.
BY_HAND=a_95_percent_interval_holds_the_truth_over_10_000_simulations
# The tests that run the program with verbs that a router's build has, but for those that take long.
ROUTER_TESTS='archive:: evidence:: replay:: show_schema:: capture:: cli:: confirm:: persist:: record::'
passed=0 failed=0 skipped=0 unmet=0

pass() { passed=$((passed + 1)); printf '  ok       %s\n' "$1"; }
fail() { failed=$((failed + 1)); printf '  FAILED   %s\n' "$1"; echo "$1" >>"$work/failed"; }
skip() { skipped=$((skipped + 1)); printf '  skipped  %s: %s\n' "$1" "$2"; echo "$1: $2" >>"$work/skipped"; }

# check NAME COMMAND...: one static check; its output is shown only when it fails.
check() {
    name=$1
    shift
    if "$@" >"$work/log" 2>&1; then pass "$name"; else
        fail "$name"
        sed 's/^/    /' "$work/log"
    fi
}

# Reads the output of `cargo test -- --show-output`; prints "passed failed ignored" and appends the
# names of failed and skipped tests. A test that prints SKIPPED counts as passed for the test driver:
# its name is that of the section it stands in.
gather() { # gather LOG
    awk -v failures="$work/new_failures" -v skipped="$work/new_skips" '
        /^     Running |^   Doc-tests / { binary = $0; sub(/^ *(Running|Doc-tests) */, "", binary); sub(/ \(.*/, "", binary) }
        /^test result: / {
            for (i = 2; i <= NF; i++) {
                if ($i == "passed;") p += $(i - 1)
                if ($i == "failed;") f += $(i - 1)
                if ($i == "ignored;") g += $(i - 1)
            }
        }
        /^test .* \.\.\. FAILED$/ { print binary ": " $2 >> failures }
        /^test .* \.\.\. ignored, slow: / { g--; next } # left out on purpose, and run elsewhere
        /^test .* \.\.\. ignored/ { why = $0; name = $2; if (!sub(/.* \.\.\. ignored, /, "", why)) why = "ignored"; print "ignored " name ": " why >> skipped }
        /^---- .* stdout ----$/ { test = $2 }
        /^SKIPPED / {
            kind = $2 == "(optional)" ? "waived" : "unmet"
            why = $0; sub(/^SKIPPED (\(optional\) )?[^ ]*: /, "", why)
            key = binary " " test
            if (!(key in seen)) { seen[key] = 1; print kind " " test ": " why >> skipped }
        }
        END { print p + 0, f + 0, g + 0 }
    ' "$1"
}

# Which tests: all of them, those of `make check` too and those that take long.
WHICH=--include-ignored
# run LOG COMMAND...: runs `cargo test` by that command.
run() {
    log=$1
    shift
    # Cargo names the test binaries on stderr; one stream keeps them in order with the results.
    # shellcheck disable=SC2086 # WHICH is words
    "$@" --locked --no-fail-fast -- --show-output --skip "$BY_HAND" --skip whole_table $WHICH >"$log" 2>&1 || echo $? >"$log.code"
}

# count NAME LOG: adds up what it said.
count() {
    echo "$1"
    code=0
    grep -E '^test result: .*[1-9][0-9]* (passed|failed)|^     Running|^error|panicked at' "$2" || true
    [ ! -e "$2.code" ] || code=$(cat "$2.code")
    : >"$work/new_skips"
    : >"$work/new_failures"
    gather "$2" >"$work/counts"
    read -r p f g <"$work/counts"
    ran=$(grep -cE '^(unmet|waived) ' "$work/new_skips" || true)
    passed=$((passed + p - ran)) failed=$((failed + f)) skipped=$((skipped + g + ran))
    unmet=$((unmet + $(grep -c '^unmet ' "$work/new_skips" || true)))
    sed -E 's/^(unmet|waived|ignored) //' "$work/new_skips" >>"$work/skipped"
    if [ "$f" -gt 0 ]; then sed -n '/^failures:$/,/^test result:/p' "$2"; fi
    cat "$work/new_failures" >>"$work/failed"
    if [ "$code" != 0 ] && [ "$f" = 0 ]; then
        fail "$1: ended with exit code $code without a failed test"
        tail -n 60 "$2" | sed 's/^/    /'
    fi
}

# tests NAME WHAT...: runs `cargo test` on that, and adds up what it says.
tests() {
    name=$1
    shift
    rm -f "$work/log.code"
    run "$work/log" cargo test "$@"
    count "$name" "$work/log"
}

# idle COMMAND...: runs it in the time that hardly anything else wants. (Not SCHED_IDLE: a test looks at it.)
idle() { nice -n 19 "$@"; }

# Tests that only compute, or wait for a browser, run in the time which those leave over that
# wait for real traffic: those take ten minutes and hardly any of the CPUs.
beside() {
    run "$work/pure.log" idle cargo test --lib --bins --test pure --test transaction
    LINERATE_PROGRAM=target/debug/linerate idle timeout 900 scripts/web.sh test >"$work/page.log" 2>&1 || true
    LINERATE_PROGRAM=target/debug/linerate idle timeout 2400 scripts/ansible.sh test -rsf >"$work/fleet.log" 2>&1 || true
}

# The release binaries, whole and for a router, and (where Rust can) whole for the arm64 guest: one long
# link each, which leaves the other CPUs to the checks and the first tests. Those that measure come last
# (`traffic`), and only the guests need the binaries.
releases() {
    if idle scripts/build.sh -q --router >"$work/router" 2>"$work/router.log"; then :; else rm "$work/router"; fi
    if idle scripts/build.sh -q >"$work/binary" 2>"$work/binary.log"; then :; else rm "$work/binary"; fi
    if can_build_for "$ARM_TARGET"; then
        if idle scripts/build.sh --target "$ARM_TARGET" >"$work/arm.log" 2>&1; then mv "$work/arm.log" "$work/arm"; fi
    fi
}

# What the page's tests said: node's own runner tells what passed; what needs a browser or Cockpit is skipped
# without one.
count_page() {
    echo 'the page for Cockpit and LuCI'
    total() { sed -n "s/^# $1 \([0-9]*\)\$/\1/p" "$work/page.log" | tail -n 1; }
    p=$(total pass) f=$(total fail)
    if [ -z "$p" ] && why=$(grep -o 'SKIPPED (optional) page: .*' "$work/page.log"); then
        skip 'the page' "${why#*: }"
        return
    elif [ -z "$p" ]; then
        fail 'the page: its tests did not run to the end'
        sed 's/^/    /' "$work/page.log"
        return
    fi
    sed -n 's/^ok [0-9]* - \(.*\) # SKIP \(.*\)/\1: \2/p' "$work/page.log" >"$work/new_skips"
    cat "$work/new_skips" >>"$work/skipped"
    skipped=$((skipped + $(wc -l <"$work/new_skips"))) passed=$((passed + p)) failed=$((failed + f))
    echo "  $p passed, $f failed"
    sed -n 's/^not ok [0-9]* - /the page: /p' "$work/page.log" >>"$work/failed"
    [ "$f" = 0 ] || sed 's/^/    /' "$work/page.log"
}

# What the collection's tests said: pytest's last line tells how many.
count_fleet() {
    echo 'the collection for Ansible'
    total() { grep -E ' in [0-9.]+s' "$work/fleet.log" | tail -n 1 | grep -oE "[0-9]+ $1" | cut -d ' ' -f 1; }
    p=$(total passed) f=$(total failed) s=$(total skipped)
    if why=$(grep -o 'SKIPPED (optional) fleet: .*' "$work/fleet.log"); then
        skip 'the collection' "${why#*: }"
        return
    elif [ -z "$p$f$s" ]; then
        fail 'the collection: its tests did not run to the end'
        sed 's/^/    /' "$work/fleet.log"
        return
    fi
    sed -n 's/^SKIPPED \[[0-9]*\] //p' "$work/fleet.log" >>"$work/skipped"
    passed=$((passed + ${p:-0})) failed=$((failed + ${f:-0})) skipped=$((skipped + ${s:-0}))
    echo "  ${p:-0} passed, ${f:-0} failed"
    sed -n 's/^FAILED \(.*\)/the collection: \1/p' "$work/fleet.log" >>"$work/failed"
    [ "${f:-0}" = 0 ] || sed 's/^/    /' "$work/fleet.log"
}

has_cargo() { cargo "$1" --version >/dev/null 2>&1; }

if [ "$only" = all ]; then
    releases &
    releases=$!
fi
echo 'static checks'
if has_cargo fmt; then check 'format' cargo fmt --all --check; else skip 'format' 'no cargo fmt here'; fi
if has_cargo clippy; then
    check 'clippy' cargo clippy --quiet --workspace --all-targets --locked -- -D warnings
    check 'clippy (router)' cargo clippy --quiet --no-default-features --features router --locked -- -D warnings
else skip 'clippy' 'no cargo clippy here'; fi
if command -v shellcheck >/dev/null; then
    check 'shellcheck' shellcheck -x scripts/*.sh packaging/*.sh packaging/openwrt/* packaging/debian/postrm web/test/*.sh .ci/run
else skip 'shellcheck' 'no package of it here'; fi
check 'documentation' env RUSTDOCFLAGS='-D warnings' cargo doc --quiet --workspace --no-deps --locked
if has_cargo deny; then
    check 'licences (cargo deny)' cargo deny --offline check licenses bans sources
else skip 'licences (cargo deny)' 'not installed; cargo install --locked cargo-deny takes minutes'; fi

if [ "$only" = all ]; then
    check 'the tests can be built' cargo test --quiet --no-run --workspace --locked
    beside &
    beside=$!
    tests 'real devices, journals and traffic, in namespaces' --test interrupt --test live --test traffic
    wait "$beside"
    count 'units, simulations and captured machines' "$work/pure.log"
    count_page
    count_fleet
    tests 'examples in the documentation' --doc
    wait "$releases"
    if [ -e "$work/binary" ]; then
        LINERATE_VM_BINARY=$(cat "$work/binary")
        pass "static binary: $(wc -c <"$LINERATE_VM_BINARY") bytes"
        export LINERATE_VM_BINARY
    else
        fail 'static binary'
        sed 's/^/    /' "$work/binary.log"
    fi
    if [ -e "$work/router" ]; then
        LINERATE_TEST_PROGRAM=$(cat "$work/router")
        pass "static router binary: $(wc -c <"$LINERATE_TEST_PROGRAM") bytes"
        export LINERATE_TEST_PROGRAM
        WHICH=$ROUTER_TESTS
        tests 'the router binary, by the same tests' --test pure --test live
        WHICH=--include-ignored
        unset LINERATE_TEST_PROGRAM
    else
        fail 'static router binary'
        sed 's/^/    /' "$work/router.log"
    fi
    # Without it, the test in the arm64 guest is skipped.
    if [ -e "$work/arm" ]; then pass 'static binary for arm64'; elif [ -e "$work/arm.log" ]; then
        fail 'static binary for arm64'
        sed 's/^/    /' "$work/arm.log"
    fi
    tests 'virtual machines' --package linerate-vm
    skip "$BY_HAND" '30,000 simulated experiments; by hand'
fi

echo
if [ -s "$work/failed" ]; then
    echo 'failed:'
    sed 's/^/  /' "$work/failed"
fi
if [ -s "$work/skipped" ]; then
    echo 'skipped:'
    sed 's/^/  /' "$work/skipped"
fi
code=0
[ "$failed" = 0 ] || code=1
if [ "${CI:-}" = true ] && [ "$unmet" -gt 0 ]; then
    echo "$unmet skipped test(s) need what CI must have (root, namespaces, QEMU and a guest kernel): that fails here"
    code=1
fi
seconds=$(($(date +%s) - start))
if [ "$code" = 0 ]; then verdict='all is well'; else verdict='something is wrong'; fi
echo "$verdict, after $((seconds / 60)) min $((seconds % 60)) s"
echo "$passed passed, $failed failed, $skipped skipped"
exit "$code"
