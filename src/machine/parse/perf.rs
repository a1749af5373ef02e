//! Records of perf events (include/uapi/linux/perf_event.h), as a ring holds them.

/// `PERF_RECORD_LOST` and `PERF_RECORD_SAMPLE`.
const LOST: u32 = 2;
const SAMPLE: u32 = 9;
/// `PERF_RECORD_THROTTLE`.
const THROTTLE: u32 = 5;
/// `PERF_RECORD_MISC_CPUMODE_MASK`, and the mode of the kernel.
const MODE: u16 = 7;
const KERNEL: u16 = 1;
/// Lowest of the addresses that are marks: `PERF_CONTEXT_MAX`.
const MARKS: u64 = u64::MAX - 4094;

/// Samples of a CPU that were read from a ring.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Samples {
    /// Call chains of the kernel, innermost first, each at least one address.
    pub kernel: Vec<Vec<u64>>,
    /// Samples outside the kernel.
    pub user: u64,
    /// Samples that the ring had no room for.
    pub lost: u64,
    /// Times that the kernel stopped sampling for a while, because it took too much time.
    pub throttled: u64,
}

impl Samples {
    /// Takes in records with an instruction pointer and a call chain each, in the byte order of
    /// this machine. Other records are passed over; a broken length ends the reading.
    pub fn take(&mut self, bytes: &[u8]) {
        for (kind, misc, record) in records(bytes) {
            let words: Vec<u64> = record.chunks_exact(8).skip(1).map(u64_at).collect();
            match kind {
                // The id of the event, and how many.
                LOST => self.lost += words.get(1).copied().unwrap_or(0),
                THROTTLE => self.throttled += 1,
                SAMPLE if misc & MODE == KERNEL => {
                    let Some((ip, chain)) = words.split_first() else { continue };
                    let count = chain.first().copied().unwrap_or(0);
                    let count = usize::try_from(count).unwrap_or(usize::MAX);
                    let frames = chain.iter().skip(1).take(count).copied();
                    let mut frames: Vec<u64> = frames.filter(|a| *a < MARKS).collect();
                    if frames.is_empty() {
                        frames.push(*ip);
                    }
                    self.kernel.push(frames);
                }
                SAMPLE => self.user += 1,
                _ => {}
            }
        }
    }
}

/// Calls `each` with the raw data of every sample that has nothing else, as those of tracepoints
/// are asked for; how many samples the ring had no room for.
pub fn raw(bytes: &[u8], mut each: impl FnMut(&[u8])) -> u64 {
    let mut lost = 0;
    for (kind, _, record) in records(bytes) {
        match kind {
            LOST => lost += record.get(16..24).map_or(0, u64_at),
            SAMPLE => {
                let length = usize::try_from(u32_at(record, 8)).unwrap_or(usize::MAX);
                each(record.get(12..).unwrap_or_default().get(..length).unwrap_or_default());
            }
            _ => {}
        }
    }
    lost
}

/// Kind, `misc` and bytes of each record, the header included; a broken length ends the list.
fn records(mut bytes: &[u8]) -> impl Iterator<Item = (u32, u16, &[u8])> {
    std::iter::from_fn(move || {
        let (header, _) = bytes.split_at_checked(8)?;
        let size = usize::from(u16_at(header, 6));
        let (record, rest) = bytes.split_at_checked(size).filter(|_| size >= 8)?;
        bytes = rest;
        Some((u32_at(header, 0), u16_at(header, 4), record))
    })
}

fn u16_at(bytes: &[u8], at: usize) -> u16 {
    let part = bytes.get(at..at + 2).and_then(|b| b.try_into().ok());
    part.map_or(0, u16::from_ne_bytes)
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    let part = bytes.get(at..at + 4).and_then(|b| b.try_into().ok());
    part.map_or(0, u32::from_ne_bytes)
}

fn u64_at(bytes: &[u8]) -> u64 {
    bytes.try_into().map_or(0, u64::from_ne_bytes)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn record(kind: u32, misc: u16, words: &[u64]) -> Vec<u8> {
        let size = u16::try_from(8 + words.len() * 8).unwrap();
        let mut bytes = kind.to_ne_bytes().to_vec();
        bytes.extend(misc.to_ne_bytes());
        bytes.extend(size.to_ne_bytes());
        words.iter().for_each(|w| bytes.extend(w.to_ne_bytes()));
        bytes
    }

    #[test]
    fn chains_of_the_kernel_are_kept_and_the_rest_is_counted() {
        let mark = u64::MAX - 127; // PERF_CONTEXT_KERNEL
        let mut bytes = record(SAMPLE, 1, &[7, 4, mark, 7, 8, 9]);
        bytes.extend(record(SAMPLE, 2, &[7, 0]));
        bytes.extend(record(LOST, 0, &[1, 5]));
        bytes.extend(record(SAMPLE, 1, &[11, 0]));
        bytes.extend(record(THROTTLE, 0, &[1, 2, 3]));
        bytes.extend(record(14, 0, &[1, 2, 3]));
        let mut samples = Samples::default();
        samples.take(&bytes);
        assert_eq!(samples.kernel, [vec![7, 8, 9], vec![11]]);
        assert_eq!((samples.user, samples.lost, samples.throttled), (1, 5, 1));
        for cut in 0..bytes.len() {
            Samples::default().take(&bytes[..cut]);
        }
    }

    #[test]
    fn raw_data_is_as_long_as_it_says_and_lost_samples_are_counted() {
        // A length of 4, four bytes of data, and nothing to fill up with.
        let mut bytes = record(SAMPLE, 1, &[u64::from_ne_bytes([4, 0, 0, 0, 1, 2, 3, 4])]);
        if cfg!(target_endian = "big") {
            bytes[8..12].copy_from_slice(&4_u32.to_ne_bytes());
        }
        bytes.extend(record(LOST, 0, &[1, 5]));
        let mut found = Vec::new();
        assert_eq!(raw(&bytes, |data| found.push(data.to_vec())), 5);
        assert_eq!(found, [vec![1, 2, 3, 4]]);
    }

    proptest! {
        #[test]
        fn any_bytes_are_survived(bytes: Vec<u8>) {
            Samples::default().take(&bytes);
            raw(&bytes, |_| {});
        }
    }
}
