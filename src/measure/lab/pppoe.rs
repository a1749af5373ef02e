//! PPPoE by the real programs: pppd in the router, pppoe-server at the other side.
//!
//! Both run where none of the machine's own PPP configuration is seen and nothing is written to it;
//! they end with this process, however it ends ([`crate::machine::sys::sandbox`]).

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use super::build::{in_netns, system};
use super::needs::{self, PPPD, PPPOE_SERVER, Program};
use super::wan::PPP;
use super::{ROUTER_WAN_ADDRESS, WAN_ADDRESS};
use crate::error::{Error, Result};
use crate::machine::host::command::{self, Running};
use crate::machine::host::{HostRead, Live, clock};
use crate::machine::sys::links;
use crate::machine::sys::netns::NetnsThread;
use crate::machine::sys::sandbox::Sandbox;

/// Bytes that PPPoE and PPP take from an Ethernet packet (RFC 2516).
const OVERHEAD: u32 = 8;
/// Discovery, LCP and IPCP take well under a second, or several where a packet is lost.
const PATIENCE: Duration = Duration::from_secs(20);
const SLICE: Duration = Duration::from_millis(20);
/// pppd's plugins are in a directory named after its version.
const PLUGINS: [&str; 3] = ["/usr/lib/pppd", "/usr/lib64/pppd", "/usr/local/lib/pppd"];
/// The plugin's names, the newer first.
const PLUGIN: [&str; 2] = ["pppoe.so", "rp-pppoe.so"];
/// pppoe-server has this path compiled in.
const SERVER_PLUGIN: &str = "/etc/ppp/plugins/rp-pppoe.so";
const SERVER_OPTIONS: &str = "/etc/ppp/pppoe-server-options";

/// Programs that a lab has started; dropping it ends them.
#[derive(Default)]
pub struct Programs {
    // In this order: the programs, then the threads that started them.
    running: Vec<Running>,
    threads: Vec<NetnsThread>,
}

impl Programs {
    /// Number of programs.
    #[must_use]
    pub fn count(&self) -> usize {
        self.running.len().min(self.threads.len())
    }

    fn start(
        &mut self,
        netns: &NetnsThread,
        program: &Program,
        arguments: &[&str],
        sandbox: Sandbox,
    ) -> Result<()> {
        let what = format!("lab: run {}", program.name);
        let thread = netns.beside(move || sandbox.enter()).map_err(|e| system(&what, &e))?;
        let arguments: Vec<String> = arguments.iter().map(ToString::to_string).collect();
        let running = command::start(&thread, program.name, &arguments)
            .map_err(|e| Error::not_supported(&what, e.reason()).hint(program.remedy))?;
        self.running.push(running);
        self.threads.push(thread);
        Ok(())
    }
}

/// Brings a session up over the two ends' Ethernet devices; then both have `ppp0` with addresses.
///
/// # Errors
/// Exit 5 without the programs or without PPPoE in the kernel, or when no session comes about (with
/// the programs' own words); interrupted when `stop` is raised meanwhile.
pub(super) fn connect(
    (router, near): (&Arc<NetnsThread>, &str),
    (wan, far): (&Arc<NetnsThread>, &str),
    mtu: u32,
    stop: &AtomicBool,
) -> Result<Programs> {
    let here = Live::here();
    for program in [PPPD, PPPOE_SERVER] {
        if !needs::find(&here, &program) {
            let why = format!("{} is not installed", program.name);
            return Err(Error::not_supported("lab", why).hint(program.remedy));
        }
    }
    let plugin = plugin(&here)?;
    let sandbox = || Sandbox {
        covered: vec!["/etc/ppp".into(), "/var/run".into()],
        files: vec![
            ("/etc/ppp/options".into(), String::new()),
            (SERVER_OPTIONS.into(), "noauth\nnovj\nnoccp\n+ipv6\nlcp-echo-interval 5\n".into()),
        ],
        links: vec![(SERVER_PLUGIN.into(), plugin.clone())],
        mute: vec!["/dev/log".into()],
    };
    let (server, client) = (WAN_ADDRESS.to_string(), ROUTER_WAN_ADDRESS.to_string());
    let mut programs = Programs::default();
    #[rustfmt::skip]
    let mut arguments = vec!["-F", "-I", far, "-L", &server, "-R", &client, "-N", "1",
                             "-O", SERVER_OPTIONS];
    // Debian builds it without; packets of the server's end then go through a program.
    if has_kernel_mode(wan)? {
        arguments.push("-k");
    }
    programs.start(wan, &PPPOE_SERVER, &arguments, sandbox())?;
    let size = mtu.saturating_sub(OVERHEAD).min(1492).to_string();
    let (plugin_path, nic) = (plugin.display().to_string(), format!("nic-{near}"));
    #[rustfmt::skip]
    let arguments = ["plugin", &plugin_path, &nic, "nodetach", "noauth", "noipdefault",
                     "nodefaultroute", "novj", "noccp", "+ipv6", "user", "lab", "password", "lab",
                     "mtu", &size, "mru", &size, "lcp-echo-interval", "5", "persist", "maxfail",
                     "5", "holdoff", "1", "logfd", "2"];
    programs.start(router, &PPPD, &arguments, sandbox())?;
    let deadline = clock::monotonic() + PATIENCE;
    let mut waiting = vec![router, wan];
    while !waiting.is_empty() {
        waiting.retain(|netns| !is_up(netns));
        if stop.load(Ordering::Relaxed) {
            return Err(Error::interrupted("lab: bring up PPPoE"));
        }
        let dead = programs.running.iter_mut().any(|p| !p.is_alive());
        if dead || clock::monotonic() > deadline {
            return Err(failed(programs, dead));
        }
        clock::sleep(SLICE);
    }
    Ok(programs)
}

/// True if pppoe-server can leave packets to the kernel: its help names the option then.
fn has_kernel_mode(netns: &Arc<NetnsThread>) -> Result<bool> {
    let what = "lab: run pppoe-server";
    let fail = |e: crate::machine::host::HostError| Error::not_supported(what, e.reason());
    let running = command::start(netns, PPPOE_SERVER.name, &["-h".to_owned()]).map_err(fail)?;
    let ended = running.wait(Duration::from_secs(5), &AtomicBool::new(false)).map_err(fail)?;
    let help = String::from_utf8_lossy(&ended.output).into_owned();
    Ok(help.lines().any(|line| line.trim_start().starts_with("-k ")))
}

fn is_up(netns: &Arc<NetnsThread>) -> bool {
    let facts = in_netns(netns, "lab: look at ppp0", links::facts);
    facts.is_ok_and(|all| all.get(PPP).is_some_and(|link| link.ipv4 > 0))
}

fn plugin(host: &dyn HostRead) -> Result<PathBuf> {
    for directory in PLUGINS {
        let versions = host.list(Path::new(directory)).unwrap_or_default();
        for version in versions.iter().rev() {
            for name in PLUGIN {
                let path = Path::new(directory).join(version).join(name);
                if host.resolve(&path).is_ok() {
                    return Ok(path);
                }
            }
        }
    }
    Err(Error::not_supported("lab", "pppd has no plugin pppoe.so or rp-pppoe.so").hint(PPPD.remedy))
}

/// Error with the programs' last words, without their addresses of memory and time.
fn failed(programs: Programs, dead: bool) -> Error {
    let Programs { running, threads } = programs;
    let mut said = Vec::new();
    for program in running {
        let stop = AtomicBool::new(true);
        if let Ok(ended) = program.wait(Duration::ZERO, &stop) {
            let text = String::from_utf8_lossy(&ended.output).into_owned();
            said.extend(text.lines().map(str::trim).filter(|l| !l.is_empty()).map(str::to_owned));
        }
    }
    drop(threads);
    let why = if dead { "a program has ended" } else { "no session within 20 seconds" };
    let last: Vec<String> = said.iter().rev().take(3).rev().cloned().collect();
    let told = last.join("; ");
    // pppd's words for a kernel without PPP or PPPoE.
    let lacks = |words: &[&str]| words.iter().any(|w| told.contains(w));
    if lacks(&["lacks kernel support", "/dev/ppp", "ppp_generic", "PPP driver"]) {
        return needs::PPP.missing();
    }
    if lacks(&["PPPoE socket", "Protocol not supported", "Address family not supported"]) {
        return needs::PPPOE.missing();
    }
    Error::not_supported("lab: bring up PPPoE", format!("{why}: {told}")).hint(
        "pppoe-server and pppd were started in namespaces of their own; both must be able to \
               use the kernel's PPPoE (modprobe pppoe)",
    )
}
