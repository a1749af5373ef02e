//! Captured machines through discovery, planner and text: what `show` and `plan` must say of them.

use std::path::Path;
use std::process::Command;

use crate::program;

/// Runs the program on a captured machine and returns what it printed.
fn linerate(host: &str, args: &[&str]) -> String {
    linerate_in(80, host, args)
}

/// The same in so many columns.
fn linerate_in(columns: usize, host: &str, args: &[&str]) -> String {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/hosts").join(host);
    let capture = dir.join("capture.tar.gz");
    let dir = if capture.exists() { capture } else { dir };
    let output = Command::new(program::path())
        .args(args)
        .arg("--host")
        .arg(&dir)
        .env("NO_COLOR", "1")
        .env("COLUMNS", columns.to_string())
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

fn golden(host: &str, name: &str, args: &[&str]) {
    let mut settings = insta::Settings::clone_current();
    settings.set_prepend_module_to_snapshot(false);
    settings.set_omit_expression(true);
    settings.set_snapshot_path(format!("../../fixtures/hosts/{host}/expected"));
    settings.bind(|| insta::assert_snapshot!(name, linerate(host, args)));
}

const R4S: &str = "rk3399-6-dwmac+r8169-5.4";
const R2S: &str = "rk3328-4-dwmac+r8152-6.6";
const R76S: &str = "rk3576-8-r8169x2-6.1";
const WG: &str = "bcm2711-4-bcmgenet+wireguard-6.1";
const FG50E: &str = "armada385-2-mvneta+mv88e6xxx-5.15";
const CM4: &str = "bcm2711-4-bcmgenet+r8169-5.10";
const GUEST: &str = "x86-4-vmxnet3+e1000e+virtio-6.1";

#[test]
fn r4s_shows_big_and_little_cpus_and_both_interrupts_on_cpu0() {
    golden(R4S, "show", &["show"]);
    golden(R4S, "irqs", &["show", "irqs"]);
}

#[test]
fn r4s_plan_puts_the_interrupts_on_the_big_cpus() {
    golden(R4S, "plan", &["plan", "--candidate", "irq-spread", "-o", "-"]);
}

#[test]
fn r2s_maps_the_usb_adapter_to_its_host_controller() {
    golden(R2S, "show", &["show"]);
    golden(R2S, "cpus", &["show", "cpus"]);
}

#[test]
fn r2s_plan_gives_the_two_ports_cpus_of_their_own() {
    golden(R2S, "plan", &["plan", "-o", "-"]);
}

#[test]
fn a_directory_that_is_no_machine_is_a_usage_error_with_a_hint() {
    let output = Command::new(program::path())
        .args(["show", "--host"])
        .arg(env!("CARGO_MANIFEST_DIR"))
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(2));
    let text = String::from_utf8(output.stderr).unwrap();
    assert!(text.starts_with("linerate: open captured machine"), "{text}");
    assert!(text.contains("\nhint: "), "{text}");
}

#[test]
fn r76s_shows_pppoe_over_vlan_and_plans_around_lines_that_stay_on_cpu0() {
    golden(R76S, "show", &["show"]);
    golden(R76S, "irqs", &["show", "irqs"]);
    golden(R76S, "plan", &["plan", "-o", "-"]);
}

#[test]
fn wg_names_what_its_kernel_was_built_with() {
    golden(WG, "show", &["show"]);
    golden(WG, "kernel", &["show", "kernel"]);
    golden(WG, "plan", &["plan", "-o", "-"]);
}

#[test]
fn fg50e_has_lines_that_no_mask_moves_and_a_switch_behind_one_of_them() {
    golden(FG50E, "show", &["show"]);
    golden(FG50E, "path", &["show", "path"]);
    golden(FG50E, "plan", &["plan", "-o", "-"]);
}

#[test]
fn cm4_plans_around_the_line_that_stays_on_cpu0() {
    golden(CM4, "show", &["show"]);
    golden(CM4, "irqs", &["show", "irqs"]);
    golden(CM4, "plan", &["plan", "-o", "-"]);
}

#[test]
fn a_guest_of_three_cards_tells_their_queues_and_lines_apart() {
    golden(GUEST, "show", &["show"]);
    golden(GUEST, "nics", &["show", "nics"]);
    golden(GUEST, "irqs", &["show", "irqs"]);
    golden(GUEST, "plan", &["plan", "-o", "-"]);
}

#[test]
fn check_names_what_the_field_reports_found_and_nothing_on_a_machine_that_is_well() {
    for host in [R4S, R2S, R76S, WG, FG50E, CM4, GUEST] {
        golden(host, "check", &["check", "--fail-on", "critical"]);
    }
}

#[test]
fn text_fits_the_terminal_and_a_narrow_one_loses_no_figure() {
    let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join("narrow-plan.toml");
    let plan = ["plan", "--force", "-o", file.to_str().unwrap()];
    let told: [&[&str]; 9] = [
        &["show"],
        &["show", "cpus"],
        &["show", "nics"],
        &["show", "irqs"],
        &["show", "stack"],
        &["show", "path"],
        &["show", "kernel"],
        &["check", "--fail-on", "critical", "-v"],
        &plan,
    ];
    for host in [R76S, FG50E, CM4, GUEST] {
        for args in told {
            let wide = linerate_in(500, host, args);
            for columns in [40, 60, 80, 120] {
                let text = linerate_in(columns, host, args);
                for line in text.lines() {
                    assert!(line.chars().count() <= columns, "{host} {args:?}: {line:?}");
                }
                let bare: String = text.split_whitespace().collect();
                // Headings of columns that say nothing are left out with their column.
                let figure = |word: &&str| word.len() <= 12 && word.contains(char::is_numeric);
                for word in wide.split_whitespace().filter(figure) {
                    assert!(bare.contains(word), "{host} {args:?} in {columns}: {word:?} is lost");
                }
            }
        }
    }
}
