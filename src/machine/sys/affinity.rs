//! CPUs that a thread may run on.

use std::io;

use rustix::io::Errno;
use rustix::process::Pid;
use rustix::thread::{CpuSet, sched_setaffinity};

/// Lets a thread run on the CPUs of a mask (the kernel's hexadecimal form).
///
/// # Errors
/// ESRCH for a thread that is gone; EINVAL for no CPU that is online, for a thread that the kernel
/// binds itself (PF_NO_SETAFFINITY) and for a text that is no mask; EPERM.
pub fn set(pid: u32, mask: &str) -> io::Result<()> {
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw).ok_or(Errno::SRCH)?;
    Ok(sched_setaffinity(Some(pid), &set_of(mask).ok_or(Errno::INVAL)?)?)
}

fn set_of(mask: &str) -> Option<CpuSet> {
    let mut set = CpuSet::new();
    for (word, digits) in mask.trim().rsplit(',').enumerate() {
        let bits = u32::from_str_radix(digits, 16).ok()?;
        for bit in (0..32).filter(|bit| bits >> bit & 1 == 1) {
            let cpu = word * 32 + bit;
            // What the structure has no room for (1024 CPUs) must not be dropped in silence.
            if cpu >= CpuSet::MAX_CPU {
                return None;
            }
            set.set(cpu);
        }
    }
    Some(set)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mask_of_many_words_is_read_from_its_end() {
        let set = set_of("80000000,00000005").unwrap();
        let cpus: Vec<usize> = (0..CpuSet::MAX_CPU).filter(|cpu| set.is_set(*cpu)).collect();
        assert_eq!(cpus, [0, 2, 63]);
        assert!(set_of("x").is_none() && set_of("").is_none());
        assert!(set_of(&format!("1{}", ",00000000".repeat(32))).is_none());
    }
}
