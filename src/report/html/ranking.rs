//! Where WireGuard figures stand among known boards: as a page, and as a drawing of its own.

use maud::{DOCTYPE, Markup, PreEscaped, html as markup};

use super::chart::{Scale, axis, drawing, per_cent};
use super::{STYLE, head};
use crate::rank::{Entry, Placed, Standing};
use crate::report::ranking::{in_words, rate};

const LANE: f64 = 44.0;
const LABELS: f64 = 20.0;
const ROW: f64 = 40.0;

/// A self-contained page.
#[must_use]
pub fn page(standings: &[Standing], known: &[Entry]) -> String {
    let title = "linerate: WireGuard figures among known boards";
    markup! {
        (DOCTYPE)
        html lang="en" {
            (head(title))
            body { main {
                header { h1 { (title) } }
                section {
                    h2 { "All known results" }
                    figure { (overview(standings, known).1) }
                    p.soft { "One dot is one known result; the scale is logarithmic. " (crate::report::ranking::SOURCE) }
                }
                @for standing in standings {
                    section {
                        h2 { (standing.placed.entry.name()) }
                        p.sentence { (in_words(standing)) }
                        h3 { "Its neighbours" }
                        (table(&standing.nearest))
                        h3 { "The same board or CPU" }
                        @if standing.same.is_empty() { p { "None is known." } }
                        @else { (table(&standing.same)) }
                    }
                }
                footer { "Made from the result files alone. Nothing on this page comes from the network." }
            } }
        }
    }
    .into_string()
}

/// The drawing alone, as a file.
#[must_use]
pub fn svg(standings: &[Standing], known: &[Entry]) -> String {
    let (height, drawing) = overview(standings, known);
    let drawing = drawing.into_string();
    markup! {
        (PreEscaped("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"))
        // The page's style makes drawings as wide as the page; here that is what the file says.
        svg xmlns="http://www.w3.org/2000/svg" width="760" height=(height + 60.0) style="width: 760px" font-family="sans-serif" font-size="14" {
            style { (PreEscaped(STYLE)) }
            rect width="100%" height="100%" fill="var(--card)" {}
            svg x="16" y="12" width="720" height=(height) style="width: 720px" { (PreEscaped(drawing)) }
            text.axis x="16" y=(height + 34.0) { "One dot is one known result; the scale is logarithmic." }
            text.axis x="16" y=(height + 49.0) { (crate::report::ranking::SOURCE) }
        }
    }
    .into_string()
}

fn table(places: &[Placed]) -> Markup {
    markup! {
        div.scroll { table {
            thead { tr {
                th.num scope="col" { "place" }
                th.num scope="col" { "rate" }
                th scope="col" { "device / CPU" }
                th scope="col" { "system" }
                th scope="col" { "note" }
            } }
            tbody { @for place in places {
                tr class=[place.entry.own.then_some("best")] {
                    td.num { (place.rank) }
                    td.num { (rate(place.entry.mbps)) }
                    th scope="row" { (place.entry.name()) }
                    td { (place.entry.os) }
                    td { (place.entry.note) }
                }
            } }
        } }
    }
}

/// All results on one line, ours below; with its height.
fn overview(standings: &[Standing], known: &[Entry]) -> (f64, Markup) {
    let own = standings.iter().map(|s| &s.placed.entry);
    let all: Vec<&Entry> = known.iter().chain(own).filter(|e| e.mbps > 0.0).collect();
    let Some(scale) = Scale::around(all.iter().map(|e| e.mbps.log10())) else {
        return (0.0, markup! {});
    };
    let at = |mbps: f64| scale.at(mbps.log10());
    let rows = standings.len() as f64;
    let bottom = LABELS + LANE + rows * ROW;
    let inside =
        |mbps: &f64| all.iter().any(|e| e.mbps <= *mbps) && all.iter().any(|e| e.mbps >= *mbps);
    let ticks: Vec<(f64, String)> = [1.0, 10.0, 100.0, 1000.0, 10_000.0, 100_000.0]
        .into_iter()
        .filter(inside)
        .map(|v| (at(v), rate(v)))
        .collect();
    let description: Vec<String> = standings.iter().map(in_words).collect();
    let content = markup! {
        (axis(&ticks, LABELS, bottom))
        text x="0" y="14" { (known.len()) " known results, Mbit/s" }
        rect.lane x="0" y=(LABELS) width="100%" height=(LANE) rx="4" opacity="0.55" {}
        @for (entry, index) in known.iter().zip(0_u32..) {
            // Spread over the lane, so that equal rates stay apart.
            @let y = LABELS + 6.0 + f64::from(index % 9) * (LANE - 12.0) / 8.0;
            circle.dot cx=(per_cent(at(entry.mbps))) cy=(y) r="2.5" {
                title { (entry.name()) ": " (rate(entry.mbps)) }
            }
        }
        @for (standing, index) in standings.iter().zip(0_u32..) {
            @let top = LABELS + LANE + f64::from(index) * ROW;
            @let entry = &standing.placed.entry;
            text x="0" y=(top + 17.0) {
                (entry.name()) ": " (rate(entry.mbps)) ", place " (standing.placed.rank) " of " (standing.of)
            }
            circle.mean cx=(per_cent(at(entry.mbps.max(f64::MIN_POSITIVE)))) cy=(top + 29.0) r="6" {}
        }
    };
    let height = bottom + 22.0;
    let title = "WireGuard rates of known boards and of this one, Mbit/s";
    (height, drawing(height, title, &description.join("; "), &content))
}
