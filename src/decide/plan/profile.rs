//! The role of a router: the use that it is planned for.

/// The use that a plan should be good for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Profile {
    /// Forwarded packets, as many as can be.
    #[default]
    Router,
    /// Forwarded packets through WireGuard, whose encryption takes its part of every CPU.
    Vpn,
    /// Traffic that ends on this machine: a proxy, a file server, a speed test on the router.
    Endpoint,
    /// Every packet as soon as can be, at the cost of rate and power.
    LowLatency,
}

impl Profile {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Router, Self::Vpn, Self::Endpoint, Self::LowLatency];

    /// The name on the command line.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Router => "router",
            Self::Vpn => "vpn",
            Self::Endpoint => "endpoint",
            Self::LowLatency => "low-latency",
        }
    }
}

impl std::str::FromStr for Profile {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Self::ALL
            .into_iter()
            .find(|p| p.name() == text)
            .ok_or_else(|| "one of router, vpn, endpoint, low-latency".to_owned())
    }
}
