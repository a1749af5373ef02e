//! Helpers for unit tests.

/// Ends a test that can't run here, counted by name: `make test` reads these lines and a skip is
/// a failure in CI.
#[macro_export]
macro_rules! skip {
    ($($why:tt)*) => {{
        #[allow(clippy::print_stderr, reason = "read by the test driver")]
        {
            std::eprintln!("SKIPPED {}: {}", std::thread::current().name().unwrap_or("?"), format_args!($($why)*));
        }
        return;
    }};
}

/// A new directory of the calling test's own, in memory where there is such a place. The test
/// removes it.
pub(crate) fn scratch(name: &str) -> std::path::PathBuf {
    let base = std::path::Path::new("/dev/shm");
    let base = if base.is_dir() { base.to_owned() } else { std::env::temp_dir() };
    let dir = base.join(format!("linerate-test-{}-{name}", std::process::id()));
    std::fs::create_dir(&dir).expect("a scratch directory");
    dir
}
