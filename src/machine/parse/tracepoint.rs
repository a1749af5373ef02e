//! `events/<system>/<event>/format` of tracefs: what a record of an event holds
//! (Documentation/trace/events.rst; kernel/trace/trace_events.c, f_show).
//!
//! ```text
//! ID: 1530
//! format:
//!         field:enum skb_drop_reason reason;      offset:28;      size:4; signed:0;
//! print fmt: "... reason: %s", ..., __print_symbolic(REC->reason, { 2, "NOT_SPECIFIED" }, ...)
//! ```

use std::collections::BTreeMap;

/// An event with a field whose values have names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    /// The kernel's number, valid for this boot.
    pub id: u32,
    /// Place of the field in a record, in bytes.
    offset: usize,
    /// Names of the field's values.
    names: BTreeMap<u32, String>,
}

impl Event {
    /// Reads the format; `None` where the event has no such field of four bytes (`reason` of
    /// `kfree_skb` is there from kernel 5.17 on).
    #[must_use]
    pub fn read(bytes: &[u8], field: &str) -> Option<Self> {
        let text = String::from_utf8_lossy(bytes);
        let id = text.lines().find_map(|line| line.strip_prefix("ID:")?.trim().parse().ok())?;
        let offset = text.lines().find_map(|line| {
            let mut parts = line.trim().split(';').map(str::trim);
            let is_field = parts.next()?.strip_prefix("field:")?.ends_with(&format!(" {field}"));
            let offset = parts.next()?.strip_prefix("offset:")?.parse().ok()?;
            (is_field && parts.next()? == "size:4").then_some(offset)
        })?;
        let mut names = BTreeMap::new();
        let list =
            text.split_once(&format!("__print_symbolic(REC->{field},")).map_or("", |(_, l)| l);
        for part in list.split('{').skip(1) {
            let Some((number, rest)) = part.split_once(',') else { continue };
            let name = rest.split('"').nth(1);
            if let (Ok(number), Some(name)) = (number.trim().parse(), name) {
                names.insert(number, name.to_owned());
            }
        }
        Some(Self { id, offset, names })
    }

    /// Name of the field's value in a record; its number where it has none.
    #[must_use]
    pub fn name(&self, record: &[u8]) -> Option<String> {
        let value = record.get(self.offset..self.offset.checked_add(4)?)?;
        let value = u32::from_ne_bytes(value.try_into().ok()?);
        Some(self.names.get(&value).cloned().unwrap_or_else(|| value.to_string()))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The format of kernel 6.1, its list of names cut short.
    pub(crate) const KFREE_SKB: &str = "name: kfree_skb\nID: 1530\nformat:\n\
        \tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\
        \tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n\n\
        \tfield:void * skbaddr;\toffset:8;\tsize:8;\tsigned:0;\n\
        \tfield:void * location;\toffset:16;\tsize:8;\tsigned:0;\n\
        \tfield:unsigned short protocol;\toffset:24;\tsize:2;\tsigned:0;\n\
        \tfield:enum skb_drop_reason reason;\toffset:28;\tsize:4;\tsigned:0;\n\n\
        print fmt: \"skbaddr=%p protocol=%u location=%p reason: %s\", REC->skbaddr, REC->protocol, \
        REC->location, __print_symbolic(REC->reason, { 1, \"NOT_SPECIFIED\" }, { 2, \"NO_SOCKET\" }, \
        { 7, \"NETFILTER_DROP\" })\n";

    #[test]
    fn the_reason_of_a_record_is_told_by_its_name() {
        let event = Event::read(KFREE_SKB.as_bytes(), "reason").unwrap();
        assert_eq!(event.id, 1530);
        let mut record = vec![0; 32];
        record[28..].copy_from_slice(&7_u32.to_ne_bytes());
        assert_eq!(event.name(&record).as_deref(), Some("NETFILTER_DROP"));
        record[28..].copy_from_slice(&65_537_u32.to_ne_bytes());
        assert_eq!(event.name(&record).as_deref(), Some("65537"), "of a subsystem");
        assert_eq!(event.name(&record[..31]), None);
        let old = KFREE_SKB.replace("field:enum skb_drop_reason reason", "field:int other");
        assert_eq!(Event::read(old.as_bytes(), "reason"), None, "before kernel 5.17");
    }

    proptest! {
        #[test]
        fn any_bytes_are_survived(bytes: Vec<u8>, cut in 0..KFREE_SKB.len(), record: Vec<u8>) {
            drop(Event::read(&bytes, "reason"));
            if let Some(event) = Event::read(&KFREE_SKB.as_bytes()[..cut], "reason") {
                drop(event.name(&record));
            }
        }
    }
}
