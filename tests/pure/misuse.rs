//! Two hundred ways to write a command line wrong: each is refused with its exit code, in a message
//! that names what is wrong and ends in a remedy, before anything is changed.

use std::path::PathBuf;
use std::process::Command;

use crate::program;

/// Command line, exit code, and what the message names. `FILE` is a text that is nothing of ours,
/// `EMPTY` has nothing in it, and `HOST` a captured machine.
const MISUSES: &[(&str, i32, &str)] = &[
    // No such command, option or word.
    ("shwo", 2, "'shwo'"),
    ("Show", 2, "'Show'"),
    ("--bogus", 2, "'--bogus'"),
    ("-x", 2, "'-x'"),
    ("show cpu", 2, "'cpu'"),
    ("show cpus nics", 2, "'nics'"),
    ("show --part cpus", 2, "'--part'"),
    ("show -5", 2, "'-5'"),
    ("show --color", 2, "'--color"),
    ("show --color loud", 2, "'loud'"),
    ("show --json=yes", 2, "'--json'"),
    ("show --json --json", 2, "'--json'"),
    ("show --host", 2, "'--host"),
    ("show --host nowhere", 2, "nowhere"),
    ("show --host FILE", 2, "FILE"),
    // check
    ("check nonsense", 2, "nonsense"),
    ("check --fail-on grave", 2, "'grave'"),
    ("check --fail-on", 2, "'--fail-on"),
    ("check --load 0", 2, "'0'"),
    ("check --load -1", 2, "'-1'"),
    ("check --load soon", 2, "'soon'"),
    ("check --load 25h", 2, "'25h'"),
    ("check --load 1d", 2, "'1d'"),
    ("check --load 60ss", 2, "'60ss'"),
    ("check --load nan", 2, "'nan'"),
    ("check --losses 0", 2, "'0'"),
    ("check --losses x", 2, "'x'"),
    ("check --list --load 5", 2, "'--load"),
    ("check --losses 5 --load 5", 2, "'--load"),
    // watch
    ("watch --every 0", 2, "'0'"),
    ("watch --every 11m", 2, "between 1 and 600"),
    ("watch --settings FILE", 2, "FILE"),
    ("watch --settings .", 2, " ."),
    ("watch --listen 0.0.0.0:9777", 2, "0.0.0.0:9777"),
    ("watch --listen 9777", 2, "9777"),
    ("watch --host HOST", 2, "watch"),
    ("watch now", 2, "'now'"),
    // plan
    ("plan plan.toml", 2, "'plan.toml'"),
    ("plan --role bridge", 2, "'bridge'"),
    ("plan --candidate nonsense --sample 0", 2, "nonsense"),
    ("plan --recipe nonsense", 2, "nonsense"),
    ("plan --recipe a --candidate b", 2, "'--candidate"),
    ("plan --explain nonsense", 2, "nonsense"),
    ("plan --load nowhere.toml", 2, "nowhere.toml"),
    ("plan --load FILE", 2, "FILE"),
    ("plan --costs nowhere.toml", 2, "nowhere.toml"),
    ("plan --costs FILE", 2, "FILE"),
    ("plan --load EMPTY", 2, "EMPTY"),
    ("plan --flows 99999999999", 2, "4294967295"),
    ("plan --flows many", 2, "'many'"),
    ("plan --flows -1", 2, "'-1'"),
    ("plan --flows 1.5", 2, "'1.5'"),
    ("plan --sample forever", 2, "'forever'"),
    ("plan --sample 25h", 2, "'25h'"),
    ("plan --sample 0 -o nowhere/plan.toml", 2, "nowhere/plan.toml"),
    ("plan --sample 0 -o .", 2, " .:"),
    ("plan --host HOST -o - --json", 2, "--json"),
    ("show --host .", 2, "no proc"),
    ("show --host /dev/null", 2, "/dev/null"),
    // apply, and what follows it
    ("apply", 2, "plan.toml"),
    ("apply nowhere.toml", 2, "nowhere.toml"),
    ("apply FILE", 2, "FILE"),
    ("apply .", 2, " .:"),
    ("apply a b", 2, "'b'"),
    ("apply --confirm", 2, "'--confirm"),
    ("apply --confirm 0", 2, "'0'"),
    ("apply --confirm -5", 2, "'-5'"),
    ("apply --confirm soon", 2, "'soon'"),
    ("apply --confirm 1e-9", 2, "'1e-9'"),
    ("apply --confirm 50ms", 2, "'50ms'"),
    ("apply --confirm 25h", 2, "'25h'"),
    ("apply --confirm 1m30", 2, "'1m30'"),
    ("apply --confirm 5 --persist", 2, "'--persist'"),
    ("apply --dry-run --persist", 2, "'--persist'"),
    ("apply --dry-run --confirm 5", 2, "'--confirm"),
    ("apply --confirm 5 --confirm 6", 2, "'--confirm"),
    ("apply --probe 198.18.0.1", 2, "--confirm"),
    ("apply --confirm 5 --probe 198.18.0", 2, "'198.18.0'"),
    ("apply --no-probe", 2, "--confirm"),
    ("apply --confirm 5 --no-probe --probe 198.18.0.1", 2, "'--probe"),
    ("apply --host HOST", 2, "apply"),
    ("verify nowhere.toml", 2, "nowhere.toml"),
    ("verify FILE", 2, "FILE"),
    ("verify a b", 2, "'b'"),
    ("rollback now", 2, "'now'"),
    ("rollback --force=yes", 2, "'--force'"),
    ("rollback --host HOST", 2, "rollback"),
    ("confirm", 5, "confirm"),
    ("confirm now", 2, "'now'"),
    ("confirm --host HOST", 2, "confirm"),
    ("status now", 2, "'now'"),
    ("persist nowhere.toml", 2, "nowhere.toml"),
    ("persist FILE", 2, "FILE"),
    ("persist --init sysv", 2, "'sysv'"),
    ("persist --host HOST", 2, "plan.toml"),
    ("unpersist plan.toml", 2, "'plan.toml'"),
    // capture and record
    ("capture file.tar.gz", 2, "'file.tar.gz'"),
    ("capture --samples 0 -o nowhere/x.tar.gz", 2, "nowhere/x.tar.gz"),
    ("capture --samples 0 -o .", 2, " .:"),
    ("capture --samples 1001", 2, "1001"),
    ("capture --samples -1", 2, "'-1'"),
    ("capture --samples few", 2, "'few'"),
    ("capture --interval 0", 2, "'0'"),
    ("capture --host HOST", 2, "capture"),
    ("record --interval 10ms", 2, "'10ms'"),
    ("record --interval 1m", 2, "'1m'"),
    ("record --format xml", 2, "'xml'"),
    ("record --seconds 0", 2, "'0'"),
    ("record --format csv --json", 2, "--json"),
    ("record --device nowhere0", 2, "nowhere0"),
    ("record --seconds 100ms -o FILE", 2, "FILE"),
    ("record --seconds 100ms -o .", 2, "directory"),
    ("record --host HOST", 2, "record"),
    ("top --host HOST --once", 2, "top"),
    ("top --speed 2", 2, "--replay"),
    ("top --replay FILE --speed 0", 2, "'0'"),
    ("top --samples 0", 2, "'0'"),
    ("top --once --samples 2", 2, "--once"),
    ("top --once --device nowhere0", 2, "nowhere0"),
    ("top --replay FILE --once", 2, "record"),
    // bench
    ("bench nonsense", 2, "'nonsense'"),
    ("bench nat+nonsense", 2, "'nat+nonsense'"),
    ("bench nat+vlan+vlan", 2, "'nat+vlan+vlan'"),
    ("bench route+nat", 2, "'route+nat'"),
    ("bench nat+ipv6", 2, "nat"),
    ("bench --protocol sctp", 2, "'sctp'"),
    ("bench --protocol udp", 2, "rate"),
    ("bench --protocol udp --rate 0", 2, "'0'"),
    ("bench --protocol udp --rate -5", 2, "'-5'"),
    ("bench --protocol udp --rate fast", 2, "'fast'"),
    ("bench --protocol udp --rate 500m", 2, "'500m'"),
    ("bench --protocol udp --rate 10000G", 2, "'10000G'"),
    ("bench --protocol udp --rate 5 --datagram 8", 2, "8"),
    ("bench --protocol udp --rate 5 --datagram 9000", 2, "9000"),
    ("bench --mtu 500", 2, "500"),
    ("bench --mtu 10000", 2, "10000"),
    ("bench --streams 0", 2, "0"),
    ("bench --rules 20001", 2, "20001"),
    ("bench --flows 1000001", 2, "1000001"),
    ("bench --seconds 0", 2, "'0'"),
    ("bench --omit -1", 2, "'-1'"),
    ("bench --direction left", 2, "'left'"),
    ("bench --sender pigeon", 2, "'pigeon'"),
    ("bench --frames --sender xdp", 2, "'--sender"),
    ("bench --latency --headroom", 2, "'--headroom'"),
    ("bench --latency --against iperf3", 2, "'--against"),
    ("bench --against netperf", 2, "'netperf'"),
    ("bench --pairs 0", 2, "0"),
    ("bench --pairs 101", 2, "101"),
    ("bench --fail-below 0", 2, "'0'"),
    ("bench --lan pc1", 2, "--wan"),
    ("bench --wan pc2", 2, "--lan"),
    ("bench --router here", 2, "--lan"),
    ("bench --lan pc1 --wan pc2 --wan-address pc2", 2, "'pc2'"),
    ("bench --lan pc..1 --wan pc..2", 5, "pc..1"),
    ("bench --lan 127.0.0.1:99999 --wan pc2", 2, "127.0.0.1:99999"),
    ("bench --streams 99999999999999999999", 2, "too large"),
    ("bench --streams=-1", 2, "'-1'"),
    ("bench -P 129", 2, "from 1 to 128"),
    ("bench --seconds 1e-9", 2, "'1e-9'"),
    ("bench --driver iperf3 --server 198.18.0.1:7", 2, "198.18.0.1:7"),
    ("bench --driver ookla --server x --ports 3", 2, "ookla"),
    ("bench --token-file FILE", 2, "--lan"),
    ("bench --lan a --wan b --rules 5", 2, "'--rules"),
    ("bench --lan a --wan b --candidate one-cpu", 2, "'--candidate"),
    ("bench --list --lan a --wan b", 2, "'--lan"),
    ("bench --board-seconds 5", 2, "--board"),
    ("bench wireguard --board --repeats 101", 2, "101"),
    ("bench --driver nonsense", 2, "'nonsense'"),
    ("bench --host HOST", 2, "bench"),
    // sweep
    ("sweep", 2, "WHAT"),
    ("sweep speed", 2, "'speed'"),
    ("sweep rate --preset fast", 2, "'fast'"),
    ("sweep rate --loss 100", 2, "'100'"),
    ("sweep rate --loss -1", 2, "'-1'"),
    ("sweep rate --seconds 0", 2, "'0'"),
    ("sweep rate --from 10 --to 5", 2, "10"),
    ("sweep rate --steps 1", 2, "1"),
    ("sweep rate --repeats 0", 2, "0"),
    ("sweep rate --direction both", 2, "direction"),
    ("sweep rate --sizes 64", 2, "sizes"),
    ("sweep rate --frame 20", 2, "20"),
    ("sweep frame --frame 64", 2, "frame"),
    ("sweep frame --sizes 0", 2, "0"),
    ("sweep frame --sizes small", 2, "'small'"),
    ("sweep mss --from 5", 2, "rate"),
    ("sweep mss --sender xdp", 2, "sender"),
    ("sweep mss --sizes 9000", 2, "9000"),
    ("sweep mtu --sizes 100", 2, "100"),
    ("sweep mtu --lan a --wan b", 2, "mtu"),
    // tune
    ("tune nonsense", 2, "'nonsense'"),
    ("tune --directions left", 2, "'left'"),
    ("tune --factor rps", 2, "'rps'"),
    ("tune --factor rps=", 2, "'rps='"),
    ("tune --factor rps=off,,all", 2, "'rps=off,,all'"),
    ("tune --blocks 0", 2, "0"),
    ("tune --blocks 1001", 2, "1001"),
    ("tune --budget 0", 2, "'0'"),
    ("tune --budget 25h", 2, "'25h'"),
    ("tune --objective speed", 2, "'speed'"),
    ("tune --guard p99", 2, "'p99'"),
    ("tune --quick --apply", 2, "'--apply'"),
    ("tune --aa --search", 2, "'--search'"),
    ("tune --confirm 5", 2, "--apply"),
    ("tune --apply --confirm 1e-9", 2, "'1e-9'"),
    ("tune --server 198.18.0.1:99999", 2, "198.18.0.1:99999"),
    ("tune --seed x", 2, "'x'"),
    ("tune --resume nowhere.json", 2, "nowhere.json"),
    ("tune -o nowhere/result.json", 2, "nowhere/result.json"),
    // What reads files
    ("compare", 2, "<A>"),
    ("compare FILE", 2, "<B>"),
    ("compare nowhere.json FILE", 2, "nowhere.json"),
    ("compare FILE FILE", 2, "FILE"),
    ("compare --fleet nowhere", 2, "nowhere"),
    ("compare --fleet FILE", 2, "FILE"),
    ("compare --fleet . FILE", 2, "--fleet"),
    ("fit", 2, "<RESULT>"),
    ("fit nowhere.json", 2, "nowhere.json"),
    ("fit FILE", 2, "FILE"),
    ("report", 2, "linerate-result.json"),
    ("report FILE", 2, "FILE"),
    ("report .", 2, " .:"),
    ("report FILE -o report.pdf", 2, "FILE"),
    ("profile -o flame.png", 2, "flame.png"),
    ("kernel bisect --undo", 2, "linerate-bisect"),
    ("verify /dev/zero", 2, "/dev/zero"),
    ("report --format pdf", 2, "'pdf'"),
    ("rank", 2, "<FILE>"),
    ("rank nowhere.json", 2, "nowhere.json"),
    ("rank FILE", 2, "FILE"),
    // profile
    ("profile 0", 2, "'0'"),
    ("profile long", 2, "'long'"),
    ("profile --frequency 0", 2, "0"),
    ("profile --frequency 10001", 2, "10001"),
    ("profile --top many", 2, "'many'"),
    ("profile --host HOST", 2, "profile"),
    // kernel
    ("kernel build", 2, "'build'"),
    ("kernel check nowhere.config", 2, "nowhere.config"),
    ("kernel check FILE", 2, "FILE"),
    ("kernel check --fail-on grave", 2, "'grave'"),
    ("kernel diff a", 2, "<B>"),
    ("kernel diff nowhere.config FILE", 2, "nowhere.config"),
    ("kernel bisect a", 2, "B"),
    ("kernel bisect a b --smallest 0", 2, "'0'"),
    ("kernel bisect --rate 0", 2, "'0'"),
    ("kernel bisect --rate 5 --no-boot", 2, "'--no-boot'"),
    ("kernel bisect --undo --unclear", 2, "--unclear"),
    ("kernel bisect --figure x", 2, "--result"),
    ("kernel bisect --dir nowhere --rate 5", 2, "nowhere"),
    // lab
    ("lab start", 2, "'start'"),
    ("lab up --mtu 100", 2, "100"),
    ("lab up --rules -1", 2, "'-1'"),
    ("lab down xyz", 2, "xyz"),
    ("lab shell outside", 2, "'outside'"),
    ("lab shell --id xyz", 2, "xyz"),
    // agent
    ("agent --listen host", 2, "'host'"),
    ("agent --listen 127.0.0.1:99999", 2, "'127.0.0.1:99999'"),
    ("agent --cpus few", 2, "'few'"),
    ("agent --cpus 3-1", 2, "'3-1'"),
    ("agent --cpus 1023", 2, "1023"),
    ("agent --max-rate 0", 2, "'0'"),
    ("agent --max-seconds 0", 2, "'0'"),
    ("agent --allow everybody", 2, "'everybody'"),
    ("agent --token-file nowhere", 2, "nowhere"),
];

const HOST: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/fixtures/hosts/x86-4-vmxnet3+e1000e+virtio-6.1/capture.tar.gz"
);

/// A directory with a text in it, gone with this.
struct Place(PathBuf);

impl Drop for Place {
    fn drop(&mut self) {
        drop(std::fs::remove_dir_all(&self.0));
    }
}

/// What is wrong with the answer to a misuse; `None` if nothing is.
fn wrong(place: &Place, (line, code, named): (&str, i32, &str)) -> Option<String> {
    // One that is taken for a command must not run for ever.
    let output = Command::new("timeout")
        .arg("20")
        .arg(program::path())
        .args(line.split_whitespace().map(|word| if word == "HOST" { HOST } else { word }))
        .current_dir(&place.0)
        .env("LINERATE_STATE_DIR", place.0.join("state"))
        .env("COLUMNS", "200")
        .env_remove("LINERATE_TOKEN")
        .output()
        .unwrap();
    let told = String::from_utf8(output.stderr).unwrap();
    let fits = output.status.code() == Some(code)
        && output.stdout.is_empty()
        && told.starts_with("linerate: ")
        && told.lines().next()?.contains(named)
        && told.lines().any(|line| line.starts_with("hint: ") && line.len() > 12)
        && !told.contains("panicked");
    (!fits).then(|| format!("linerate {line}\n  {:?}\n  {told}", output.status.code()))
}

#[test]
fn every_misuse_is_refused_by_name_with_a_remedy() {
    assert!(MISUSES.len() >= 200);
    let place = Place(std::env::temp_dir().join(format!("linerate-misuse-{}", std::process::id())));
    std::fs::create_dir_all(&place.0).unwrap();
    std::fs::write(place.0.join("EMPTY"), "").unwrap();
    std::fs::write(place.0.join("FILE"), "nothing of ours\n").unwrap();
    let verb = |line: &str| line.split(' ').next().unwrap().to_owned();
    let known = |line: &str| clap_has(&verb(line));
    let here = MISUSES.iter().filter(|(line, ..)| !known(line) || program::has(&verb(line)));
    let found: Vec<String> = here.filter_map(|misuse| wrong(&place, *misuse)).collect();
    assert!(found.is_empty(), "{} of them:\n{}", found.len(), found.join("\n"));
    let left: Vec<_> =
        std::fs::read_dir(&place.0).unwrap().map(|e| e.unwrap().file_name()).collect();
    assert!(
        left.iter().all(|name| name == "FILE" || name == "EMPTY" || name == "state"),
        "{left:?}"
    );
}

/// Whether the whole program has the verb, of which a router's build has a part.
fn clap_has(verb: &str) -> bool {
    use clap::CommandFactory;
    linerate::cli::Cli::command().get_subcommands().any(|one| one.get_name() == verb)
}
