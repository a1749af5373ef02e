//! A flame graph: the calls of packets, the widths their shares of the time.
//!
//! Frames are drawings within the drawing, placed in per cent: text keeps its size and is cut where
//! its frame ends, and the page's script zooms by nothing but new places.

use maud::{DOCTYPE, Markup, PreEscaped, html as markup};

use crate::decide::profile::{Calls, Group, Profile, group_of};

const ROW: f64 = 17.0;
/// Narrower than this share of the whole is left out.
const NARROW: f64 = 0.0004;
/// Height of heading and key above the frames of a drawing that stands alone, and a letter's width.
const TOP: f64 = 44.0;
const LETTER: f64 = 6.6;

const STYLE: &str = include_str!("flame.css");
const SCRIPT: &str = include_str!("flame.js");
/// The one script that the page lets run (SHA-256 of [`SCRIPT`]).
const SCRIPT_HASH: &str = "hR36csfVdTMJDXVgc1osXyCpjUOJ3DCDFUutbcynHTc=";

/// The drawing, which needs nothing else: each frame shows its words when pointed at.
#[must_use]
pub fn svg(profile: &Profile, heading: &str) -> String {
    let (height, frames) = frames(profile, TOP);
    let mut x = 6.0;
    markup! {
        svg xmlns="http://www.w3.org/2000/svg" width="1200" height=(height) role="img" {
            title { (heading) }
            style { (PreEscaped(STYLE)) (PreEscaped(colours())) }
            text.h x="6" y="16" font-size="14" { (heading) }
            @for (class, label) in key(profile) {
                rect class=(class) x=(x) y="24" width="10" height="10" {}
                text.h x=(x + 14.0) y="33" { (label) }
                ({ x += 26.0 + LETTER * label.chars().count() as f64; "" })
            }
            (frames)
        }
    }
    .into_string()
}

/// The page: the drawing as wide as the window, and what is clicked fills it. Without its script it
/// is the drawing.
#[must_use]
pub fn page(profile: &Profile, heading: &str) -> String {
    let (height, frames) = frames(profile, 0.0);
    let policy =
        format!("default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{SCRIPT_HASH}'");
    markup! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta http-equiv="Content-Security-Policy" content=(policy);
                title { "linerate: " (heading) }
                style { (PreEscaped(STYLE)) (PreEscaped(colours())) }
            }
            body { main {
                h1 { (heading) }
                p { @for (class, label) in key(profile) {
                    span.key { svg width="10" height="10" aria-hidden="true" {
                        rect class=(class) width="10" height="10" {}
                    } " " (label) }
                    " "
                } }
                p.said aria-live="polite" { "Point at a frame for its share of the time." }
                button hidden { "Show all" }
                svg.graph width="100%" height=(height) role="group" aria-label=(heading) { (frames) }
            } }
            script { (PreEscaped(SCRIPT)) }
        }
    }
    .into_string()
}

/// The groups that there are, with their shares.
fn key(profile: &Profile) -> Vec<(String, String)> {
    let groups = Group::ALL.iter().enumerate().filter(|(_, group)| profile.of(**group) > 0);
    let told = groups.map(|(at, group)| {
        let share = 100.0 * profile.of(*group) as f64 / profile.packets().max(1) as f64;
        (format!("g{at}"), format!("{} {share:.0} %", group.name()))
    });
    told.collect()
}

fn colours() -> String {
    let rule = |(at, group): (usize, &Group)| format!(".g{at}{{fill:{}}}", colour(*group));
    Group::ALL.iter().enumerate().map(rule).collect()
}

/// The frames below `top`, and the height of the drawing.
fn frames(profile: &Profile, top: f64) -> (f64, Markup) {
    let mut drawn = Vec::new();
    let end = below(&profile.calls, profile.calls.count.max(1), 0.0, top, &mut drawn);
    (end + 4.0, markup! { @for frame in drawn { (frame) } })
}

/// Draws what was called from here, and returns the lower end of it.
fn below(calls: &Calls, all: u64, from: f64, y: f64, drawn: &mut Vec<Markup>) -> f64 {
    let mut x = from;
    let mut end = y;
    for ((name, module), inner) in &calls.below {
        let share = inner.count as f64 / all as f64;
        if share >= NARROW {
            let group = Group::ALL.iter().position(|g| *g == group_of(name, module)).unwrap_or(0);
            let place = if module.is_empty() { String::new() } else { format!(" [{module}]") };
            let (left, width) = (format!("{:.4}%", x * 100.0), format!("{:.4}%", share * 100.0));
            drawn.push(markup! {
                svg.frame x=(left) y=(y) width=(width) height=(ROW - 1.0) {
                    title { (name) (place) (format!(": {:.1} %, {} samples", share * 100.0, inner.count)) }
                    rect class=(format!("g{group}")) width="100%" height="100%" rx="1" {}
                    text x="2" y="12" { (name) }
                }
            });
            end = end.max(below(inner, all, x, y + ROW, drawn)).max(y + ROW);
        }
        x += share;
    }
    end
}

fn colour(group: Group) -> &'static str {
    match group {
        Group::Driver => "#7fb3d5",
        Group::Gro => "#76d7c4",
        Group::Netfilter => "#f0b27a",
        Group::Routing => "#82e0aa",
        Group::Stacking => "#a9cce3",
        Group::Qdisc => "#d7bde2",
        Group::Crypto => "#f1948a",
        Group::Copy => "#f7dc6f",
        Group::Memory => "#e5c07b",
        Group::Tracing => "#ff6f61",
        Group::Spinlock => "#cb8fd6",
        Group::Sockets => "#b2babb",
        Group::Housekeeping => "#ccd1d1",
        Group::Other => "#d5d8dc",
    }
}

#[cfg(test)]
mod tests {
    use sha2::{Digest, Sha256};

    use super::*;

    #[test]
    fn the_page_lets_its_own_script_run_and_no_other() {
        const LETTERS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
        let mut encoded = String::new();
        for three in Sha256::digest(SCRIPT).chunks(3) {
            let bits = three.iter().chain([0; 2].iter()).take(3);
            let bits = bits.fold(0_u32, |all, byte| all << 8 | u32::from(*byte));
            for at in 0..4 {
                let letter = LETTERS[(bits >> (18 - 6 * at) & 63) as usize];
                encoded.push(if at <= three.len() { letter.into() } else { '=' });
            }
        }
        assert_eq!(SCRIPT_HASH, encoded);
        let mut profile = Profile::default();
        let chain = [("<script>", "evil\"&"), ("nf_hook_slow", ""), ("handle_softirqs", "")];
        profile.add(0, [chain.to_vec()].into_iter(), 0);
        let page = page(&profile, "<b>packets</b>");
        assert_eq!(page.matches("<script").count(), 1, "{page}");
        assert!(page.contains(&format!("script-src 'sha256-{encoded}'")) && !page.contains("<b>"));
        for outside in ["http:", "https:", "src=", "href=", "url("] {
            assert!(!page.contains(outside), "{outside}");
        }
    }
}
