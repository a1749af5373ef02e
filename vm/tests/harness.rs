//! The harness itself: exit codes, output, files and deadlines arrive as they are.

mod common;

use std::time::Duration;

use linerate_vm::guest::Contents;
use linerate_vm::{Error, Machine};

#[test]
fn a_script_brings_back_its_exit_code_output_and_files() {
    let contents = Contents {
        load: vec!["vmxnet3"],
        script: "nproc; echo EXIT 0; seq 1 20000 > /out/long; printf 'a\\0b\\r\\n' > /out/bytes; exit 7\n"
            .into(),
        ..Contents::default()
    };
    let Some(outcome) = common::run(&Machine::new(2, &[]), &contents) else { return };
    assert_eq!(outcome.code, 7, "{}", outcome.console);
    assert_eq!(outcome.output, "2\nEXIT 0\n");
    assert_eq!(outcome.files["bytes"], b"a\0b\r\n");
    assert_eq!(outcome.text("long").lines().count(), 20000);
}

#[test]
fn a_guest_that_hangs_is_killed_and_its_last_words_are_told() {
    let contents =
        Contents { script: "echo last words; sleep 1000\n".into(), ..Contents::default() };
    let mut machine = Machine::new(1, &[]);
    machine.timeout = Duration::from_secs(30);
    match machine.run(&contents) {
        Err(Error::Unavailable(why)) => common::skip(&why),
        Err(Error::Failed(why)) => {
            assert!(why.starts_with("the guest was killed after 30 s"), "{why}");
            assert!(why.contains("last words"), "{why}");
        }
        Ok(outcome) => panic!("{outcome:?}"),
    }
}
