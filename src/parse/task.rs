//! `/proc/PID/status` of a kernel thread.

use crate::model::cpuset::CpuSet;

/// The CPUs that it may run on (`Cpus_allowed_list`); `None` when the file does not tell.
#[must_use]
pub fn cpus_allowed(bytes: &[u8]) -> Option<CpuSet> {
    let text = String::from_utf8_lossy(bytes);
    let list = text.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"))?;
    list.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_list_is_taken_and_not_the_mask() {
        let text = b"Name:\tnapi/eth0-8193\nPid:\t71\nCpus_allowed:\t0c\nCpus_allowed_list:\t2-3\n";
        assert_eq!(cpus_allowed(text), "2-3".parse().ok());
        assert_eq!(cpus_allowed(b"Name:\tx\n"), None);
    }

    proptest! {
        #[test]
        fn any_bytes_are_survived(bytes: Vec<u8>) {
            drop(cpus_allowed(&bytes));
        }
    }
}
