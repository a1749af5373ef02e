//! Figures in few characters.

/// A figure in at most five characters: `0`, `7.5`, `941M`, `1.25G`; `-` where it is not known.
#[must_use]
pub fn short(value: Option<f64>) -> String {
    let Some(value) = value.filter(|v| v.is_finite()) else { return "-".to_owned() };
    let mut value = value.max(0.0);
    let mut unit = "";
    for next in ["k", "M", "G", "T", "P"] {
        if value < 999.5 {
            break;
        }
        value /= 1000.0;
        unit = next;
    }
    let digits = match value {
        v if unit.is_empty() && (v == 0.0 || v >= 9.95) => 0,
        v if v >= 99.95 => 0,
        v if v >= 9.995 || unit.is_empty() => 1,
        _ => 2,
    };
    format!("{value:.digits$}{unit}")
}

/// A share in whole per cent, without the sign.
pub(super) fn percent(share: Option<f64>) -> String {
    share.map_or_else(|| "-".to_owned(), |share| format!("{:.0}", share * 100.0))
}

/// Minutes and seconds of a time: `2:05`, `1:02:05`.
pub(super) fn clock(seconds: f64) -> String {
    let whole = seconds.max(0.0).round();
    let (h, m, s) = ((whole / 3600.0).floor(), (whole / 60.0).floor() % 60.0, whole % 60.0);
    if h > 0.0 { format!("{h:.0}:{m:02.0}:{s:02.0}") } else { format!("{m:.0}:{s:02.0}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_figure_is_short_and_rounds_into_the_next_unit() {
        for (value, text) in [
            (0.0, "0"),
            (0.04, "0.0"),
            (7.46, "7.5"),
            (9.96, "10"),
            (999.4, "999"),
            (999.6, "1.00k"),
            (12_345.0, "12.3k"),
            (999_600.0, "1.00M"),
            (941.5e6, "942M"),
            (9.996e9, "10.0G"),
            (1.25e9, "1.25G"),
        ] {
            assert_eq!(short(Some(value)), text, "{value}");
        }
        for unknown in [None, Some(f64::NAN), Some(f64::INFINITY)] {
            assert_eq!(short(unknown), "-");
        }
        assert_eq!([65.0, 3725.4, 0.2].map(clock), ["1:05", "1:02:05", "0:00"]);
    }
}
