//! Names of scenarios: what packets meet between the two sides, put together with `+`.

use std::fmt;
use std::str::FromStr;

/// Functions and links of a lab's router. Written `nat+flowtable+vlan`; a name without `route` or
/// `nat` is `nat` for IPv4, and `route` with a tunnel to the other site or for IPv6.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shape {
    /// Masquerade what leaves to the WAN; the WAN has no route to the LAN then.
    pub nat: bool,
    /// Carry established connections past the rules.
    pub flowtable: bool,
    /// 802.1Q on the WAN side.
    pub vlan: bool,
    /// PPPoE on the WAN side.
    pub pppoe: bool,
    /// A bridge on the LAN side.
    pub bridge: bool,
    /// A WireGuard tunnel from the router to the WAN host: site to site.
    pub wireguard: bool,
    /// IPv6 instead of IPv4.
    pub ipv6: bool,
}

impl Default for Shape {
    fn default() -> Self {
        Self { nat: true, ..Self::ROUTE }
    }
}

impl Shape {
    /// Plain routing.
    pub const ROUTE: Self = Self {
        nat: false,
        flowtable: false,
        vlan: false,
        pppoe: false,
        bridge: false,
        wireguard: false,
        ipv6: false,
    };

    /// The parts of a name, in the order in which they are written, with what each means.
    pub const PARTS: [(&'static str, &'static str); 8] = [
        ("route", "plain routing, no address translation"),
        ("nat", "masquerade to the WAN"),
        ("flowtable", "established flows go past the rules through a software flowtable"),
        ("vlan", "802.1Q (VLAN 35) on the WAN side"),
        ("pppoe", "PPPoE on the WAN side, by pppd and pppoe-server"),
        ("bridge", "a bridge on the LAN side"),
        ("wireguard", "a WireGuard tunnel from the router to the WAN host, site to site"),
        ("ipv6", "IPv6 instead of IPv4"),
    ];

    /// True if the shape has a part of [`Shape::PARTS`].
    #[must_use]
    pub fn has(&self, part: &str) -> bool {
        match part {
            "route" => !self.nat,
            "nat" => self.nat,
            "flowtable" => self.flowtable,
            "vlan" => self.vlan,
            "pppoe" => self.pppoe,
            "bridge" => self.bridge,
            "wireguard" => self.wireguard,
            "ipv6" => self.ipv6,
            _ => false,
        }
    }
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parts: Vec<&str> =
            Self::PARTS.iter().map(|(part, _)| *part).filter(|part| self.has(part)).collect();
        f.write_str(&parts.join("+"))
    }
}

/// Reason why a name is no shape.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NoShape {
    /// A part that does not exist.
    #[error(
        "no part {0:?}; a scenario is put together of route or nat, flowtable, vlan, pppoe, bridge, wireguard, ipv6, as in nat+flowtable+vlan"
    )]
    Unknown(String),
    /// A part twice.
    #[error("{0} is in it twice")]
    Twice(String),
    /// Both of what excludes each other.
    #[error("route and nat exclude each other")]
    Both,
}

impl FromStr for Shape {
    type Err = NoShape;

    fn from_str(text: &str) -> Result<Self, NoShape> {
        let mut shape = Self::ROUTE;
        let mut said = Vec::new();
        for part in text.split('+') {
            if said.contains(&part) {
                return Err(NoShape::Twice(part.into()));
            }
            said.push(part);
            match part {
                "route" => {}
                "nat" => shape.nat = true,
                "flowtable" => shape.flowtable = true,
                "vlan" => shape.vlan = true,
                "pppoe" => shape.pppoe = true,
                "bridge" => shape.bridge = true,
                "wireguard" => shape.wireguard = true,
                "ipv6" => shape.ipv6 = true,
                _ => return Err(NoShape::Unknown(part.into())),
            }
        }
        if said.contains(&"route") {
            return if shape.nat { Err(NoShape::Both) } else { Ok(shape) };
        }
        shape.nat |= !shape.wireguard && !shape.ipv6;
        Ok(shape)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_means_what_a_routers_owner_would_expect() {
        for (said, meant) in [
            ("nat", "nat"),
            ("route", "route"),
            ("flowtable", "nat+flowtable"),
            ("vlan+flowtable+nat", "nat+flowtable+vlan"),
            ("route+flowtable", "route+flowtable"),
            ("pppoe+vlan", "nat+vlan+pppoe"),
            ("wireguard", "route+wireguard"),
            ("nat+wireguard", "nat+wireguard"),
            ("ipv6", "route+ipv6"),
            ("nat+ipv6", "nat+ipv6"),
            ("bridge", "nat+bridge"),
        ] {
            let shape: Shape = said.parse().unwrap();
            assert_eq!(shape.to_string(), meant);
            assert_eq!(meant.parse(), Ok(shape), "a name can be given again");
        }
        assert_eq!("nat".parse(), Ok(Shape::default()));
    }

    #[test]
    fn nonsense_is_named() {
        assert_eq!("route+nat".parse::<Shape>(), Err(NoShape::Both));
        assert_eq!("nat+nat".parse::<Shape>(), Err(NoShape::Twice("nat".into())));
        for text in ["", "nat+", "NAT", "nat+qos", "nat flowtable"] {
            assert!(matches!(text.parse::<Shape>(), Err(NoShape::Unknown(_))), "{text}");
        }
    }
}
