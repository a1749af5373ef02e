//! Persisted plans on this kernel: devices that appear in a namespace, OpenWrt's hook scripts in
//! busybox's shell, and what an event costs.
//!
//! rc.common and procd are stand-ins here (labelled so below); the shell, the scripts, the program
//! and the devices are real. `uci` is not called at all.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex};

use crate::program;
use linerate::machine::discover;
use linerate::machine::host::{HostRead, HostResult, Live, Query};
use linerate::machine::sys::netns::NetnsThread;
use linerate::machine::sys::rtnl;
use linerate::model::identity::HostIdentity;

/// A directory of the test's own, with a plan for three devices that do not exist yet.
struct Place(PathBuf);

impl Place {
    fn new(name: &str) -> Self {
        let base = Path::new("/dev/shm");
        let base = if base.is_dir() { base.to_owned() } else { std::env::temp_dir() };
        let dir = base.join(format!("linerate-persist-{}-{name}", std::process::id()));
        std::fs::create_dir(&dir).unwrap();
        let mut plan = String::from(
            "format = \"linerate-plan\"\nversion = 1\nname = \"test\"\ntitle = \"RPS\"\n\
             reason = \"a test\"\nhostname = \"router\"\ncpus = \"0\"\nsettings = 3\n",
        );
        let devices = ["lan0", "pppoe-wan", "other0"];
        for device in devices {
            plan += &format!(
                "[[device]]\nname = \"{device}\"\nsysfs = \"/sys/devices/virtual/net/{device}\"\n\
                 driver = \"\"\nrx_queues = 1\n"
            );
        }
        for device in devices {
            plan += &format!(
                "[[setting]]\nknob = \"rps-cpus\"\ndevice = \"{device}\"\nqueue = 0\n\
                 before = \"none\"\nafter = \"0\"\nreason = \"a test\"\n"
            );
        }
        std::fs::write(dir.join("plan.toml"), plan).unwrap();
        std::os::unix::fs::symlink(program::path(), dir.join("linerate")).unwrap();
        Self(dir)
    }

    /// Runs a script in a network namespace of its own, with that namespace's /sys. Gives what it
    /// printed; it has to end well.
    fn script(&self, text: &str) -> String {
        self.script_in(&["--net", "--mount"], text)
    }

    /// Runs a script in these namespaces of its own, and of processes: none outlives it.
    fn script_in(&self, namespaces: &[&str], text: &str) -> String {
        let whole = format!("set -eu\nmount -t sysfs sysfs /sys\n{FUNCTIONS}\n{text}");
        std::fs::write(self.0.join("script"), whole).unwrap();
        let output = Command::new("unshare")
            .args(["--pid", "--fork", "--mount-proc"])
            .args(namespaces)
            .args(["sh", "script"])
            .current_dir(&self.0)
            .env("LINERATE_STATE_DIR", self.0.join("state"))
            .env("LINERATE_ROOT_DIR", self.0.join("root"))
            .env("HERE", &self.0)
            .env("TEXTS", concat!(env!("CARGO_MANIFEST_DIR"), "/packaging/openwrt"))
            .output()
            .unwrap();
        let said = format!(
            "{}{}",
            String::from_utf8_lossy(&output.stdout),
            String::from_utf8_lossy(&output.stderr)
        );
        assert!(output.status.success(), "{said}");
        said
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        std::fs::remove_dir_all(&self.0).unwrap();
    }
}

/// Functions of the scripts.
const FUNCTIONS: &str = r#"
ROOT=$LINERATE_ROOT_DIR
mkdir -p $ROOT/etc/config $ROOT/etc/init.d $ROOT/etc/rc.d $ROOT/etc/hotplug.d/net $ROOT/etc/hotplug.d/iface
printf "config globals 'globals'\n\toption packet_steering '1'\n" >$ROOT/etc/config/network
rps() { cat /sys/class/net/$1/queues/rx-0/rps_cpus | tr -d 0,; }
fail() { echo "failed: $*"; exit 1; }
is_set() { # is_set DEVICE: within a while, for events are handled in the background
    for i in $(seq 200); do [ "$(rps $1)" != 1 ] || return 0; sleep 0.05; done
    fail "$1 was never set"
}
is_unset() { [ "$(rps $1)" = '' ] || fail "$1 is set"; }
idle() { # until no event is at work any more
    for i in $(seq 200); do [ -e $LINERATE_STATE_DIR/lock ] || { sleep 0.1; [ -e $LINERATE_STATE_DIR/lock ] || return 0; }; sleep 0.05; done
}
# hotplug KIND VARIABLE=VALUE...: what /sbin/hotplug-call of OpenWrt does with each script.
hotplug() {
    kind=$1; shift
    env "$@" busybox ash -c 'for script in $(ls "$0"/*); do ( [ -f $script ] && . $script ); done' $ROOT/etc/hotplug.d/$kind
}
"#;

macro_rules! need {
    ($($program:literal),*) => {
        let mut missing: Vec<&str> = vec![$($program),*];
        missing.retain(|p: &&str| Command::new(p).arg("--help").output().is_err());
        if !rustix::process::geteuid().is_root() { missing.push("root"); }
        if !missing.is_empty() {
            eprintln!("SKIPPED {}: needs {}", std::thread::current().name().unwrap_or("?"), missing.join(", "));
            return;
        }
    };
}

#[test]
fn a_device_made_after_persisting_is_configured_by_its_event_and_rolled_back_like_any_other() {
    need!("unshare", "ip");
    let place = Place::new("event");
    let said = place.script(
        r#"
./linerate persist --init systemd
ip link add lan0 type veth peer name far0
ip link add other0 type veth peer name far1
is_unset lan0
./linerate event -- lan0
is_set lan0
is_unset other0
# Without a plan.toml here, what is persisted is meant.
mv plan.toml elsewhere.toml
./linerate verify && fail 'other0 is not set yet'
./linerate status && fail 'other0 is here and is not set'
./linerate event -- far0
./linerate event -- 'no such device'
is_unset other0
# Made anew under the same name, as a link that is dialled again.
ip link del lan0
ip link add lan0 type veth peer name far0
is_unset lan0
./linerate event -- lan0
is_set lan0
[ "$(ls state | grep -c journal)" = 1 ] || fail "$(ls state)"
./linerate rollback
is_unset lan0
./linerate boot
is_set lan0
is_set other0
./linerate rollback
./linerate unpersist
[ ! -e $ROOT/etc/linerate ] || fail "$(ls $ROOT/etc/linerate)"
./linerate event -- lan0
is_unset lan0
"#,
    );
    assert!(said.contains("pending    RPS of pppoe-wan rx-0"), "{said}");
    assert!(said.contains("pending: pppoe-wan is not here"), "{said}");
}

#[test]
fn after_two_short_boots_settings_are_skipped_until_they_are_persisted_again() {
    need!("unshare", "ip");
    let place = Place::new("guard");
    let said = place.script(
        r#"
./linerate persist --init systemd
ip link add lan0 type veth peer name far0
printf '{"boot_id":"earlier","stayed":false,"short_boots":1,"skip":false}' >$ROOT/etc/linerate/guard.json
./linerate boot
./linerate event -- lan0
is_unset lan0
./linerate status
./linerate persist --init systemd $ROOT/etc/linerate/plan.toml
./linerate event -- lan0
is_set lan0
./linerate rollback
"#,
    );
    let skipped = "persisted settings are skipped: twice in a row the machine did not stay up";
    // By the boot, once, and by status.
    assert_eq!(said.matches(skipped).count(), 2, "{said}");
}

#[test]
fn boot_and_events_set_nothing_while_a_change_waits_to_be_confirmed() {
    need!("unshare", "ip");
    let place = Place::new("trial");
    let said = place.script(
        r#"
./linerate persist --init systemd
ip link add lan0 type veth peer name far0
ip link add other0 type veth peer name far1
# Of the same plan, lan0 alone.
awk -v RS='\\[\\[' -v ORS= 'NR == 1 || /"lan0"/ { print (NR == 1 ? "" : "[[") $0 }' plan.toml | sed 's/^settings = 3/settings = 1/' >trial.toml
./linerate apply --confirm 100 --no-probe trial.toml
./linerate event -- other0 || :
is_unset other0
./linerate boot || :
is_unset other0
./linerate confirm
./linerate event -- other0
is_set other0
"#,
    );
    for verb in ["event other0", "boot"] {
        assert!(
            said.contains(&format!("linerate: {verb}: a change waits to be confirmed")),
            "{said}"
        );
    }
}

#[test]
fn apply_persist_does_both_whatever_becomes_of_its_output() {
    need!("unshare", "ip");
    let place = Place::new("output");
    place.script(
        r#"
mount -t tmpfs tmpfs /run # whose machine it is decides what is written
mkdir -p /run/systemd/system
ip link add lan0 type veth peer name far0
both() { ./linerate apply --pending --no-confirm --persist 2>>said; echo $? >code; }
in_force() {
    is_set lan0
    [ "$(cat code)" = 0 ] && [ -e $ROOT/etc/linerate/plan.toml ] && [ -e $ROOT/etc/udev/rules.d/90-linerate.rules ] ||
        fail "code $(cat code): $(cat said)"
    ./linerate rollback -q
    ./linerate unpersist -q
    is_unset lan0
}
both >/dev/full
in_force
[ "$(grep -c 'write to stdout' said)" = 1 ] || fail "$(cat said)"
both | head -n 1 >first
in_force
"#,
    );
}

/// Runs a script: its environment, and what is called of it.
type Run<'a> = &'a mut dyn FnMut(&[&str], &str);

/// Line numbers of a shell script with the first words of the commands on them.
fn commands(script: &str) -> Vec<(usize, String)> {
    let mut all = Vec::new();
    for (number, line) in script.lines().enumerate() {
        // What is quoted is no command of this script.
        let line = line.trim().split('\'').next().unwrap_or_default();
        if line.starts_with('#') {
            continue;
        }
        for part in line.replace("||", "\n").replace("&&", "\n").replace(';', "\n").lines() {
            let part = part
                .rsplit_once(") ")
                .map_or(part, |(pattern, rest)| if pattern.contains('(') { part } else { rest });
            let part = part.trim().trim_start_matches("if ").trim_start_matches("! ");
            let shell = ["then", "fi", "esac", "}", ""];
            if shell.contains(&part) || part.starts_with("case ") || part.ends_with(['{', ')']) {
                continue;
            }
            let word = part.split([' ', '\t']).next().unwrap_or_default();
            // An assignment is traced with its value.
            let word = word.split_once('=').map_or(word.to_owned(), |(name, _)| format!("{name}="));
            all.push((number + 1, word));
        }
    }
    all
}

/// Every command of OpenWrt's scripts is reached by some path on busybox's shell (`set -x`), and each
/// path ends as OpenWrt expects it.
#[test]
fn every_command_of_openwrts_scripts_is_reached_on_busybox() {
    need!("busybox");
    let place = crate::router::Place::new("traced");
    let here = place.dir.display().to_string();
    let script = |path: &str, text: &str| {
        let path = place.dir.join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, text).unwrap();
        std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o755))
            .unwrap();
    };
    // Stand-ins: rc.common's procd functions, uci, OpenWrt's own scripts, the program.
    script("bin/uci", "#!/bin/sh\n[ ! -e $HERE/flows ] || cat $HERE/flows\n");
    let program = |there: bool| match there {
        true => script("linerate", "#!/bin/sh\nexit 0\n"),
        false => drop(std::fs::remove_file(place.dir.join("linerate"))),
    };
    let put = |name: &str, there: bool| match there {
        true => script(name, "#!/bin/sh\nexit 0\n"),
        false => drop(std::fs::remove_file(place.dir.join(name))),
    };
    let texts = Path::new(env!("CARGO_MANIFEST_DIR")).join("packaging/openwrt");
    let traced = |name: &str, ways: &dyn Fn(Run<'_>)| {
        let text = std::fs::read_to_string(texts.join(name)).unwrap();
        // What runs in the background would write into the middle of a line of the trace.
        let moved = text
            .replace(" &\n", "\n")
            .replace("/rom/usr/libexec/platform/", &format!("{here}/rom-"))
            .replace("/usr/libexec/network/", &format!("{here}/own-"))
            .replace("/usr/bin/linerate", &format!("{here}/linerate"))
            .replace("/etc/linerate/guard.json", &format!("{here}/guard.json"))
            .replace("/etc/hotplug.d/net/40-net-smp-affinity", &format!("{here}/pins"));
        script("script", &moved);
        let mut seen = String::new();
        let mut run = |variables: &[&str], tail: &str| {
            let mut command = Command::new("busybox");
            command.args(["ash", "-xc", &format!(". ./script; {tail}")]).current_dir(&place.dir);
            let path = std::env::var("PATH").unwrap_or_default();
            command.env("PATH", format!("{here}/bin:{path}")).env("HERE", &here);
            command.env("PS4", "+$LINENO ");
            command.envs(variables.iter().map(|v| v.split_once('=').unwrap()));
            let output = command.output().unwrap();
            let trace = String::from_utf8_lossy(&output.stderr).into_owned();
            assert!(output.status.success(), "{name} {variables:?}: {trace}");
            seen += &trace;
        };
        ways(&mut run);
        let reached = |number: usize, word: &str| {
            let word = word.replace("/usr/bin/linerate", &format!("{here}/linerate"));
            let word = word.trim_matches('"');
            seen.lines().any(|line| {
                let line = line.trim_start_matches('+').replace('\'', "");
                let (at, rest) = line.split_once(' ').unwrap_or_default();
                at.parse() == Ok(number) && rest.trim_start().starts_with(word)
            })
        };
        let all = commands(&text);
        assert!(all.len() > 5, "{name}: {all:?}");
        let missed: Vec<_> = all.iter().filter(|(at, word)| !reached(*at, word)).collect();
        assert!(missed.is_empty(), "{name}: nothing reaches {missed:?} in: {seen}");
    };
    traced("net.hotplug", &|run| {
        program(true);
        for variables in [
            &["ACTION=remove", "INTERFACE=lan0"][..],
            &["ACTION=add", "INTERFACE="],
            &["ACTION=add", "INTERFACE=lo"],
            &["ACTION=add", "INTERFACE=lan0"],
            &["ACTION=move", "INTERFACE=pppoe-wan"],
        ] {
            run(variables, "");
        }
        put("pins", true);
        run(&["ACTION=add", "INTERFACE=lan0"], "");
        program(false);
        run(&["ACTION=add", "INTERFACE=lan0"], "");
    });
    traced("iface.hotplug", &|run| {
        program(true);
        for variables in [
            &["ACTION=ifdown", "DEVICE=wan"][..],
            &["ACTION=ifup", "DEVICE="],
            &["ACTION=ifup", "DEVICE=lo"],
            &["ACTION=ifupdate", "DEVICE=wan"],
        ] {
            run(variables, "");
        }
        program(false);
        run(&["ACTION=ifup", "DEVICE=wan"], "");
    });
    traced("linerate.init", &|run| {
        script(
            "procd",
            "procd_open_instance() { :; }\nprocd_set_param() { :; }\nprocd_close_instance() { :; }\n\
             procd_add_reload_trigger() { :; }\n",
        );
        for there in [true, false] {
            program(there);
            run(&[], ". ./procd; start_service; reload_service; service_triggers; wait");
        }
    });
    traced("packet-steering.sh", &|run| {
        put("own-packet-steering.uc", true);
        program(true);
        run(&[], "");
        put("guard.json", true);
        run(&[], "");
        script("guard.json", "{\"skip\":true}\n");
        run(&[], "");
        script("flows", "128\n");
        run(&[], "");
        program(false);
        run(&[], "");
        put("rom-packet-steering.sh", true);
        run(&[], "");
    });
}

#[test]
fn a_lower_device_is_set_again_when_what_stands_on_it_appears() {
    need!("unshare", "ip");
    let place = Place::new("lower");
    place.script(
        r#"
./linerate persist --init systemd
ip link add lan0 type veth peer name far0
ip link add upper0 link lan0 type macvlan 2>/dev/null || { ip link add upper0 type bridge; ip link set lan0 master upper0; }
./linerate event -- upper0
is_set lan0
"#,
    );
}

#[test]
fn openwrts_hooks_run_in_busybox_and_see_a_pppoe_link_that_is_moved_into_place() {
    need!("unshare", "ip", "busybox");
    let place = Place::new("hooks");
    place.script(
        r#"
./linerate persist --init openwrt --program $HERE/linerate
grep -q "packet_steering '0'" $ROOT/etc/config/network || fail "steering is not owned"
# The plan that lies here is the persisted one: what it names and is not here is pending.
./linerate verify >verified || fail "pending is called drift: $(cat verified)"
grep -q "3 are pending" verified || fail "$(cat verified)"
ip link add lan0 type veth peer name far0
hotplug net ACTION=remove DEVPATH=/devices/virtual/net/lan0 INTERFACE=lan0 SUBSYSTEM=net
idle
is_unset lan0
hotplug net ACTION=add DEVPATH=/devices/virtual/net/lan0 DEVICENAME=lan0 INTERFACE=lan0 SUBSYSTEM=net
is_set lan0
# pppd makes ppp0, and netifd renames it.
ip link add ppp0 type veth peer name far1
hotplug net ACTION=add DEVPATH=/devices/virtual/net/ppp0 DEVICENAME=ppp0 INTERFACE=ppp0 SUBSYSTEM=net
idle
is_unset ppp0
ip link set ppp0 name pppoe-wan
hotplug net ACTION=move DEVPATH=/devices/virtual/net/pppoe-wan DEVICENAME=pppoe-wan INTERFACE=pppoe-wan SUBSYSTEM=net
is_set pppoe-wan
# Something wrote zeros, as packet_steering 0 does.
idle
for device in lan0 pppoe-wan; do echo 0 >/sys/class/net/$device/queues/rx-0/rps_cpus; done
hotplug iface ACTION=ifdown INTERFACE=wan DEVICE=pppoe-wan
idle
is_unset pppoe-wan
hotplug iface ACTION=ifup INTERFACE=wan DEVICE=pppoe-wan
is_set pppoe-wan
is_unset lan0
# A target whose own script pins everything whenever anything is added.
touch $ROOT/etc/hotplug.d/net/40-net-smp-affinity
idle
./linerate unpersist
grep -q "packet_steering '1'" $ROOT/etc/config/network || fail "steering is not given back"
rm $ROOT/etc/hotplug.d/net/40-net-smp-affinity $ROOT/etc/config/network
[ -z "$(find $ROOT -type f -o -type l)" ] || fail "left: $(find $ROOT)"
"#,
    );
}

#[test]
fn a_hook_never_waits_for_the_program() {
    need!("unshare", "ip", "busybox");
    let place = Place::new("waits");
    place.script(
        r#"
# A stand-in for the program that does not end before it is told to.
printf '#!/bin/sh\necho "$*" >>%s/called\nfor i in $(seq 600); do [ ! -e %s/go ] || exit 0; sleep 0.1; done\n' $HERE $HERE >slow
chmod +x slow
./linerate persist --init openwrt --program $HERE/slow
hotplug net ACTION=add INTERFACE=lan0
hotplug net ACTION=move INTERFACE=pppoe-wan
hotplug iface ACTION=ifup INTERFACE=wan DEVICE=pppoe-wan
for i in $(seq 100); do [ "$(wc -l <called 2>/dev/null)" != 3 ] || break; sleep 0.05; done
printf 'event -- lan0\nevent -- pppoe-wan\nevent -- pppoe-wan\n' >wanted
sort called | cmp - wanted
# procd.sh holds a lock while a service's script runs; who inherited it would keep the next call waiting.
locked() { busybox ash -c 'exec 1000>lock; flock 1000; '"$1"; flock -w 20 lock true || fail "the lock went on: $1"; }
locked ". $ROOT/etc/init.d/linerate; reload_service"
sed "s#/usr/bin/linerate#$HERE/slow#" "$TEXTS/packet-steering.sh" >steer
locked '. ./steer'
for i in $(seq 100); do [ "$(wc -l <called)" != 5 ] || break; sleep 0.05; done
[ "$(grep -c 'event --all' called)" = 2 ] || fail "$(cat called)"
touch go
"#,
    );
}

#[test]
fn the_init_script_starts_in_the_background_and_follows_the_network() {
    need!("unshare", "busybox");
    let place = Place::new("init");
    let said = place.script(
        r#"
./linerate persist --init openwrt --program $HERE/linerate
# Stand-ins for rc.common and procd.sh: they tell how they were called.
cat >rc.common <<'O'
procd_open_instance() { echo "open"; }
procd_close_instance() { echo "close"; }
procd_set_param() { for word in "$@"; do printf '<%s>' "$word"; done; echo; }
procd_add_reload_trigger() { echo "trigger $*"; }
. "$1"
[ "$USE_PROCD" = 1 ] && [ "$START" -gt 25 ] || exit 1
start_service
service_triggers
O
busybox ash rc.common $ROOT/etc/init.d/linerate
"#,
    );
    assert!(said.contains("open\n<command></bin/sh><-c><"), "{said}");
    assert!(said.contains("boot; sleep 300; exec "), "{said}");
    assert!(said.contains("close\n") && said.contains("trigger network"), "{said}");
}

/// A machine that notes what is read.
struct Counting {
    live: Live,
    read: Mutex<Vec<PathBuf>>,
}

impl Counting {
    fn note(&self, path: &Path) {
        self.read.lock().unwrap().push(path.to_owned());
    }
}

impl HostRead for Counting {
    fn read(&self, path: &Path) -> HostResult<Vec<u8>> {
        self.note(path);
        self.live.read(path)
    }
    fn list(&self, path: &Path) -> HostResult<Vec<String>> {
        self.note(path);
        self.live.list(path)
    }
    fn resolve(&self, path: &Path) -> HostResult<PathBuf> {
        self.note(path);
        self.live.resolve(path)
    }
    fn query(&self, query: &Query) -> HostResult<Vec<u8>> {
        self.live.query(query)
    }
    fn arch(&self) -> String {
        self.live.arch()
    }
    fn identity(&self) -> HostIdentity {
        self.live.identity()
    }
}

#[test]
fn what_an_event_reads_does_not_grow_with_the_number_of_other_devices_and_programs() {
    need!();
    let netns = Arc::new(NetnsThread::create().unwrap());
    let add = |names: Vec<(String, String)>| {
        let made = netns.run(move || {
            names.iter().try_for_each(|(near, far)| {
                let near = rtnl::VethEnd { name: near, netns: None };
                rtnl::create_veth(near, rtnl::VethEnd { name: far, netns: None }, 1500)
            })
        });
        made.unwrap().unwrap();
    };
    let names = ["lan0".to_owned()];
    let reads = |job: &dyn Fn(&Counting) -> usize| {
        let host = Counting { live: Live::in_netns(Arc::clone(&netns)), read: Mutex::default() };
        let devices = job(&host);
        (devices, host.read.into_inner().unwrap())
    };
    let of_processes = |read: &[PathBuf]| {
        let second = |path: &PathBuf| path.iter().nth(2).and_then(|n| n.to_str()?.parse().ok());
        let is_process =
            |path: &&PathBuf| path.starts_with("/proc") && second(path).is_some_and(|n: u32| n > 0);
        read.iter().filter(is_process).count()
    };
    let alone = |host: &Counting| discover::devices(host, &names).netdevs.len();
    let whole = |host: &Counting| discover::snapshot(host).netdevs.len();

    add(vec![("lan0".into(), "far0".into())]);
    let (devices, few) = reads(&alone);
    assert_eq!(devices, 1);
    let (_, all_of_few) = reads(&whole);
    add((0..40).map(|n| (format!("near{n}"), format!("away{n}"))).collect());
    let (devices, many) = reads(&alone);
    assert_eq!(devices, 1);
    assert_eq!(few, many);
    let (devices, all_of_many) = reads(&whole);
    assert_eq!(devices, 82);
    assert!(all_of_many.len() > all_of_few.len() + 80, "the count sees nothing");
    assert!(!few.iter().any(|path| path.ends_with("config.gz")), "the kernel's configuration");
    // Nor with that of programs.
    assert_eq!(of_processes(&few), 0, "{few:?}");
    assert!(of_processes(&all_of_few) > 1, "the count sees nothing");
}

/// A stand-in for procd and its ubus: an instance that ends is started anew until its service is
/// deleted.
#[test]
fn on_openwrt_procd_starts_a_guard_anew_that_was_killed() {
    need!("unshare", "ip");
    let place = Place::new("procd");
    place.script_in(
        &["--net", "--mount", "--pid", "--fork", "--mount-proc"],
        r#"
mount -t tmpfs tmpfs /run # no other init is to be seen
mkdir bin
cat >bin/ubus <<'U'
#!/bin/sh
echo "$*" >>$HERE/ubus.log
case $3 in
add)
    words=$(echo "$4" | sed 's/.*"command":\[\([^]]*\)\].*/\1/; s/"//g; s/,/ /g')
    setsid sh -c 'while [ ! -e $HERE/deleted ]; do "$@"; sleep 1; done' procd $words </dev/null >/dev/null 2>&1 &
    ;;
delete) : >$HERE/deleted ;;
esac
U
chmod +x bin/ubus
PATH=$HERE/bin:$PATH
guards() { # their numbers
    for entry in /proc/[0-9]*; do
        case $(cat $entry/comm 2>/dev/null) in
        linerate*) ! grep -q dead-man $entry/cmdline || echo ${entry#/proc/} ;; # whatever the build's file is called
        esac
    done
}
ip link add lan0 type veth peer name far0
./linerate apply --pending --confirm 5 --no-probe
is_set lan0
grep -q '"respawn":\["3600","1","0"\]' ubus.log || fail "$(cat ubus.log)"
grep -q "LINERATE_STATE_DIR" ubus.log || fail "$(cat ubus.log)"
for try in 1 2 3 4 5 6 7 8 9 10; do [ $(guards | wc -l) = 2 ] || sleep 0.1; done
[ $(guards | wc -l) = 2 ] || fail "guards: $(guards)"
kill -9 $(guards)
is_set lan0
for i in $(seq 300); do [ "$(rps lan0)" = 1 ] || break; sleep 0.1; done
is_unset lan0
./linerate status | grep -q 'not confirmed in time: 1 settings were put back' || fail "$(./linerate status)"
for i in $(seq 300); do [ ! -e deleted ] || break; sleep 0.1; done
[ -e deleted ] || fail 'the instance stays'
for i in $(seq 300); do [ -n "$(guards)" ] || break; sleep 0.1; done
[ -z "$(guards)" ] || fail "they stay: $(guards)"
"#,
    );
}

/// The directives of a unit's service that make its sandbox.
fn sandbox(unit: &str) -> Vec<&str> {
    let (_, service) = unit.split_once("[Service]\n").unwrap();
    let service = service.split("\n[").next().unwrap();
    let lines = service.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    lines.filter(|line| !line.starts_with("Type=") && !line.starts_with("Exec")).collect()
}

#[test]
fn every_unit_runs_in_a_sandbox_that_leaves_little_open() {
    let read = |name: &str| {
        let path = format!("{}/packaging/systemd/{name}", env!("CARGO_MANIFEST_DIR"));
        std::fs::read_to_string(path).unwrap()
    };
    let early = read("linerate.service");
    let wanted = sandbox(&early);
    assert!(wanted.len() > 20, "{wanted:?}");
    // What udev's rule starts has no unit file: the same, as words of a command line.
    let rules = read("90-linerate.rules");
    for line in &wanted {
        let plain = format!("--property={line} ");
        assert!(
            rules.contains(&plain) || rules.contains(&format!("'{}' ", plain.trim())),
            "{line}"
        );
    }
    let event = early.replace("linerate boot", "linerate event -- eth0");
    let units = [
        ("linerate.service", early.clone()),
        ("linerate-event.service", event),
        ("linerate-services.service", read("linerate-services.service")),
        ("linerate-stayed.service", read("linerate-stayed.service")),
    ];
    let dir = std::env::temp_dir().join(format!("linerate-units-{}", std::process::id()));
    std::fs::create_dir_all(&dir).unwrap();
    for (name, text) in &units {
        let here = sandbox(text);
        assert!(wanted.iter().all(|line| here.contains(line)), "{name} leaves out some: {here:?}");
        std::fs::write(dir.join(name), text).unwrap();
        // In tenths.
        let analyze = Command::new("systemd-analyze")
            .args(["security", "--no-pager", "--offline=true", "--threshold=20"])
            .arg(dir.join(name))
            .output();
        match analyze {
            Ok(told) => {
                let told = (told.status, String::from_utf8_lossy(&told.stdout).into_owned());
                assert!(told.0.success(), "{name}: {}", told.1);
                assert!(told.1.contains("Overall exposure level"), "{name}: {}", told.1);
            }
            Err(e) => eprintln!("SKIPPED every_unit_runs_in_a_sandbox: systemd-analyze: {e}"),
        }
    }
    std::fs::remove_dir_all(dir).unwrap();
    // The watch asks gateways, and writes nothing but what is in /run.
    let watch = read("linerate-watch.service");
    let here = sandbox(&watch);
    let wider =
        ["CapabilityBoundingSet=", "IPAddressDeny=", "ReadWritePaths=", "RestrictAddressFamilies="];
    let kept = |line: &&&str| !wider.iter().any(|word| line.starts_with(word));
    for line in wanted.iter().filter(kept) {
        assert!(here.contains(line), "linerate-watch.service leaves out {line}");
    }
}

#[test]
fn openwrt_steers_as_before_where_the_plan_is_skipped_or_the_program_is_gone() {
    need!("busybox");
    let place = crate::router::Place::new("steering");
    let template = include_str!("../../packaging/openwrt/packet-steering.sh");
    let here = place.dir.display().to_string();
    // The image's first: it has the others in it.
    let hook = [("/rom/usr/", "ROM"), ("/usr/", "/usr/"), ("/etc/", "/etc/"), ("ROM", "/rom/usr/")];
    let placed = |(from, to): (&str, &str)| match to {
        "ROM" => (from.to_owned(), to.to_owned()),
        to => (from.to_owned(), format!("{here}{to}")),
    };
    let hook = hook
        .map(placed)
        .iter()
        .fold(template.to_owned(), |text, (from, to)| text.replace(from, to))
        .replace("former=''", "former='2'");
    let script = |path: &str, text: &str| {
        let path = place.dir.join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, text).unwrap();
        std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o755))
            .unwrap();
    };
    let told = |name: &str| format!("#!/bin/sh\necho {name} \"$@\" >>{here}/said\n");
    script("hook", &hook);
    script("usr/libexec/network/packet-steering.uc", &told("openwrt"));
    script("bin/uci", "#!/bin/sh\n[ ! -e flows ] || cat flows\n");
    let said = || {
        let mut command = Command::new("busybox");
        command.args(["sh", "-e", "./hook", "0"]).current_dir(&place.dir);
        let path = std::env::var("PATH").unwrap_or_default();
        command.env("PATH", format!("{here}/bin:{path}"));
        assert!(command.status().unwrap().success());
        let file = place.dir.join("said");
        crate::router::wait_for("what was called", || file.exists());
        let text = std::fs::read_to_string(&file).unwrap();
        std::fs::remove_file(file).unwrap();
        text
    };
    // No program.
    assert_eq!(said(), "openwrt 2\n");
    place.file("flows", "128\n");
    assert_eq!(said(), "openwrt -l 128 2\n");
    // The program steers; unless its boot guard says no.
    script("usr/bin/linerate", &told("linerate"));
    assert_eq!(said(), "linerate event --all\n");
    script("etc/linerate/guard.json", "{\"short_boots\":0,\"skip\":false}\n");
    assert_eq!(said(), "linerate event --all\n");
    script("etc/linerate/guard.json", "{\"short_boots\":2,\"skip\":true}\n");
    assert_eq!(said(), "openwrt -l 128 2\n");
    // A target that has a script of its own in its image.
    script("rom/usr/libexec/platform/packet-steering.sh", &told("target"));
    assert_eq!(said(), "target 2\n");
}
