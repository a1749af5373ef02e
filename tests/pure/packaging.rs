//! What packages repeat must be the same in each.

use std::path::Path;

fn read(path: &str) -> String {
    std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(path)).unwrap()
}

/// OpenWrt's build reads the Makefile before the source is there, so the script stands in it, with each
/// `$` doubled. opkg gives it no words of dpkg or rpm, and comments are left out.
#[test]
fn openwrts_feed_removes_the_package_as_every_other_does() {
    let whole = read("packaging/openwrt-feed/linerate/Makefile");
    let from_prerm = whole.split_once("define Package/linerate/prerm\n").unwrap().1;
    let in_feed = from_prerm.split_once("\nendef").unwrap().0.replace("$$", "$");
    let script = read("packaging/remove.sh");
    let wanted: Vec<&str> = script
        .lines()
        .filter(|line| line.starts_with("#!") || !line.starts_with('#'))
        .filter(|line| !line.starts_with("case ${1:-remove} ") && !line.is_empty())
        .collect();
    assert!(wanted.len() > 8, "{script}");
    assert_eq!(in_feed.lines().collect::<Vec<_>>(), wanted);
}
