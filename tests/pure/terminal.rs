//! Nothing that came from elsewhere steers a terminal: strings of captures, results, plans, journals,
//! kernel configurations and the command line, in every verb that shows them.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::program::{self, has};

/// Clears the screen, names the window, rings, goes back to the line's start, colours by C1, turns
/// text around, deletes, and ends in a mark of our own styles.
const EVIL: &str =
    "\x1b[2J\x1b]0;owned\x07\r\u{9b}31m\u{85}\u{202e}\u{2066}\u{200f}\x08\x7f\u{fdd1}";

/// The same for what ends at white space.
const WORD: &str = "\x1b[2J\x1b]0;owned\x07\u{9b}31m\u{202e}\u{2066}\u{200f}\x08\x7f\u{fdd1}";

struct Place(PathBuf);

impl Place {
    fn new(name: &str) -> Self {
        let dir = format!("linerate-terminal-{}-{name}", std::process::id());
        let dir = std::env::temp_dir().join(dir);
        std::fs::create_dir_all(&dir).unwrap();
        Self(dir)
    }

    fn put(&self, name: &str, text: impl AsRef<[u8]>) -> PathBuf {
        let path = self.0.join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, text).unwrap();
        path
    }

    /// Runs the program, looks at all that it prints, and says whether what was planted is in it.
    fn shows(&self, args: &[&str]) -> bool {
        self.shows_in("always", args)
    }

    fn shows_in(&self, color: &str, args: &[&str]) -> bool {
        let output = Command::new(program::path())
            .args(args)
            .args(["--color", color])
            .current_dir(&self.0)
            .env("LINERATE_STATE_DIR", self.0.join("state"))
            .env("COLUMNS", "400")
            .output()
            .unwrap();
        assert!(output.status.code().is_some(), "{args:?}: {:?}", output.status);
        let texts = [output.stdout, output.stderr].map(|b| String::from_utf8(b).unwrap());
        texts.iter().for_each(|text| harmless(text, color == "always", args));
        texts.iter().any(|text| text.contains("owned"))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        drop(std::fs::remove_dir_all(&self.0));
    }
}

/// Fails if the text does more to a terminal than to be read, in our own colours if they are asked for.
fn harmless(text: &str, color: bool, args: &[&str]) {
    let mut bare = text.to_owned();
    if color {
        for code in ["0", "1", "2", "32", "33"] {
            bare = bare.replace(&format!("\x1b[{code}m"), "");
        }
    }
    let steers = |c: char| {
        let bidi = "\u{61c}\u{200e}\u{200f}\u{202a}\u{202b}\u{202c}\u{202d}\u{202e}\u{2066}\u{2067}\
                    \u{2068}\u{2069}\u{2028}\u{2029}";
        (c.is_control() && c != '\n' && c != '\t') || bidi.contains(c)
    };
    if let Some(at) = bare.find(steers) {
        let from = bare[..at].char_indices().rev().nth(60).map_or(0, |(at, _)| at);
        panic!("{args:?} steers the terminal: {:?}", &bare[from..(at + 4).min(bare.len())]);
    }
}

/// A copy of a captured machine, directories and links, each name and text as `change` makes it.
fn copied(from: &Path, to: &Path, change: &dyn Fn(&Path, &str) -> String) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap().map(Result::unwrap) {
        let name = entry.file_name().into_string().unwrap();
        let (path, place) = (entry.path(), to.join(change(Path::new(""), &name)));
        if entry.file_type().unwrap().is_dir() {
            copied(&path, &place, change);
        } else {
            let text = std::fs::read(&path).unwrap();
            match std::str::from_utf8(&text) {
                Ok(text) => std::fs::write(place, change(&path, text)).unwrap(),
                Err(_) => std::fs::write(place, text).unwrap(),
            }
        }
    }
}

fn hosts() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/hosts")
}

/// Every verb that looks at a captured machine.
const LOOKS: &[&str] = &[
    "show",
    "show cpus",
    "show nics",
    "show irqs",
    "show stack",
    "show path",
    "show kernel",
    "show knobs",
    "show --json",
    "check",
    "check --json",
    "plan -o -",
    "plan -o plan.toml --force",
    "verify plan.toml",
    "verify plan.toml --json",
    "persist --print plan.toml --init systemd",
    "persist --print plan.toml --init openwrt",
    "kernel check",
];

fn looked_at(place: &Place, host: &Path) -> usize {
    let seen = LOOKS.iter().filter(|line| {
        has(line.split(' ').next().unwrap()) && {
            let args: Vec<&str> =
                line.split(' ').chain(["--host", host.to_str().unwrap()]).collect();
            place.shows(&args)
        }
    });
    seen.count()
}

#[test]
fn names_of_devices_do_not_steer_the_terminal() {
    let place = Place::new("names");
    for (host, device) in [("rk3576-8-r8169x2-6.1", "eth0"), ("rk3328-4-dwmac+r8152-6.6", "eth0")] {
        let planted = format!("{device}{WORD}");
        let to = place.0.join(host);
        copied(&hosts().join(host), &to, &|_, text| text.replace(device, &planted));
        let seen = looked_at(&place, &to);
        assert!(seen >= LOOKS.len() / 2, "{host}: only {seen} show the device");
    }
}

#[test]
fn what_a_machine_says_of_itself_does_not_steer_the_terminal() {
    let place = Place::new("itself");
    let from = hosts().join("rk3576-8-r8169x2-6.1");
    let uci = |kind: &str, option: &str| {
        format!("config {kind} '{WORD}'\n\toption {option} '{EVIL}'\n\tlist {option} \"{WORD}\"\n")
    };
    for (file, text, is_shown) in [
        ("proc/sys/kernel/hostname", format!("{EVIL}\n"), true),
        ("proc/sys/kernel/osrelease", format!("6.1.0{EVIL}\n"), true),
        ("proc/device-tree/model", format!("{EVIL}\0"), true),
        ("etc/openwrt_release", format!("DISTRIB_DESCRIPTION='{EVIL}'\n"), true),
        ("proc/cmdline", format!("isolcpus={WORD} console={WORD}\n"), false),
        ("sys/class/net/eth0/ifalias", format!("{EVIL}\n"), false),
        ("etc/config/network", uci("globals", "packet_steering"), false),
        ("etc/config/wireless", uci("wifi-iface", "ssid"), false),
        ("etc/config/firewall", uci("defaults", "flow_offloading"), false),
    ] {
        let to = place.0.join(file.replace('/', "-"));
        copied(&from, &to, &|_, text| text.to_owned());
        let path = to.join(file);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
        assert!(looked_at(&place, &to) > 0 || !is_shown, "{file} is not shown");
    }
}

#[test]
fn words_of_kernel_files_do_not_steer_the_terminal() {
    let place = Place::new("words");
    let (mut seen, host) = (0, "rk3576-8-r8169x2-6.1");
    for seed in 0..3_u64 {
        let plant = |path: &Path, text: &str| {
            // Links that lead nowhere would leave nothing to show.
            if path == Path::new("") || path.ends_with("linerate/symlinks") {
                return text.to_owned();
            }
            let mut out = String::new();
            let mut word = String::new();
            let mut at = seed;
            for c in text.chars().chain(['\n']) {
                if c.is_alphanumeric() {
                    word.push(c);
                    continue;
                }
                // Some words of each file, others each time.
                at = at
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(1_442_695_040_888_963_407);
                let letters = word.chars().any(char::is_alphabetic);
                if letters && (at >> 40) % 6 == 0 {
                    word.push_str(WORD);
                }
                out.push_str(&std::mem::take(&mut word));
                out.push(c);
            }
            out.pop();
            out
        };
        let to = place.0.join(seed.to_string());
        copied(&hosts().join(host), &to, &plant);
        seen += looked_at(&place, &to);
    }
    assert!(seen > 6, "only {seen} show what was planted");
}

/// Keys of strings in a JSON value.
fn keys(value: &Value, key: &str, into: &mut Vec<String>) {
    match value {
        Value::Object(map) => map.iter().for_each(|(key, value)| keys(value, key, into)),
        Value::Array(list) => list.iter().for_each(|value| keys(value, key, into)),
        Value::String(_) => into.push(key.to_owned()),
        _ => {}
    }
}

fn planted(value: &mut Value, key: &str, target: &str) {
    match value {
        Value::Object(map) => map.iter_mut().for_each(|(key, value)| planted(value, key, target)),
        Value::Array(list) => list.iter_mut().for_each(|value| planted(value, key, target)),
        Value::String(text) if key == target => text.push_str(EVIL),
        _ => {}
    }
}

fn each_key(value: &Value) -> Vec<(String, Value)> {
    let mut all = Vec::new();
    keys(value, "", &mut all);
    all.sort();
    all.dedup();
    let with = |key: String| {
        let mut value = value.clone();
        planted(&mut value, "", &key);
        (key, value)
    };
    all.into_iter().map(with).collect()
}

#[test]
fn strings_of_results_do_not_steer_the_terminal() {
    if program::lacks("report") {
        return;
    }
    let place = Place::new("results");
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures");
    let files = [
        (
            "formats/result-v1.json",
            &["report R -o -", "compare R R", "fit R", "report R --json"][..],
        ),
        ("formats/sweep-v1.json", &["report R -o -", "compare R R"]),
        ("formats/board-v1.json", &["rank R"]),
        ("experiments/r4s-placement.json", &["report R -o -", "report R --format html -o -"]),
    ];
    for (file, verbs) in files {
        let value: Value =
            serde_json::from_slice(&std::fs::read(fixtures.join(file)).unwrap()).unwrap();
        let mut seen = 0;
        for (_, value) in each_key(&value) {
            let path = place.put("result.json", serde_json::to_vec(&value).unwrap());
            for verb in verbs {
                let args: Vec<&str> = verb
                    .split(' ')
                    .map(|word| if word == "R" { path.to_str().unwrap() } else { word })
                    .collect();
                seen += usize::from(place.shows(&args));
            }
        }
        assert!(seen > 0, "{file}: nothing shows what was planted");
    }
}

#[test]
fn strings_of_plans_and_journals_do_not_steer_the_terminal() {
    let place = Place::new("plans");
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/formats");
    let text = std::fs::read_to_string(fixtures.join("plan-v2.toml")).unwrap();
    let value: Value = toml::from_str(&text).unwrap();
    let host = hosts().join("rk3399-6-dwmac+r8169-5.4");
    let host = host.to_str().unwrap();
    let mut seen = 0;
    for (_, value) in each_key(&value) {
        place.put("plan.toml", toml::to_string(&value).unwrap());
        for line in ["apply --dry-run", "verify", "persist --print", "verify --pending --host HOST"]
        {
            let args: Vec<&str> =
                line.split(' ').map(|word| if word == "HOST" { host } else { word }).collect();
            seen += usize::from(place.shows(&args));
        }
    }
    assert!(seen > 10, "only {seen} show what was planted");
    let journal = std::fs::read_to_string(fixtures.join("journal-v1")).unwrap();
    place.put("state/journal-0001", journal.replace("eth0", &format!("eth0{WORD}")));
    place.shows(&["status"]);
    place.shows(&["status", "--json"]);
    let word = format!("--bogus{EVIL}");
    for args in
        [&[word.as_str()][..], &["show", &word], &["apply", &word], &["plan", "--flows", &word]]
    {
        assert!(place.shows(args), "{args:?}");
    }
}

#[test]
fn kernel_configurations_do_not_steer_the_terminal() {
    if program::lacks("kernel") {
        return;
    }
    let place = Place::new("config");
    let config = format!("CONFIG_LOCALVERSION=\"{WORD}\"\nCONFIG_{WORD}=y\nCONFIG_HZ=250\n");
    place.put("a", config.replace("owned", "other"));
    place.put("b", config);
    assert!(place.shows(&["kernel", "diff", "--all", "a", "b"]));
    place.shows(&["kernel", "check", "b"]);
}
