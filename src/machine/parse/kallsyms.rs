//! `/proc/kallsyms`: the function that lies at an address of the kernel.

/// The functions of the kernel, by address.
#[derive(Debug, Clone, Default)]
pub struct Symbols {
    /// All names and modules, one behind the other.
    text: String,
    /// Address, where the name begins in `text`, its length, and that of its module behind it.
    list: Vec<(u64, u32, u16, u16)>,
}

/// A function.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Symbol<'a> {
    /// Name of the function.
    pub name: &'a str,
    /// The module that it is in; empty for the kernel itself.
    pub module: &'a str,
}

impl Symbols {
    /// Reads the file: `ffffffff81000000 T _text`, and behind a tab `[module]`. Only functions are
    /// kept. An address of zero is one that the reader may not see.
    #[must_use]
    pub fn read(bytes: &[u8]) -> Self {
        let mut symbols = Self::default();
        let text = String::from_utf8_lossy(bytes);
        for line in text.lines() {
            let mut words = line.split_ascii_whitespace();
            let (Some(address), Some(kind), Some(name)) =
                (words.next(), words.next(), words.next())
            else {
                continue;
            };
            let address = u64::from_str_radix(address, 16).unwrap_or(0);
            if address == 0 || !matches!(kind, "t" | "T" | "w" | "W") {
                continue;
            }
            let module = words.next().and_then(|m| m.strip_prefix('[')?.strip_suffix(']'));
            let module = module.unwrap_or_default();
            // Parts that the compiler split off count with their function.
            let name = name.split(['.', '$']).next().filter(|n| !n.is_empty()).unwrap_or(name);
            let (Ok(start), Ok(length), Ok(of_module)) = (
                u32::try_from(symbols.text.len()),
                u16::try_from(name.len()),
                u16::try_from(module.len()),
            ) else {
                continue;
            };
            symbols.text.push_str(name);
            symbols.text.push_str(module);
            symbols.list.push((address, start, length, of_module));
        }
        symbols.list.sort_unstable();
        symbols
    }

    /// True if there are no functions: the file is missing, or hides its addresses.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// The function at an address; `None` before the first.
    #[must_use]
    pub fn at(&self, address: u64) -> Option<Symbol<'_>> {
        let behind = self.list.partition_point(|(a, ..)| *a <= address);
        let (_, start, length, module) = *self.list.get(behind.checked_sub(1)?)?;
        let start = usize::try_from(start).ok()?;
        let middle = start + usize::from(length);
        let end = middle + usize::from(module);
        Some(Symbol { name: self.text.get(start..middle)?, module: self.text.get(middle..end)? })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_function_before_an_address_is_the_one_and_hidden_addresses_are_none() {
        let symbols = Symbols::read(
            b"ffffffff81000100 T net_rx_action\nffffffff81000000 T _stext\n\
              ffffffff81000200 d data\nffffffffc0000000 t nft_do_chain\t[nf_tables]\n\
              ffffffff81000300 t ip_rcv.cold\n",
        );
        let name = |address| symbols.at(address).map(|s| (s.name, s.module));
        assert_eq!(name(0xffff_ffff_8100_01ff), Some(("net_rx_action", "")));
        assert_eq!(name(0xffff_ffff_8100_0300), Some(("ip_rcv", "")));
        assert_eq!(name(0xffff_ffff_c000_0010), Some(("nft_do_chain", "nf_tables")));
        assert_eq!(name(5), None);
        assert!(Symbols::read(b"0000000000000000 T _stext\n").is_empty());
    }

    proptest! {
        #[test]
        fn any_bytes_are_survived(bytes: Vec<u8>, address: u64) {
            let _symbol = Symbols::read(&bytes).at(address);
        }
    }
}
