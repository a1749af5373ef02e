//! Speed-test clients of a WAN line: Ookla's `speedtest` and `librespeed-cli`. Both choose their
//! server, their streams and their time by themselves; what they say of the line is read.

use serde::Serialize;
use serde_json::Value;

use super::iperf3::Unusable;
use crate::model::units::BitRate;

/// Result of a WAN line by a speed-test client.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Line {
    /// The server, in the client's words.
    pub server: String,
    /// Direction from the server.
    pub down: Way,
    /// Direction to the server.
    pub up: Way,
    /// Idle round trip, milliseconds.
    pub idle: Option<f64>,
    /// Jitter of the round trip, milliseconds.
    pub jitter: Option<f64>,
    /// Lost share of small packets, per cent; absent where it was not measured.
    pub loss: Option<f64>,
    /// Address at which the client keeps its result.
    pub url: Option<String>,
}

/// Result of one direction.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Way {
    /// Payload, bit/s.
    pub rate: BitRate,
    /// Payload bytes.
    pub bytes: u64,
    /// Seconds of it.
    pub seconds: f64,
    /// Interquartile mean of round trips under this load, milliseconds.
    pub loaded: Option<f64>,
}

/// Reads what `speedtest --format=json` of Ookla wrote.
///
/// # Errors
/// [`Unusable`], with the reason.
pub fn ookla(output: &[u8]) -> std::result::Result<Line, Unusable> {
    let text = String::from_utf8_lossy(output);
    let objects = || text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let kind = |value: &Value, kind: &str| value.get("type").is_some_and(|t| t == kind);
    let Some(result) = objects().find(|value| kind(value, "result")) else {
        let mut said = objects().filter(|v| kind(v, "log")).filter_map(|v| word(&v, "/message"));
        return Err(match said.next_back() {
            Some(message) => Unusable::Failed(message),
            None => not_a_report(&text),
        });
    };
    let way = |name: &'static str| {
        let of = |key: &str| number(&result, &format!("/{name}/{key}"));
        // Bytes per second.
        let rate = of("bandwidth").map(|rate| rate * 8.0).filter(|rate| *rate > 0.0);
        Ok(Way {
            rate: BitRate(rate.ok_or(Unusable::Missing(name))?),
            bytes: of("bytes").unwrap_or(0.0) as u64,
            seconds: of("elapsed").unwrap_or(0.0) / 1000.0,
            loaded: of("latency/iqm"),
        })
    };
    let words = ["/server/name", "/server/location"].map(|at| word(&result, at));
    Ok(Line {
        server: words.into_iter().flatten().collect::<Vec<_>>().join(", "),
        down: way("download")?,
        up: way("upload")?,
        idle: number(&result, "/ping/latency"),
        jitter: number(&result, "/ping/jitter"),
        loss: number(&result, "/packetLoss"),
        url: word(&result, "/result/url"),
    })
}

/// Reads what `librespeed-cli --json` wrote: a list with one entry per server.
///
/// # Errors
/// [`Unusable`], with the reason.
pub fn librespeed(output: &[u8]) -> std::result::Result<Line, Unusable> {
    let text = String::from_utf8_lossy(output);
    // Warnings stand before it; they hold no bracket at the start of a line.
    let start = text.lines().position(|line| line.trim_start().starts_with(['[', '{']));
    let body: Vec<&str> = text.lines().skip(start.unwrap_or(usize::MAX)).collect();
    let all: Value = serde_json::from_str(&body.join("\n")).map_err(|_| not_a_report(&text))?;
    let result = all.get(0).unwrap_or(&all);
    let way = |rate: &'static str, bytes: &str| {
        // Mbit/s; 0 for a direction that was left out or failed.
        let mbit = number(result, &format!("/{rate}")).filter(|mbit| *mbit > 0.0);
        let mbit = mbit.ok_or(Unusable::Missing(rate))?;
        let bytes = number(result, &format!("/{bytes}")).unwrap_or(0.0);
        let seconds = bytes * 8.0 / (mbit * 1e6);
        Ok(Way { rate: BitRate(mbit * 1e6), bytes: bytes as u64, seconds, loaded: None })
    };
    Ok(Line {
        server: word(result, "/server/name").unwrap_or_default(),
        down: way("download", "bytes_received")?,
        up: way("upload", "bytes_sent")?,
        idle: number(result, "/ping"),
        jitter: number(result, "/jitter"),
        loss: None,
        url: word(result, "/share"),
    })
}

fn number(value: &Value, at: &str) -> Option<f64> {
    value.pointer(at)?.as_f64().filter(|n| n.is_finite() && *n >= 0.0)
}

fn word(value: &Value, at: &str) -> Option<String> {
    value.pointer(at)?.as_str().filter(|text| !text.is_empty()).map(str::to_owned)
}

fn not_a_report(text: &str) -> Unusable {
    Unusable::NotAReport(text.trim().chars().take(120).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    macro_rules! real {
        ($name:literal) => {
            include_bytes!(concat!("../../../fixtures/speedtest/", $name))
        };
    }

    #[test]
    fn ooklas_bytes_per_second_are_bits_here_and_a_failure_has_its_words() {
        let line = ookla(real!("ookla-1.2.json")).unwrap();
        assert!((line.down.rate.mbps() - 896.126).abs() < 0.001, "{line:?}");
        assert!((line.up.rate.mbps() - 847.757).abs() < 0.001, "{line:?}");
        assert_eq!((line.idle, line.down.loaded, line.loss), (Some(2.546), Some(9.592), Some(0.0)));
        assert_eq!(line.server, "IPA CyberLab 400G, Tokyo");
        assert!(line.url.unwrap().starts_with("https://www.speedtest.net/result/"));
        let old = ookla(real!("ookla-1.0.json")).unwrap();
        assert_eq!((old.up.seconds, old.up.loaded), (9.131, None));
        let failed = ookla(real!("ookla-failed.txt")).unwrap_err().to_string();
        assert!(failed.starts_with("Configuration - Could not retrieve"), "{failed}");
        let nothing = String::from_utf8_lossy(real!("ookla-1.0.json")).replace("878001", "0");
        assert_eq!(ookla(nothing.as_bytes()), Err(Unusable::Missing("download")));
    }

    #[test]
    fn librespeeds_megabits_are_read_and_zero_is_no_rate() {
        let line = librespeed(real!("librespeed.json")).unwrap();
        assert_eq!((line.down.rate, line.up.bytes), (BitRate(903.39e6), 991_330_304));
        assert!((line.up.seconds - 15.6).abs() < 0.1, "{line:?}");
        assert_eq!((line.idle, line.url), (Some(9.0), None));
        let warned = format!("WARN slow\n{}", String::from_utf8_lossy(real!("librespeed.json")));
        assert!(librespeed(warned.as_bytes()).is_ok());
        let half = warned.replace("508.29", "0");
        assert_eq!(librespeed(half.as_bytes()), Err(Unusable::Missing("upload")));
        assert!(librespeed(b"no server").is_err());
    }

    proptest::proptest! {
        #[test]
        fn any_output_is_survived(bytes: Vec<u8>) {
            proptest::prop_assert!(ookla(&bytes).is_err() && librespeed(&bytes).is_err());
        }
    }
}
