//! One option of a UCI file, set and put back without touching any other byte: `uci commit` would
//! write the whole file anew, without its comments, and would also commit what a person has staged
//! in LuCI and not saved yet.

use serde::{Deserialize, Serialize};

/// Address of an option: the last one of that name in the first section of that kind, which is the
/// one that OpenWrt's scripts read as `@kind[0].option`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OptionPlace {
    /// Kind of the section.
    pub kind: String,
    /// Name of the option.
    pub option: String,
}

/// Content before our change.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Origin {
    /// This line, without its end.
    Line(String),
    /// No such option.
    NoOption,
    /// The file has not even such a section.
    NoSection,
}

/// The first word of a line and the second one without its quotes.
fn words(line: &str) -> Option<(&str, &str)> {
    let (keyword, rest) = line.trim().split_once([' ', '\t'])?;
    let rest = rest.trim_start();
    let name = match rest.chars().next()? {
        quote @ ('\'' | '"') => rest.get(1..)?.split(quote).next()?,
        _ => rest.split([' ', '\t']).next()?,
    };
    Some((keyword, name))
}

/// The lines of the section, from its head to before the next head; none without it.
fn section(lines: &[&str], place: &OptionPlace) -> Option<(usize, usize)> {
    let is_ours = |line: &&str| words(line) == Some(("config", place.kind.as_str()));
    let is_head = |line: &str| line.split_whitespace().next() == Some("config");
    let start = lines.iter().position(is_ours)?;
    let length = lines.iter().skip(start + 1).take_while(|line| !is_head(line)).count();
    Some((start, start + 1 + length))
}

fn find(lines: &[&str], place: &OptionPlace) -> Option<usize> {
    let (start, end) = section(lines, place)?;
    let is = |line: &&str| words(line) == Some(("option", place.option.as_str()));
    lines.get(start + 1..end)?.iter().rposition(is).map(|at| start + 1 + at)
}

/// Reads the option.
#[must_use]
pub fn look(text: &str, place: &OptionPlace) -> Origin {
    let lines: Vec<&str> = text.lines().collect();
    match (section(&lines, place), find(&lines, place)) {
        (None, _) => Origin::NoSection,
        (Some(_), None) => Origin::NoOption,
        (Some(_), Some(at)) => Origin::Line(lines.get(at).copied().unwrap_or_default().to_owned()),
    }
}

/// The line that sets it.
#[must_use]
pub fn line(place: &OptionPlace, value: &str) -> String {
    format!("\toption {} '{value}'", place.option)
}

/// True if a line gives the option that value, in whatever quotes.
#[must_use]
pub fn says(line: &str, wanted: &str) -> bool {
    value(line) == wanted
}

/// The value that a line gives its option.
#[must_use]
pub fn value(line: &str) -> &str {
    let last = line.trim().rsplit([' ', '\t']).next().unwrap_or_default();
    last.trim_matches(['\'', '"'])
}

fn own_section(place: &OptionPlace, line: &str) -> String {
    format!("\nconfig {0} '{0}'\n{line}\n", place.kind)
}

/// The text with the option being as `wanted` says.
#[must_use]
pub fn put(text: &str, place: &OptionPlace, wanted: &Origin) -> String {
    let lines: Vec<&str> = text.split_inclusive('\n').collect();
    let end = |line: &str| if line.ends_with("\r\n") { "\r\n" } else { "\n" };
    let mut out: Vec<String> = lines.iter().map(|l| (*l).to_owned()).collect();
    match (wanted, section(&lines, place), find(&lines, place)) {
        (Origin::Line(new), _, Some(at)) => {
            if let Some(line) = out.get_mut(at) {
                *line = format!("{new}{}", end(line));
            }
        }
        (Origin::Line(new), Some((start, _)), None) => {
            if let Some(head) = out.get_mut(start) {
                let own_end = end(head);
                if !head.ends_with('\n') {
                    head.push('\n');
                }
                out.insert(start + 1, format!("{new}{own_end}"));
            }
        }
        (Origin::Line(new), None, _) => {
            if !text.is_empty() && !text.ends_with('\n') {
                out.push("\n".into());
            }
            out.push(own_section(place, new));
        }
        (Origin::NoSection, Some(_), Some(at)) => {
            let block = own_section(place, lines.get(at).copied().unwrap_or_default().trim_end());
            match text.find(&block) {
                // Somebody may have added to the section meanwhile: then it stays.
                Some(from) if section_ends(text, from + block.len()) => {
                    return format!(
                        "{}{}",
                        text.get(..from).unwrap_or_default(),
                        text.get(from + block.len()..).unwrap_or_default()
                    );
                }
                _ => drop(out.remove(at)),
            }
        }
        (Origin::NoOption, Some(_), Some(at)) => drop(out.remove(at)),
        (Origin::NoOption | Origin::NoSection, _, _) => {}
    }
    out.concat()
}

/// True if another section, or nothing, comes at `at`.
fn section_ends(text: &str, at: usize) -> bool {
    let rest = text.get(at..).unwrap_or_default().trim_start();
    rest.is_empty() || rest.starts_with("config")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn place() -> OptionPlace {
        OptionPlace { kind: "globals".into(), option: "packet_steering".into() }
    }

    const NETWORK: &str = "# by hand\nconfig interface 'loopback'\n\toption device 'lo'\n\n\
        config globals 'globals'\n\toption ula_prefix 'fd00::/48'\n\toption packet_steering \"1\"\n\n\
        config interface 'wan'\n\toption packet_steering '7'\n\toption password 'a b'\n";

    fn set(text: &str) -> (Origin, String) {
        let origin = look(text, &place());
        (origin, put(text, &place(), &Origin::Line(line(&place(), "0"))))
    }

    #[test]
    fn one_line_changes_and_comes_back_byte_for_byte() {
        let (origin, text) = set(NETWORK);
        assert_eq!(origin, Origin::Line("\toption packet_steering \"1\"".into()));
        let changed: Vec<_> = NETWORK.lines().zip(text.lines()).filter(|(a, b)| a != b).collect();
        assert_eq!(changed, [("\toption packet_steering \"1\"", "\toption packet_steering '0'")]);
        assert_eq!(put(&text, &place(), &origin), NETWORK);
        assert!(says("\toption packet_steering \"1\"", "1") && !says(&text, "1"));
    }

    #[test]
    fn an_option_or_section_that_was_not_there_goes_again() {
        for text in [
            "config globals 'globals'\n\toption ula_prefix 'fd00::/48'\n",
            "config 'globals'\n",
            "config interface 'lan'\n\toption device 'br-lan'\n",
            "config globals\n\nconfig interface 'lan'\n",
        ] {
            let (origin, new) = set(text);
            assert_ne!(origin, Origin::Line(String::new()));
            assert_eq!(look(&new, &place()), Origin::Line("\toption packet_steering '0'".into()));
            assert_eq!(put(&new, &place(), &origin), text, "{new}");
        }
    }

    #[test]
    fn what_a_person_adds_meanwhile_stays() {
        let (origin, text) = set("config interface 'lan'\n");
        let edited = format!("{text}\toption ula_prefix 'fd00::/48'\n");
        let back = put(&edited, &place(), &origin);
        assert!(back.contains("ula_prefix") && !back.contains("packet_steering"), "{back}");
    }

    proptest! {
        #[test]
        fn whatever_the_file_holds_it_comes_back(
            text in "((config|option|list|#)? ?['\"]?(globals|packet_steering|x)?['\"]? ?['\"]?[a-z0-9 ]{0,3}['\"]?\n){0,8}"
        ) {
            let (origin, new) = set(&text);
            prop_assert_eq!(put(&new, &place(), &origin), text);
        }
    }
}
