//! What scripts/setup.sh decides on machines that lack things, with stand-ins for apt and the
//! compilers on PATH: a newcomer either gets what is missing, or the exact command.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

/// A machine made of a directory of programs.
struct Scene {
    directory: PathBuf,
}

impl Scene {
    /// With the tools that every system has, and apt with these packages (`name version` lines).
    fn new(name: &str, user: u32, packages: &str) -> Self {
        let directory =
            std::env::temp_dir().join(format!("linerate-setup-{}-{name}", std::process::id()));
        fs::create_dir_all(directory.join("bin")).unwrap();
        let scene = Self { directory };
        for tool in
            ["sh", "sed", "cut", "sort", "tail", "dirname", "grep", "rm", "mktemp", "cat", "env"]
        {
            let real = ["/usr/bin", "/bin"].iter().map(|d| Path::new(d).join(tool));
            let real = real.into_iter().find(|p| p.exists()).expect(tool);
            symlink(real, scene.directory.join("bin").join(tool)).unwrap();
        }
        let list = scene.directory.join("packages");
        fs::write(&list, packages).unwrap();
        let (list, log) = (list.display(), scene.log().display().to_string());
        scene.program("id", &format!("echo {user}"));
        scene.program("ls", "exit 0"); // the package lists are there
        scene.program(
            "apt-cache",
            &format!(
                "case $1 in\n\
                 policy) sed -n \"s/^$2 /  Candidate: /p\" {list} ;;\n\
                 search) sed -n 's/^\\(rustc-1\\.[0-9]*\\) .*/\\1 - compiler/p' {list} ;;\nesac"
            ),
        );
        scene.program("apt-get", &format!("echo \"$@\" >>{log}"));
        scene
    }

    fn log(&self) -> PathBuf {
        self.directory.join("log")
    }

    fn program(&self, name: &str, body: &str) {
        let path = self.directory.join("bin").join(name);
        fs::write(&path, format!("#!/bin/sh\n{body}\n")).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    }

    /// Rust of this version, as a package would install it.
    fn rust(&self, version: &str) {
        self.program("cargo", &format!("echo 'cargo {version} (x)'"));
        self.program("rustc", &format!("echo 'rustc {version} (x)'"));
    }

    /// The exit code, what was said, and what apt-get was asked for.
    fn setup(&self, purpose: &str) -> (i32, String, String) {
        let out = Command::new("/bin/sh")
            .args(["scripts/setup.sh", purpose])
            .current_dir(env!("CARGO_MANIFEST_DIR"))
            .env_clear()
            .env("PATH", self.directory.join("bin"))
            .env("HOME", &self.directory)
            .env("SSL_CERT_FILE", "/dev/null")
            .env("LINERATE_RUST_DIRS", "") // not this machine's packages
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&out.stderr).into_owned();
        (out.status.code().unwrap(), said, fs::read_to_string(self.log()).unwrap_or_default())
    }
}

impl Drop for Scene {
    fn drop(&mut self) {
        drop(fs::remove_dir_all(&self.directory));
    }
}

const DEBIAN_12: &str =
    "rustc-web 1.96.0+dfsg1-1~deb12u2\nrustc 1.63.0+dfsg1-2\ncargo 0.66.0+ds1-1\n";
const DEBIAN_13: &str =
    "rustc-web 1.96.0+dfsg1-1~deb13u1+b1\nrustc 1.85.0+dfsg3-1\ncargo 1.85.0+dfsg3-1\n";
const DEBIAN_14: &str = "rustc 1.92.0+dfsg1-1\ncargo 1.92.0+dfsg1-1\n";
const UBUNTU: &str =
    "rustc 1.75.0+dfsg0ubuntu1-0ubuntu7\ncargo 1.75.0\nrustc-1.76 1.76.0\nrustc-1.89 1.89.0\n";
const OLD: &str = "rustc 1.63.0+dfsg1-2\ncargo 0.66.0+ds1-1\n";

#[test]
fn a_complete_machine_is_left_alone() {
    let scene = Scene::new("complete", 0, DEBIAN_12);
    scene.program("cc", "exit 0");
    scene.rust("1.88.0");
    assert_eq!(scene.setup("build"), (0, String::new(), String::new()));
}

#[test]
fn without_root_the_exact_command_is_printed_and_nothing_installed() {
    for (name, packages, rust) in [
        ("deb12", DEBIAN_12, "rustc-web cargo-web"),
        ("deb13", DEBIAN_13, "rustc-web cargo-web"),
        ("deb14", DEBIAN_14, "rustc cargo"),
        ("ubuntu", UBUNTU, "rustc-1.89 cargo-1.89"),
    ] {
        let scene = Scene::new(name, 1000, packages);
        scene.program("cc", "exit 1");
        let (code, said, asked) = scene.setup("build");
        assert_eq!((code, asked.as_str()), (5, ""), "{said}");
        let command = format!(
            "sudo apt-get update && sudo apt-get install -y --no-install-recommends gcc libc6-dev {rust}\n"
        );
        assert!(said.contains(&command), "{said}");
    }
}

#[test]
fn root_gets_the_missing_packages_and_a_rust_that_is_too_old_does_not_count() {
    let scene = Scene::new("root", 0, DEBIAN_12);
    scene.program("cc", "exit 0");
    scene.rust("1.87.1");
    let (code, said, asked) = scene.setup("demo");
    assert!(
        asked.contains("install -y -qq --no-install-recommends rustc-web cargo-web"),
        "{asked}"
    );
    assert!(said.contains("setup: installing: rustc-web cargo-web"), "{said}");
    // The stand-in installs nothing, which is noticed.
    assert_eq!(code, 5, "{said}");
    assert!(said.contains("after the installation"), "{said}");
}

/// What the scripts ask for is what Cargo.toml asks for: else the build would fail after the set-up.
#[test]
fn the_scripts_want_the_rust_of_the_manifest() {
    let root = env!("CARGO_MANIFEST_DIR");
    let manifest = fs::read_to_string(format!("{root}/Cargo.toml")).unwrap();
    let wanted = manifest.split("rust-version = \"1.").nth(1).unwrap();
    let wanted = wanted.split('"').next().unwrap();
    let library = fs::read_to_string(format!("{root}/scripts/lib.sh")).unwrap();
    assert!(library.contains(&format!("\nRUST_WANTED_MINOR={wanted} ")), "{wanted}");
}

#[test]
fn where_no_package_is_new_enough_rustup_is_named() {
    let scene = Scene::new("old", 0, OLD);
    scene.program("cc", "exit 0");
    let (code, said, _) = scene.setup("build");
    assert_eq!(code, 5, "{said}");
    assert!(said.contains("rustup default stable"), "{said}");
}

#[test]
fn rustup_is_asked_for_the_musl_target_and_the_build_goes_on_without_it() {
    let scene = Scene::new("musl", 0, DEBIAN_12);
    scene.program("cc", "exit 0");
    scene.rust("1.88.0");
    scene.program(
        "rustc",
        "case $1 in -vV) echo 'host: riscv64gc-unknown-linux-gnu' ;; --print) echo /nowhere ;; \
         *) echo 'rustc 1.88.0 (x)' ;; esac",
    );
    for (answer, told) in [("exit 0", false), ("exit 1", true)] {
        scene.program("rustup", &format!("echo asked \"$@\" >&2\n{answer}"));
        let (code, said, _) = scene.setup("build");
        assert_eq!(code, 0, "{said}");
        assert!(said.contains("asked target add riscv64gc-unknown-linux-musl"), "{said}");
        assert_eq!(said.contains("with this system's C library"), told, "{said}");
        assert!(said.contains("asked component add rust-src"), "{said}");
        assert_eq!(said.contains("will be some larger"), told, "{said}");
    }
}

/// The guest with two kinds of CPU needs a program for it: asked for by the tests alone, and no
/// reason to stop where it can't be had.
#[test]
fn the_tests_ask_rustup_for_the_arm64_target_and_go_on_without_it() {
    let scene = Scene::new("arm", 0, DEBIAN_12);
    scene.program("cc", "exit 0");
    scene.rust("1.88.0");
    scene.program(
        "rustc",
        "case $1 in -vV) echo 'host: x86_64-unknown-linux-gnu' ;; --print) echo /nowhere ;; \
         *) echo 'rustc 1.88.0 (x)' ;; esac",
    );
    for answer in ["exit 0", "exit 1"] {
        scene.program("rustup", &format!("echo asked \"$@\" >&2\n{answer}"));
        let (code, said, asked) = scene.setup("test");
        assert_eq!(code, 0, "{said}");
        assert!(said.contains("asked target add aarch64-unknown-linux-musl"), "{said}");
        assert_eq!(said.contains("could not add aarch64"), answer == "exit 1", "{said}");
        assert!(!asked.contains("qemu-system-arm"), "no such package in this archive: {asked}");
        let (_, said, _) = scene.setup("build");
        assert!(!said.contains("aarch64"), "a build needs no other processor: {said}");
    }
}
