//! A flame graph: the calls of packets, the widths their shares of the time.

use std::fmt::Write;

use crate::decide::profile::{Calls, Group, Profile, group_of};

const WIDTH: f64 = 1200.0;
const ROW: f64 = 17.0;
const TOP: f64 = 44.0;
/// Narrower than this, in pixels, is left out.
const NARROW: f64 = 0.5;
/// Width of a letter, about.
const LETTER: f64 = 6.6;

/// The drawing, which needs nothing else: each frame shows its words when pointed at.
#[must_use]
pub fn svg(profile: &Profile, heading: &str) -> String {
    let mut frames = String::new();
    let mut depth = 0;
    draw(&profile.calls, profile.calls.count.max(1), 0.0, 0, &mut frames, &mut depth);
    let rows = u32::try_from(depth).unwrap_or(0);
    let height = TOP + ROW * f64::from(rows) + 30.0;
    let mut svg = String::new();
    let mut put = |text: std::fmt::Arguments<'_>| {
        // Writing to a String does not fail.
        let _infallible = svg.write_fmt(text);
    };
    put(format_args!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" role=\"img\" \
         font-family=\"monospace\" font-size=\"11\">\n<title>{}</title>\n",
        escape(heading)
    ));
    put(format_args!(
        "<style>svg{{background:#fff;color:#222}}text{{fill:#111}}rect{{stroke:#fff;stroke-width:.5}}\
         @media (prefers-color-scheme:dark){{svg{{background:#16181c}}.h{{fill:#ddd}}rect{{stroke:#16181c}}}}"
    ));
    for (at, group) in Group::ALL.iter().enumerate() {
        put(format_args!(".g{at}{{fill:{}}}", colour(*group)));
    }
    put(format_args!(
        "</style>\n<text class=\"h\" x=\"6\" y=\"16\" font-size=\"14\">{}</text>\n",
        escape(heading)
    ));
    let mut x = 6.0;
    for (at, group) in Group::ALL.iter().enumerate().filter(|(_, g)| profile.of(**g) > 0) {
        let share = 100.0 * profile.of(*group) as f64 / profile.packets().max(1) as f64;
        let label = format!("{} {share:.0} %", group.name());
        put(format_args!(
            "<rect class=\"g{at}\" x=\"{x:.0}\" y=\"24\" width=\"10\" height=\"10\"/>\
             <text class=\"h\" x=\"{:.0}\" y=\"33\">{label}</text>\n",
            x + 14.0
        ));
        x += 26.0 + LETTER * label.chars().count() as f64;
    }
    put(format_args!("{frames}</svg>\n"));
    svg
}

fn draw(
    calls: &Calls,
    all: u64,
    from: f64,
    depth: usize,
    frames: &mut String,
    deepest: &mut usize,
) {
    *deepest = (*deepest).max(depth);
    let mut x = from;
    for ((name, module), below) in &calls.below {
        let share = below.count as f64 / all as f64;
        let width = share * WIDTH;
        if width >= NARROW {
            let y = TOP + ROW * depth as f64;
            let class = Group::ALL.iter().position(|g| *g == group_of(name, module)).unwrap_or(0);
            let place = if module.is_empty() { String::new() } else { format!(" [{module}]") };
            let room = (width / LETTER) as usize;
            let label = match name.chars().count() {
                n if n <= room => name.clone(),
                _ if room >= 4 => name.chars().take(room - 2).chain("..".chars()).collect(),
                _ => String::new(),
            };
            // Writing to a String does not fail.
            let _infallible = writeln!(
                frames,
                "<g><title>{}{place}: {:.1} %, {} samples</title><rect class=\"g{class}\" \
                 x=\"{x:.1}\" y=\"{y:.0}\" width=\"{width:.1}\" height=\"{:.0}\" rx=\"1\"/>\
                 <text x=\"{:.1}\" y=\"{:.0}\">{}</text></g>",
                escape(name),
                share * 100.0,
                below.count,
                ROW - 1.0,
                x + 2.0,
                y + 12.0,
                escape(&label)
            );
            draw(below, all, x, depth + 1, frames, deepest);
        }
        x += width;
    }
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

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}
