//! The first pages, typed line by line on a router: what changes it, keeps the change and takes it back.

use std::path::Path;

use crate::program;
use crate::router::{Router, need_root, stderr};

const ROOT: &str = env!("CARGO_MANIFEST_DIR");

/// What makes traffic for minutes, or with other hosts; its command lines are held by another test.
const MEASURES: [&str; 2] = ["tune", "bench"];

/// Files that a page takes for granted, and what stands for them.
const GIVEN: [(&str, &str); 4] = [
    ("kernel-a.json", "fixtures/experiments/r4s-placement.json"),
    ("kernel-b.json", "fixtures/experiments/r4s-placement.json"),
    ("fast.config", "fixtures/kernel/debian-6.1.192-amd64.config.gz"),
    ("slow.config", "fixtures/kernel/debian-6.1.192-rt.config.gz"),
];

#[test]
#[ignore = "slow: make test runs it"]
fn what_the_first_pages_say_to_type_works_in_that_order() {
    need_root!();
    for (page, init) in [("openwrt", "openwrt"), ("debian", "systemd"), ("kernels", "systemd")] {
        let text = std::fs::read_to_string(Path::new(ROOT).join(format!("docs/start-{page}.md")));
        let text = text.unwrap();
        let router = Router::new(&format!("page-{page}"));
        for (name, real) in GIVEN {
            std::fs::copy(Path::new(ROOT).join(real), router.place.dir.join(name)).unwrap();
        }
        std::os::unix::fs::symlink(
            Path::new(ROOT).join("fixtures"),
            router.place.dir.join("fixtures"),
        )
        .unwrap();
        let mut typed = 0;
        for line in text.lines().filter_map(|line| line.strip_prefix("$ linerate ")) {
            // Half a minute of sampling shows no more than a second of it.
            let line = line.replace("profile 30s", "profile 1s");
            let words: Vec<&str> = line.split(' ').collect();
            if MEASURES.contains(&words[0]) || !program::has(words[0]) {
                continue;
            }
            let mut command = router.place.command(&words);
            command.env("LINERATE_ROOT_DIR", router.place.dir.join("root"));
            if words[0] == "persist" {
                command.args(["--init", init]);
            }
            let output = router.inside(command);
            let told = stderr(&output);
            let good: &[i32] = match words[0] {
                "check" | "kernel" => &[0, 1],
                // A kernel may not let itself be sampled.
                "profile" => &[0, 4, 5],
                _ => &[0],
            };
            assert!(good.contains(&output.status.code().unwrap()), "{page}: {line}: {told}");
            typed += 1;
        }
        assert!(typed >= 5, "{page}: {typed}");
        // A page may end before everything is undone.
        router.run(&["rollback"]);
    }
}
