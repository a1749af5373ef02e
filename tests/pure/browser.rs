//! Pages in a real browser (headless Chromium): from a phone to a wide screen nothing is cut or scrolls
//! sideways, no two labels lie on each other, what is folded on a screen is printed, and axe-core has no
//! serious complaint in either scheme. `LINERATE_PAGES=DIR` keeps a picture of each page and width.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

use linerate::decide::profile::Profile;
use linerate::report::render::chart::flame;
use linerate::report::render::{Form, Render};
use linerate::report::sweep;
use serde_json::{Value, json};

use crate::program;
use crate::report::{as_html, odd_runs, over_time, swept};

/// Widths of a phone, a large one, just more than a phone's layout is for, a tablet, a laptop and a
/// wide screen.
const WIDTHS: [u32; 6] = [320, 480, 641, 768, 1024, 1600];

/// What is free on A4 within the browser's margins, in CSS pixels.
const PAPER: (u32, f64) = (718, 1046.0);

/// What leaves the page, is cut, scrolls sideways or lies on another label.
const MISPLACED: &str = r#"(() => {
  const wide = document.documentElement.clientWidth, bad = [];
  const say = (what, e) => bad.push(`${what}: <${e.tagName}> ${e.textContent.trim().slice(0, 60)}`);
  if (document.documentElement.scrollWidth > wide) bad.push(`the page is ${document.documentElement.scrollWidth} wide`);
  const seen = e => e.checkVisibility({ contentVisibilityAuto: true }) && e.getClientRects().length;
  for (const e of document.querySelectorAll('main *')) {
    if (!seen(e) || e.closest('.graph')) continue;
    const r = e.getBoundingClientRect();
    if (r.width && (r.right > wide + 1 || r.left < -1)) say('outside', e);
    if (e.clientWidth && e.scrollWidth > e.clientWidth + 1 && !e.closest('svg')) say('scrolls or is cut', e);
  }
  for (const svg of document.querySelectorAll('figure svg')) {
    const labels = Array.from(svg.querySelectorAll('text')).filter(seen);
    const at = labels.map(e => e.getBoundingClientRect());
    const room = svg.closest('section').getBoundingClientRect(), own = svg.getBoundingClientRect();
    labels.forEach((e, n) => {
      if (at[n].top < own.top - 2 || at[n].bottom > own.bottom + 2) say('above or below its drawing', e);
      if (at[n].right > room.right + 1 || at[n].left < room.left - 1) say('outside its card', e);
      for (let m = 0; m < n; m++) {
        const across = Math.min(at[n].right, at[m].right) - Math.max(at[n].left, at[m].left);
        const down = Math.min(at[n].bottom, at[m].bottom) - Math.max(at[n].top, at[m].top);
        if (across > 1 && down > 4) say(`on "${labels[m].textContent}"`, e);
      }
    });
  }
  return bad.slice(0, 8).join('\n');
})()"#;

/// What paper would hide or cut in two: folded parts that stay folded, rows that may break.
const UNPRINTED: &str = r#"(() => {
  const bad = [];
  for (const e of document.querySelectorAll('details > :not(summary)'))
    if (!e.checkVisibility({ contentVisibilityAuto: true })) bad.push(`folded: ${e.textContent.slice(0, 40)}`);
  for (const e of document.querySelectorAll('tr, figure, li')) {
    if (getComputedStyle(e).breakInside !== 'avoid') bad.push(`breaks: <${e.tagName}>`);
    if (e.getBoundingClientRect().height > 1046) bad.push(`higher than a sheet: ${e.textContent.slice(0, 40)}`);
  }
  return bad.slice(0, 8).join('\n');
})()"#;

const AXE: &str = "axe.run({ resultTypes: ['violations'] }).then(all => all.violations
  .filter(v => ['serious', 'critical'].includes(v.impact))
  .map(v => `${v.id}: ${v.help}: ${v.nodes.slice(0, 3).map(n => n.html.slice(0, 160)).join(' ')}`).join('\\n'))";

/// A browser that is told what to do through a pipe (the DevTools protocol), gone with this.
struct Browser {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    profile: PathBuf,
    session: Option<String>,
    asked: u64,
}

impl Browser {
    /// The browser of this machine; `None` where there is none, which is told and counted.
    fn start() -> Option<Self> {
        let found = ["chromium", "chromium-browser", "google-chrome", "chrome"];
        let path = std::env::var_os("PATH")?;
        let program =
            found.iter().find(|name| std::env::split_paths(&path).any(|d| d.join(name).is_file()));
        let Some(program) = program else {
            let name = std::thread::current().name().unwrap_or("?").to_owned();
            eprintln!("SKIPPED (optional) {name}: no chromium here");
            return None;
        };
        // Tests run side by side, and no two browsers share a profile.
        static STARTED: AtomicU32 = AtomicU32::new(0);
        let number = STARTED.fetch_add(1, Ordering::Relaxed);
        let profile = format!("linerate-browser-{}-{number}", std::process::id());
        let profile = std::env::temp_dir().join(profile);
        // The pipe is file descriptors 3 and 4.
        let mut child = Command::new("sh")
            .args(["-c", "exec \"$@\" 3<&0 4>&1 </dev/null >/dev/null 2>&1", "sh", program])
            .args(["--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"])
            .args(["--disable-background-networking", "--remote-debugging-pipe"])
            .arg(format!("--user-data-dir={}", profile.display()))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let (input, output) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        let output = BufReader::new(output);
        let mut browser = Self { child, input, output, profile, session: None, asked: 0 };
        let target = browser.ask("Target.createTarget", json!({ "url": "about:blank" }));
        let attach = json!({ "targetId": target["targetId"], "flatten": true });
        let session = browser.ask("Target.attachToTarget", attach)["sessionId"].clone();
        browser.session = session.as_str().map(str::to_owned);
        browser.ask("Page.enable", json!({}));
        Some(browser)
    }

    fn ask(&mut self, method: &str, params: Value) -> Value {
        self.asked += 1;
        let mut message = json!({ "id": self.asked, "method": method, "params": params });
        if let Some(session) = &self.session {
            message["sessionId"] = session.as_str().into();
        }
        self.input.write_all(format!("{message}\0").as_bytes()).unwrap();
        loop {
            let told = self.next();
            if told["id"] == self.asked {
                assert!(told["error"].is_null(), "{method}: {}", told["error"]);
                return told["result"].clone();
            }
        }
    }

    fn next(&mut self) -> Value {
        let mut told = Vec::new();
        self.output.read_until(0, &mut told).unwrap();
        assert_eq!(told.pop(), Some(0), "the browser is gone");
        serde_json::from_slice(&told).unwrap()
    }

    fn open(&mut self, page: &Path) {
        self.ask("Page.navigate", json!({ "url": format!("file://{}", page.display()) }));
        while self.next()["method"] != "Page.loadEventFired" {}
    }

    fn width(&mut self, width: u32, height: u32) {
        let size =
            json!({ "width": width, "height": height, "deviceScaleFactor": 1, "mobile": false });
        self.ask("Emulation.setDeviceMetricsOverride", size);
    }

    fn media(&mut self, media: &str, scheme: &str) {
        let scheme = json!([{ "name": "prefers-color-scheme", "value": scheme }]);
        self.ask("Emulation.setEmulatedMedia", json!({ "media": media, "features": scheme }));
    }

    fn evaluate(&mut self, script: &str) -> Value {
        let all = json!({ "expression": script, "awaitPromise": true, "returnByValue": true });
        let told = self.ask("Runtime.evaluate", all);
        assert!(told["exceptionDetails"].is_null(), "{}", told["exceptionDetails"]);
        told["result"]["value"].clone()
    }

    /// What a check of the page complains of; empty if of nothing.
    fn complaint(&mut self, script: &str) -> String {
        self.evaluate(script).as_str().unwrap().to_owned()
    }

    fn picture(&mut self, name: &str) {
        let Some(dir) = std::env::var_os("LINERATE_PAGES") else { return };
        let told = self.ask("Page.captureScreenshot", json!({ "captureBeyondViewport": true }));
        let file = Path::new(&dir).join(format!("{}.png", name.replace(' ', "-")));
        std::fs::write(file, decoded(&told["data"])).unwrap();
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
        drop(std::fs::remove_dir_all(&self.profile));
    }
}

/// A page for each kind of report, in a directory that is gone with this.
struct Pages(PathBuf, Vec<(String, PathBuf)>);

impl Pages {
    fn new(name: &str) -> Self {
        let dir = format!("linerate-pages-{}-{name}", std::process::id());
        let dir = std::env::temp_dir().join(dir);
        std::fs::create_dir_all(&dir).unwrap();
        let mut pages = Self(dir, Vec::new());
        // The longest names, intervals, predictions, refusals, and a page without anything.
        let shown = ["usual", "predicted", "fg50e-2x2x2", "all refused", "nothing at all"];
        for (name, experiment) in odd_runs().into_iter().filter(|(name, _)| shown.contains(name)) {
            pages.add(name, &as_html(&experiment));
        }
        pages.add("over time", &as_html(&over_time()));
        pages.add("sweep", &Form::Html.render(&sweep::document(&swept())));
        pages.add("flame graph", &flame::page(&profile(), "packets on 2 CPUs, 10.0 s"));
        for line in [
            "compare fixtures/experiments/r4s-placement.json fixtures/experiments/r4s-placement.json",
            "compare --fleet fixtures/hosts",
            "rank fixtures/formats/board-v1.json",
            "report fixtures/formats/sweep-v1.json",
            "report fixtures/experiments/lab-2cpu-nat300.json",
        ] {
            let file = pages.0.join(format!("{}.html", pages.1.len()));
            let mut command = Command::new(program::path());
            command.current_dir(env!("CARGO_MANIFEST_DIR")).args(line.split(' '));
            let output = command.arg("-o").arg(&file).output().unwrap();
            assert!(matches!(output.status.code(), Some(0 | 6)), "{line}: {output:?}");
            pages.1.push((line.split(['/', '.']).next().unwrap().to_owned() + " printed", file));
        }
        pages
    }

    fn add(&mut self, name: &str, page: &str) {
        let file = self.0.join(format!("{}.html", self.1.len()));
        std::fs::write(&file, page).unwrap();
        self.1.push((name.to_owned(), file));
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        drop(std::fs::remove_dir_all(&self.0));
    }
}

/// Calls of packets as deep as those of a router with a bridge, rules and a tunnel.
fn profile() -> Profile {
    let mut profile = Profile::default();
    let chain = |names: &[&'static str], times: usize| {
        let chain: Vec<_> = names.iter().rev().map(|name| (*name, "")).collect();
        vec![chain; times]
    };
    let entry = ["handle_softirqs", "net_rx_action", "__napi_poll"];
    let with = |more: &[&'static str], times| chain(&[&entry[..], more].concat(), times);
    let chains = [
        with(
            &["process_backlog", "__netif_receive_skb", "ip_rcv", "nf_hook_slow", "nft_do_chain"],
            500,
        ),
        with(&["process_backlog", "__netif_receive_skb", "ip_rcv", "ip_forward", "ip_output"], 300),
        with(&["rtl8169_poll", "napi_gro_receive", "dev_gro_receive", "tcp4_gro_receive"], 190),
        with(&["rtl8169_poll", "kmem_cache_free"], 9),
        chain(&["handle_softirqs", "tasklet_action"], 1),
    ];
    profile.add(0, chains.concat().into_iter(), 100);
    profile
}

#[test]
#[ignore = "slow: make test runs it"]
fn pages_fit_every_width_and_print_whole() {
    let Some(mut browser) = Browser::start() else { return };
    let pages = Pages::new("fit");
    let mut found = Vec::new();
    for (name, file) in &pages.1 {
        browser.media("", "light");
        browser.open(file);
        for unfolded in [false, true] {
            browser.evaluate(&format!(
                "document.querySelectorAll('details').forEach(d => d.open = {unfolded})"
            ));
            for width in WIDTHS {
                browser.width(width, 900);
                let complaint = browser.complaint(MISPLACED);
                if !complaint.is_empty() {
                    found.push(format!("{name} at {width}:\n{complaint}"));
                }
                if unfolded {
                    browser.picture(&format!("{name} {width}"));
                }
            }
        }
        browser.open(file);
        browser.media("print", "dark");
        browser.width(PAPER.0, PAPER.1 as u32);
        for check in [MISPLACED, UNPRINTED] {
            let complaint = browser.complaint(check);
            if !complaint.is_empty() {
                found.push(format!("{name} on paper:\n{complaint}"));
            }
        }
        let ink = browser.complaint("getComputedStyle(document.body).backgroundColor");
        assert_eq!(ink, "rgb(255, 255, 255)", "{name}: paper is white");
        let height = browser.evaluate("document.documentElement.scrollHeight").as_f64().unwrap();
        let sheets =
            browser.ask("Page.printToPDF", json!({ "paperWidth": 8.27, "paperHeight": 11.69 }));
        let sheets = f64::from(sheets_of(&decoded(&sheets["data"])));
        let least = (height / PAPER.1).ceil();
        if sheets < least || sheets > 1.6 * least + 1.0 {
            found.push(format!("{name}: {sheets} sheets for {least} of content"));
        }
    }
    assert!(found.is_empty(), "{} of them:\n{}", found.len(), found.join("\n"));
}

/// Bytes that were told in base64.
fn decoded(encoded: &Value) -> Vec<u8> {
    let mut bytes = Vec::new();
    let (mut bits, mut held) = (0_u32, 0);
    for letter in encoded.as_str().unwrap().bytes() {
        let value = match letter {
            b'A'..=b'Z' => letter - b'A',
            b'a'..=b'z' => letter - b'a' + 26,
            b'0'..=b'9' => letter - b'0' + 52,
            b'+' => 62,
            b'/' => 63,
            _ => break,
        };
        (bits, held) = (bits << 6 | u32::from(value), held + 6);
        if held >= 8 {
            held -= 8;
            bytes.push((bits >> held & 255) as u8);
        }
    }
    bytes
}

/// Sheets of a PDF: the largest `/Count` of its page tree.
fn sheets_of(pdf: &[u8]) -> u32 {
    let text = String::from_utf8_lossy(pdf);
    let counts = text.split("/Count ").skip(1);
    let numbers =
        counts.filter_map(|rest| rest.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok());
    numbers.max().unwrap_or(0)
}

#[test]
#[ignore = "slow: make test runs it"]
fn axe_core_has_no_serious_complaint_in_either_scheme() {
    let axe =
        Path::new(env!("CARGO_TARGET_TMPDIR")).join("../axe/node_modules/axe-core/axe.min.js");
    let Ok(axe) = std::fs::read_to_string(axe) else {
        eprintln!(
            "SKIPPED (optional) axe_core_has_no_serious_complaint_in_either_scheme: no axe-core in target/axe; \
             scripts/setup.sh test fetches it where there is npm"
        );
        return;
    };
    let Some(mut browser) = Browser::start() else { return };
    let pages = Pages::new("axe");
    let mut found = Vec::new();
    for (name, file) in &pages.1 {
        for (scheme, width) in [("light", 1024), ("dark", 1024), ("dark", 320)] {
            browser.media("", scheme);
            browser.width(width, 900);
            browser.open(file);
            browser.evaluate("document.querySelectorAll('details').forEach(d => d.open = true)");
            browser.evaluate(&format!("{axe}; 0"));
            let complaint = browser.complaint(AXE);
            if !complaint.is_empty() {
                found.push(format!("{name}, {scheme}, {width}:\n{complaint}"));
            }
            browser.picture(&format!("{name} {scheme} {width}"));
        }
    }
    assert!(found.is_empty(), "{} of them:\n{}", found.len(), found.join("\n"));
}

#[test]
#[ignore = "slow: make test runs it"]
fn a_flame_graph_zooms_into_what_is_clicked_and_back() {
    let Some(mut browser) = Browser::start() else { return };
    let mut pages = Pages(
        std::env::temp_dir().join(format!("linerate-flame-{}", std::process::id())),
        Vec::new(),
    );
    std::fs::create_dir_all(&pages.0).unwrap();
    pages.add("flame", &flame::page(&profile(), "packets"));
    browser.width(1024, 700);
    browser.open(&pages.1[0].1);
    let widths = "Array.from(document.querySelectorAll('.frame')).filter(f => f.checkVisibility())
        .map(f => f.querySelector('text').textContent + ' ' + Math.round(f.querySelector('rect').getBoundingClientRect().width / \
        document.querySelector('.graph').getBoundingClientRect().width * 100)).join(', ')";
    let before = browser.complaint(widths);
    assert!(before.contains("rtl8169_poll 20") && before.contains("tasklet_action 0"), "{before}");
    let click = "Array.from(document.querySelectorAll('.frame')).find(f => f.textContent.startsWith('rtl8169_poll'))
        .dispatchEvent(new MouseEvent('click'))";
    browser.evaluate(click);
    let zoomed = browser.complaint(widths);
    assert_eq!(
        zoomed,
        "handle_softirqs 100, net_rx_action 100, __napi_poll 100, rtl8169_poll 100, \
         kmem_cache_free 5, napi_gro_receive 95, dev_gro_receive 95, tcp4_gro_receive 95"
    );
    browser.evaluate("document.querySelector('button').click()");
    assert_eq!(browser.complaint(widths), before);
}
