//! What packages repeat must be the same in each.

use std::path::Path;

fn read(path: &str) -> String {
    std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(path)).unwrap()
}

/// The script of a Makefile of OpenWrt's, each `$` of which is doubled.
fn in_makefile(path: &str, script: &str) -> Vec<String> {
    let whole = read(path);
    let start = whole.split_once(&format!("define {script}\n")).unwrap().1;
    let text = start.split_once("\nendef").unwrap().0.replace("$$", "$");
    text.lines().map(str::to_owned).collect()
}

/// The lines of a script, comments left out.
fn commands(path: &str) -> Vec<String> {
    let text = read(path);
    let lines = text.lines().filter(|line| line.starts_with("#!") || !line.starts_with('#'));
    lines.filter(|line| !line.is_empty()).map(str::to_owned).collect()
}

/// OpenWrt's build reads the Makefile before the source is there, so the script stands in it. opkg gives it no
/// words of dpkg or rpm.
#[test]
fn openwrts_feed_removes_the_package_as_every_other_does() {
    let in_feed = in_makefile("packaging/openwrt-feed/linerate/Makefile", "Package/linerate/prerm");
    let mut wanted = commands("packaging/remove.sh");
    wanted.retain(|line| !line.starts_with("case ${1:-remove} "));
    assert!(wanted.len() > 8, "{wanted:?}");
    assert_eq!(in_feed, wanted);
}

#[test]
fn lucis_feed_shows_the_page_at_once_as_the_package_does() {
    let in_feed = in_makefile("web/luci/Makefile", "Package/luci-app-linerate/postinst");
    assert_eq!(in_feed, commands("packaging/openwrt/luci.postinst"));
}

#[test]
fn recipes_of_other_builders_are_of_the_programs_version() {
    for (path, key) in [
        ("packaging/alpine/APKBUILD", "pkgver="),
        ("packaging/arch/PKGBUILD", "pkgver="),
        ("packaging/openwrt-feed/linerate/Makefile", "PKG_VERSION:="),
        ("web/luci/Makefile", "PKG_VERSION:="),
    ] {
        let text = read(path);
        let version = text.lines().find_map(|line| line.strip_prefix(key));
        assert_eq!(version, Some(env!("CARGO_PKG_VERSION")), "{path}");
    }
}

/// The collection for Ansible is built and installed without the rest of the project.
#[test]
fn the_fleets_page_looks_as_all_reports_do() {
    let (copy, ours) = ("ansible/roles/report/files/style.css", "src/report/render/style.css");
    assert!(read(copy) == read(ours), "cp {ours} {copy}");
}
