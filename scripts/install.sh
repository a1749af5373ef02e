#!/bin/sh
# install.sh BINARY: puts the program, its manual pages, completions, documentation and licences where
# they belong below $DESTDIR$PREFIX (PREFIX is /usr/local when unset). The pages are those of `make man`,
# the licences of others those of `cargo run --example bill`; both lie in $MANUAL (target/manual when unset).
set -eu
cd "$(dirname "$0")/.."
binary=${1:?'usage: scripts/install.sh BINARY'}
prefix=${PREFIX:-/usr/local}
to=${DESTDIR:-}$prefix
pages=${MANUAL:-${CARGO_TARGET_DIR:-target}/manual}

put() { # put DIRECTORY FILE...
    into=$to/$1
    shift
    install -d "$into"
    install -m 644 -t "$into" "$@"
}
install -d "$to/bin"
install -m 755 "$binary" "$to/bin/linerate"
put share/man/man1 "$pages"/man1/*.1
install -d "$to/share/bash-completion/completions"
install -m 644 "$pages/bash/linerate.bash" "$to/share/bash-completion/completions/linerate"
# Distributions may keep the completions of packages apart from what the owner puts there.
put "${ZSH_COMPLETIONS:-share/zsh/site-functions}" "$pages/zsh/_linerate"
put share/fish/vendor_completions.d "$pages/fish/linerate.fish"
put share/doc/linerate README.md CHANGELOG.md LICENSE-MIT LICENSE-APACHE docs/*.md \
    "$pages/third-party-licences.txt" "$pages/linerate.cdx.json"
put share/doc/linerate/schema docs/schema/*.json
install -d "$to/share/linerate/events.d"
install -m 755 -t "$to/share/linerate/events.d" packaging/events.d/*
put share/linerate/prometheus packaging/prometheus/*.yml
install -d "$to/lib/systemd/system"
sed "s|/usr/bin/linerate|$prefix/bin/linerate|; s|/usr/share/|$prefix/share/|" packaging/systemd/linerate-watch.service \
    >"$to/lib/systemd/system/linerate-watch.service"
chmod 644 "$to/lib/systemd/system/linerate-watch.service"
