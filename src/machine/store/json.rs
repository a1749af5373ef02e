//! JSON as all of our documents are written: the one place that says how a figure looks.
//!
//! Processors and their libraries differ in the last digit of what they compute (a logarithm, a sum
//! in another order). Nine digits are more than anything measured has, and the same everywhere.

use std::io::{self, Write};

use serde::Serialize;
use serde_json::ser::{CompactFormatter, Formatter, PrettyFormatter, Serializer};

/// Digits of a figure behind its first.
const DIGITS: usize = 8;

/// The value on lines of its own, indented.
///
/// # Errors
/// The value's own, for one that is no JSON.
pub fn pretty(value: &(impl Serialize + ?Sized)) -> serde_json::Result<String> {
    written(value, Some(PrettyFormatter::new()))
}

/// The value on one line.
///
/// # Errors
/// As [`pretty`].
pub fn line(value: &(impl Serialize + ?Sized)) -> serde_json::Result<String> {
    written(value, None)
}

fn written(
    value: &(impl Serialize + ?Sized),
    pretty: Option<PrettyFormatter<'static>>,
) -> serde_json::Result<String> {
    let mut text = Vec::new();
    value.serialize(&mut Serializer::with_formatter(&mut text, Rounded(pretty)))?;
    // serde_json writes nothing else; a lossy reading needs no way to fail.
    Ok(String::from_utf8_lossy(&text).into_owned())
}

/// The nearest figure of nine digits. A whole number is as it is: it was counted or rounded already.
fn rounded(figure: f64) -> f64 {
    if figure.fract() == 0.0 {
        return figure;
    }
    format!("{figure:.DIGITS$e}").parse().unwrap_or(figure)
}

/// Rounds, and leaves the rest to one of serde_json's own.
struct Rounded(Option<PrettyFormatter<'static>>);

macro_rules! by_its_own {
    ($($name:ident($($argument:ident: $kind:ty)?)),+) => {$(
        fn $name<W: Write + ?Sized>(&mut self, to: &mut W $(, $argument: $kind)?) -> io::Result<()> {
            match &mut self.0 {
                Some(pretty) => pretty.$name(to $(, $argument)?),
                None => CompactFormatter.$name(to $(, $argument)?),
            }
        }
    )+};
}

impl Formatter for Rounded {
    fn write_f64<W: Write + ?Sized>(&mut self, to: &mut W, figure: f64) -> io::Result<()> {
        CompactFormatter.write_f64(to, rounded(figure))
    }

    by_its_own!(
        begin_array(), end_array(), begin_array_value(first: bool), end_array_value(),
        begin_object(), end_object(), begin_object_key(first: bool), begin_object_value(),
        end_object_value()
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_figure_that_differs_in_its_last_digit_is_the_same_text() {
        let (here, there) = (0.1 + 0.2, 0.3);
        assert_ne!(here, there, "as two processors may have it");
        assert_eq!(line(&[here]).unwrap(), "[0.3]");
        assert_eq!(line(&[here, 1e9 / 7.0]).unwrap(), "[0.3,142857143.0]");
        assert_eq!(
            line(&[-2.0 / 3.0, 5e-324, 12_345_678_901.0, 0.0]).unwrap(),
            "[-0.666666667,5e-324,12345678901.0,0.0]"
        );
        // What was read is written as it was.
        let figure: f64 = 941_482_123.456_789;
        let once = line(&figure).unwrap();
        assert_eq!(line(&serde_json::from_str::<f64>(&once).unwrap()).unwrap(), once);
        assert_eq!(line(&f64::NAN).unwrap(), "null");
    }

    #[test]
    fn all_but_the_figures_is_what_serde_json_writes() {
        let value = serde_json::json!({
            "a": [1, 2.5, null, {"b": "tab\t, quote\", \u{1b}"}], "": [], "c": {}, "d": u64::MAX
        });
        assert_eq!(line(&value).unwrap(), serde_json::to_string(&value).unwrap());
        assert_eq!(pretty(&value).unwrap(), serde_json::to_string_pretty(&value).unwrap());
    }
}
