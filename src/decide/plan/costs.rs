//! Costs of the stages of a packet's way: defaults, or those that [`super::fit()`] found on a
//! machine.
//!
//! All but the unit are relative: 1.0 is the stack stage of a packet with NAT. They order
//! placements; with the unit, measured on a machine, they also predict a rate.

/// Value of `format` in a file of costs.
const FORMAT: &str = "linerate-costs";

/// The version that is written and read.
const VERSION: i64 = 1;

/// Costs of the stages.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Costs {
    /// Driver, NAPI and GRO.
    pub interrupt: f64,
    /// Netfilter with NAT, routing and transmit.
    pub nat: f64,
    /// Routing without NAT.
    pub route: f64,
    /// Way past netfilter by a software flowtable.
    pub flowtable: f64,
    /// One VLAN or PPPoE layer.
    pub layer: f64,
    /// Way through a bridge.
    pub bridge: f64,
    /// One rule on the forwarding path, as if none of them ended it.
    pub rule: f64,
    /// Transmit completion.
    pub completion: f64,
    /// WireGuard's encryption or decryption of a packet, which the kernel spreads over all CPUs
    /// whatever they can do. From two field reports on the same four Cortex-A72: 81,000 packets a
    /// second with NAT fill one, 95,000 through a tunnel, both ends and iperf3 on the machine,
    /// fill all four.
    pub wireguard: f64,
    /// Hand-off of a packet by RPS, for the CPU that gives ...
    pub give: f64,
    /// ... and for the CPU that takes ...
    pub take: f64,
    /// ... and more where the packet changes cluster, last level cache or memory node.
    pub cross: f64,
    /// Acknowledgements that come back, packets for each packet of data; each costs what a packet
    /// does, for a router's work is by the packet. RFC 5681 (4.2) asks for one to every second
    /// segment, 0.5; receivers that merge segments first (GRO, LRO) or that are behind send one for
    /// many (net/ipv4/tcp_input.c, `__tcp_ack_snd_check`): in the lab 0.06 to 0.13 were counted.
    pub ack: f64,
    /// A switch's tag that comes off in software.
    pub tag: f64,
    /// A shaper (CAKE, HTB, ...): taking a packet in and letting it go.
    pub shaper: f64,
    /// Part of that which runs under the lock of the shaper's root, one CPU at a time.
    pub shaper_lock: f64,
    /// Wi-Fi: polling a packet from the radio.
    pub air_receive: f64,
    /// Wi-Fi: sending a packet, in a thread or where its stack stage runs.
    pub air_send: f64,
    /// Wi-Fi: a sent packet's completion.
    pub air_done: f64,
    /// A packet that ends on this machine: its socket, and the program that reads it, which the
    /// scheduler wakes where the packet is.
    pub local: f64,
    /// A packet that leaves by another CPU's transmit queue: its lock, and its completion there.
    pub foreign_queue: f64,
    /// Time that 1.0 takes on a CPU of full capacity, nanoseconds; `None` where nobody measured it.
    pub unit_ns: Option<f64>,
    /// Half of the 95 % interval of a rate that they predict, in logarithms; `None` where nobody knows.
    pub error: Option<f64>,
}

impl Default for Costs {
    fn default() -> Self {
        Self::DEFAULT
    }
}

impl Costs {
    /// Costs before anything was measured.
    pub const DEFAULT: Self = Self {
        interrupt: 0.35,
        nat: 1.0,
        route: 0.55,
        flowtable: 0.35,
        layer: 0.15,
        bridge: 0.10,
        rule: 0.002,
        completion: 0.15,
        wireguard: 1.5,
        give: 0.20,
        take: 0.12,
        cross: 0.05,
        ack: 0.25,
        tag: 0.05,
        shaper: 1.25,
        shaper_lock: 0.8,
        air_receive: 1.0,
        air_send: 1.2,
        air_done: 2.0,
        local: 2.0,
        foreign_queue: 0.25,
        unit_ns: None,
        error: None,
    };

    /// Names in a file, and where the values are.
    fn named(&mut self) -> [(&'static str, &mut f64); 21] {
        [
            ("interrupt", &mut self.interrupt),
            ("nat", &mut self.nat),
            ("route", &mut self.route),
            ("flowtable", &mut self.flowtable),
            ("layer", &mut self.layer),
            ("bridge", &mut self.bridge),
            ("rule", &mut self.rule),
            ("completion", &mut self.completion),
            ("wireguard", &mut self.wireguard),
            ("give", &mut self.give),
            ("take", &mut self.take),
            ("cross", &mut self.cross),
            ("ack", &mut self.ack),
            ("tag", &mut self.tag),
            ("shaper", &mut self.shaper),
            ("shaper-lock", &mut self.shaper_lock),
            ("air-receive", &mut self.air_receive),
            ("air-send", &mut self.air_send),
            ("air-done", &mut self.air_done),
            ("local", &mut self.local),
            ("foreign-queue", &mut self.foreign_queue),
        ]
    }

    /// Reads the text of a file; a cost that it does not name stays at its default.
    ///
    /// # Errors
    /// An error that says what is wrong with the text.
    pub fn parse(text: &str) -> Result<Self, String> {
        let table: toml::Table =
            text.parse().map_err(|e: toml::de::Error| e.message().to_owned())?;
        if table.get("format").and_then(toml::Value::as_str) != Some(FORMAT) {
            return Err(format!("no format = \"{FORMAT}\" in it"));
        }
        match table.get("version").and_then(toml::Value::as_integer) {
            Some(VERSION) => {}
            Some(other) => return Err(format!("version {other}; this linerate reads {VERSION}")),
            None => return Err("no version in it".into()),
        }
        let mut costs = Self::DEFAULT;
        for (key, value) in &table {
            match (key.as_str(), value) {
                ("format" | "version" | "machine", _) => {}
                ("error", value) => costs.error = Some(figure(key, value, 0.0, 10.0)?),
                ("unit_ns", value) => costs.unit_ns = Some(figure(key, value, 1.0, 1e9)?),
                ("cost", toml::Value::Table(each)) => {
                    for (key, value) in each {
                        let value = figure(key, value, 0.0, 1000.0)?;
                        let mut named = costs.named();
                        let found = named.iter_mut().find(|(name, _)| name == key);
                        match found {
                            Some((_, place)) => **place = value,
                            None => return Err(format!("there is no cost {key:?}")),
                        }
                    }
                }
                _ => return Err(format!("{key:?} is unknown")),
            }
        }
        // Everything is counted in it.
        if costs.nat != 1.0 {
            return Err(format!("cost nat = {} instead of 1: it is the unit", costs.nat));
        }
        Ok(costs)
    }

    /// The machine that the text of a file says the costs are of: a hash, as results have it.
    #[must_use]
    pub fn machine(text: &str) -> Option<String> {
        let table: toml::Table = text.parse().ok()?;
        table.get("machine")?.as_str().map(str::to_owned)
    }

    /// Writes the costs as the text of a file, with a remark of a few lines.
    #[must_use]
    pub fn to_toml(&self, remark: &str, machine: Option<&str>) -> String {
        let mut out: String = remark.lines().map(|line| format!("# {line}\n")).collect();
        out += &format!("format = \"{FORMAT}\"\nversion = {VERSION}\n");
        if let Some(machine) = machine.filter(|m| m.chars().all(|c| c.is_ascii_alphanumeric())) {
            out += &format!("machine = \"{machine}\"\n");
        }
        if let Some(unit) = self.unit_ns {
            out += &format!("unit_ns = {unit:.3}\n");
        }
        if let Some(error) = self.error {
            out += &format!(
                "# predictions are good to a factor of {:.2}, in 95 of 100\n",
                libm::exp(error)
            );
            out += &format!("error = {error:.4}\n");
        }
        out += "\n[cost]\n";
        let mut copy = *self;
        for (name, value) in copy.named() {
            out += &format!("{name} = {:?}\n", (*value * 1e6).round() / 1e6);
        }
        out
    }
}

fn figure(key: &str, value: &toml::Value, least: f64, most: f64) -> Result<f64, String> {
    let whole = || value.as_integer().map(|n| n as f64);
    let figure = value.as_float().or_else(whole);
    figure
        .filter(|f| (least..=most).contains(f))
        .ok_or_else(|| format!("{key} = {value} is no figure from {least} to {most}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_what_is_read() {
        let costs = Costs {
            rule: 0.004,
            give: 0.3,
            unit_ns: Some(812.5),
            error: Some(0.125),
            ..Costs::DEFAULT
        };
        let text = costs.to_toml("from two runs\nof one router", Some("0123abcd"));
        assert_eq!(Costs::parse(&text).unwrap(), costs, "{text}");
        assert_eq!(Costs::machine(&text).as_deref(), Some("0123abcd"));
        assert!(text.starts_with("# from two runs\n# of one router\n"));
        let bare = Costs::DEFAULT.to_toml("", None);
        assert_eq!(Costs::parse(&bare).unwrap(), Costs::DEFAULT);
        assert_eq!(Costs::machine(&bare), None);
    }

    #[test]
    fn what_cannot_be_meant_is_refused() {
        let head = "format = \"linerate-costs\"\nversion = 1\n";
        assert!(Costs::parse(head).is_ok());
        for bad in ["", "version = 1", "format = \"linerate-costs\"", "x"] {
            assert!(Costs::parse(bad).is_err(), "{bad}");
        }
        for bad in [
            "speed = 1",
            "unit_ns = 0",
            "unit_ns = \"fast\"",
            "unit_ns = nan",
            "error = -1",
            "cost = 1",
            "[cost]\nrule = -1",
            "[cost]\nrule = inf",
            "[cost]\nrules = 1",
            "[cost]\nnat = 2",
        ] {
            assert!(Costs::parse(&format!("{head}{bad}\n")).is_err(), "{bad}");
        }
        assert!(Costs::parse(&head.replace('1', "2")).unwrap_err().contains("version 2"));
    }
}
