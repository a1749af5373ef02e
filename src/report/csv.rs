//! A recording as a table for spreadsheets (RFC 4180): a header, then one row per interval. The
//! columns are described in docs/record.md. An empty cell is "not known", never 0.

use crate::model::telemetry::Interval;

/// The first line: which column is what, in the order of [`row`].
#[must_use]
pub fn header(first: &Interval) -> String {
    let mut columns: Vec<String> = ["utc", "at_s", "interval_s"].map(str::to_owned).into();
    for cpu in &first.cpus {
        let n = cpu.cpu.0;
        columns.extend(CPU.iter().map(|(name, _)| format!("cpu{n}_{name}")));
    }
    for device in &first.devices {
        let name = &device.device;
        columns.extend(
            ["rx_bits", "rx_packets", "tx_bits", "tx_packets", "drops"]
                .map(|c| format!("{name}_{c}_per_s")),
        );
    }
    for irq in &first.irqs {
        columns.push(format!("irq_{}_per_s", irq.irq));
        columns.push(format!("irq_{}_busiest_cpu", irq.irq));
    }
    columns.extend(first.sensors.iter().map(|sensor| sensor.name.clone()));
    columns.push("throttled".into());
    columns.iter().map(|column| quoted(column)).collect::<Vec<_>>().join(",")
}

type OfCpu = fn(&crate::model::telemetry::CpuRates) -> Option<f64>;

/// The columns of a CPU: shares from 0 to 1, and rates.
const CPU: [(&str, OfCpu); 11] = [
    ("user_share", |c| c.user),
    ("system_share", |c| c.system),
    ("irq_share", |c| c.irq),
    ("softirq_share", |c| c.softirq),
    ("idle_share", |c| c.idle),
    ("net_rx_per_s", |c| c.net_rx),
    ("net_tx_per_s", |c| c.net_tx),
    ("packets_per_s", |c| c.packets),
    ("backlog_drops_per_s", |c| c.dropped),
    ("squeezed_per_s", |c| c.squeezed),
    ("received_rps_per_s", |c| c.received_rps),
];

/// The row of one interval.
#[must_use]
pub fn row(interval: &Interval) -> String {
    let mut cells = vec![
        interval.utc.clone(),
        format!("{:.3}", interval.at),
        format!("{:.3}", interval.seconds),
    ];
    let number = |value: Option<f64>| value.map(|v| format!("{v:.4}")).unwrap_or_default();
    for cpu in &interval.cpus {
        cells.extend(CPU.iter().map(|(_, of)| number(of(cpu))));
    }
    for device in &interval.devices {
        cells.extend([
            number(device.rx_bits),
            number(device.rx_packets),
            number(device.tx_bits),
            number(device.tx_packets),
            number(device.dropped),
        ]);
    }
    for irq in &interval.irqs {
        let busiest = irq.by_cpu.iter().max_by(|a, b| a.1.total_cmp(&b.1));
        cells.push(number(irq.total));
        cells.push(busiest.map(|(cpu, _)| cpu.0.to_string()).unwrap_or_default());
    }
    cells.extend(interval.sensors.iter().map(|sensor| number(sensor.value)));
    cells.push(interval.throttled.join("; "));
    cells.iter().map(|cell| quoted(cell)).collect::<Vec<_>>().join(",")
}

/// A cell in quotation marks where it holds what would end it.
fn quoted(cell: &str) -> String {
    if cell.contains([',', '"', '\n', '\r']) {
        format!("\"{}\"", cell.replace('"', "\"\""))
    } else {
        cell.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::telemetry::{CpuRates, DeviceRates, IrqRates, Sensor};
    use crate::model::units::CpuId;

    fn interval() -> Interval {
        let cpu = |n| CpuRates {
            cpu: CpuId(n),
            user: Some(0.25),
            system: Some(0.0),
            irq: None,
            softirq: Some(0.5),
            idle: Some(0.25),
            net_rx: Some(10.0),
            net_tx: Some(0.0),
            packets: Some(80_000.0),
            dropped: Some(0.0),
            squeezed: Some(0.0),
            received_rps: None,
        };
        Interval {
            utc: "2026-11-21T12:00:00Z".into(),
            at: 1.0,
            seconds: 1.0,
            cpus: vec![cpu(0), cpu(4)],
            devices: vec![DeviceRates {
                device: "eth0".into(),
                rx_bits: Some(941.5e6),
                rx_packets: Some(81_274.0),
                tx_bits: None,
                tx_packets: None,
                dropped: Some(0.0),
            }],
            irqs: vec![IrqRates {
                irq: "net4, net5".into(),
                total: Some(100.0),
                by_cpu: vec![(CpuId(0), 1.0), (CpuId(4), 99.0)],
            }],
            sensors: vec![Sensor { name: "policy0 MHz".into(), value: Some(1416.0) }],
            throttled: vec!["cpu0: \"hot\"".into()],
            ..Interval::default()
        }
    }

    /// Cells of a line, read back by the rules of RFC 4180.
    fn cells(line: &str) -> Vec<String> {
        let (mut cells, mut cell, mut inside) = (Vec::new(), String::new(), false);
        let mut chars = line.chars().peekable();
        while let Some(c) = chars.next() {
            match c {
                '"' if inside && chars.peek() == Some(&'"') => {
                    chars.next();
                    cell.push('"');
                }
                '"' => inside = !inside,
                ',' if !inside => cells.push(std::mem::take(&mut cell)),
                c => cell.push(c),
            }
        }
        cells.push(cell);
        cells
    }

    #[test]
    fn every_row_has_the_headers_columns_and_unknown_is_empty() {
        let interval = interval();
        let (header, row) = (cells(&header(&interval)), cells(&row(&interval)));
        assert_eq!(header.len(), row.len());
        let at = |name: &str| row[header.iter().position(|c| c == name).unwrap()].as_str();
        assert_eq!(at("cpu4_softirq_share"), "0.5000");
        assert_eq!(at("cpu0_irq_share"), "");
        assert_eq!(at("eth0_rx_bits_per_s"), "941500000.0000");
        assert_eq!(at("eth0_tx_packets_per_s"), "");
        assert_eq!(at("irq_net4, net5_per_s"), "100.0000");
        assert_eq!(at("irq_net4, net5_busiest_cpu"), "4");
        assert_eq!(at("throttled"), "cpu0: \"hot\"");
    }
}
