//! `/proc/net/vlan/config` (net/8021q/vlanproc.c): VLAN devices with number and lower device.
//!
//! ```text
//! VLAN Dev name    | VLAN ID
//! Name-Type: VLAN_NAME_TYPE_RAW_PLUS_VID_NO_PAD
//! eth0.7         | 7  | eth0
//! ```

/// A VLAN device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Vlan {
    /// Device name.
    pub device: String,
    /// VLAN number.
    pub id: u16,
    /// The device under it.
    pub under: String,
}

/// The VLAN devices in the file's order.
#[must_use]
pub fn config(bytes: &[u8]) -> Vec<Vlan> {
    let text = String::from_utf8_lossy(bytes);
    text.lines()
        .filter_map(|line| {
            let mut columns = line.split('|').map(str::trim);
            let (device, id, under) = (columns.next()?, columns.next()?, columns.next()?);
            let id = id.parse().ok()?;
            Some(Vlan { device: device.to_owned(), id, under: under.to_owned() })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn each_device_with_number_and_lower_device() {
        let text = b"VLAN Dev name\t | VLAN ID\nName-Type: VLAN_NAME_TYPE_RAW_PLUS_VID_NO_PAD\neth0.7         | 7  | eth0\nbad | 70000 | eth0\n";
        let found = config(text);
        assert_eq!(found.len(), 1);
        assert_eq!(
            (found[0].device.as_str(), found[0].id, found[0].under.as_str()),
            ("eth0.7", 7, "eth0")
        );
    }

    proptest! {
        #[test]
        fn any_bytes_are_survived(bytes: Vec<u8>) {
            let _known = config(&bytes);
        }
    }
}
