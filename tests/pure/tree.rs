//! A captured directory: links resolve inside it and never lead out.

use std::os::unix::fs::symlink;
use std::path::Path;

use linerate::machine::host::{Captured, HostRead, Tree};
use rustix::io::Errno;

fn tree() -> (std::path::PathBuf, Captured) {
    let name = std::thread::current().name().unwrap().replace(':', "-");
    let root = std::env::temp_dir().join(format!("linerate-tree-{}-{name}", std::process::id()));
    std::fs::create_dir_all(root.join("proc")).unwrap();
    std::fs::create_dir_all(root.join("sys/devices/a")).unwrap();
    std::fs::write(root.join("sys/devices/a/value"), "inside\n").unwrap();
    let tree = Tree::open(&root).unwrap();
    (root, tree)
}

#[test]
fn absolute_links_stay_inside() {
    let (root, tree) = tree();
    symlink("/sys/devices/a", root.join("sys/link")).unwrap();
    assert_eq!(tree.text(Path::new("/sys/link/value")).unwrap(), "inside");
    assert_eq!(tree.resolve(Path::new("/sys/link")).unwrap(), Path::new("/sys/devices/a"));
    std::fs::remove_dir_all(root).unwrap();
}

#[test]
fn no_path_leads_out() {
    let (root, tree) = tree();
    symlink("../../../../../../../etc", root.join("sys/out")).unwrap();
    symlink("/etc/passwd", root.join("sys/passwd")).unwrap();
    for path in ["/sys/out/passwd", "/sys/passwd", "/../../../../etc/passwd"] {
        assert!(tree.read(Path::new(path)).unwrap_err().is_absent(), "{path}");
    }
    std::fs::remove_dir_all(root).unwrap();
}

#[test]
fn link_loops_pipes_and_directories_are_errors_and_do_not_hang() {
    let (root, tree) = tree();
    symlink("/sys/b", root.join("sys/a")).unwrap();
    symlink("/sys/a", root.join("sys/b")).unwrap();
    assert_eq!(tree.read(Path::new("/sys/a")).unwrap_err().errno, Errno::LOOP);
    rustix::fs::mknodat(
        rustix::fs::CWD,
        root.join("sys/pipe"),
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::RUSR,
        0,
    )
    .unwrap();
    assert_eq!(tree.read(Path::new("/sys/pipe")).unwrap_err().errno, Errno::INVAL);
    assert_eq!(tree.read(Path::new("/sys/devices")).unwrap_err().errno, Errno::ISDIR);
    std::fs::remove_dir_all(root).unwrap();
}

#[test]
fn links_as_text_stand_for_links_and_can_not_lead_out_either() {
    let (root, tree_without) = tree();
    drop(tree_without);
    std::fs::create_dir(root.join("linerate")).unwrap();
    std::fs::write(
        root.join("linerate/symlinks"),
        "/sys/class/net/eth0 -> ../../devices/a\n/sys/out -> ../../../../etc/passwd\n/sys/loop -> loop\n",
    )
    .unwrap();
    let tree = Tree::open(&root).unwrap();
    assert_eq!(tree.list(Path::new("/sys/class/net")).unwrap(), ["eth0"]);
    assert_eq!(tree.list(Path::new("/sys")).unwrap(), ["class", "devices", "loop", "out"]);
    assert_eq!(tree.text(Path::new("/sys/class/net/eth0/value")).unwrap(), "inside");
    let resolved = tree.resolve(Path::new("/sys/class/net/eth0")).unwrap();
    assert_eq!(resolved, Path::new("/sys/devices/a"));
    assert!(tree.read(Path::new("/sys/out")).unwrap_err().is_absent());
    assert_eq!(tree.read(Path::new("/sys/loop")).unwrap_err().errno, Errno::LOOP);
    assert_eq!(tree.read(Path::new("/sys/class")).unwrap_err().errno, Errno::ISDIR);
    std::fs::remove_dir_all(root).unwrap();
}
