//! `linerate kernel`: the kernel's part in it. Configurations are read, compared and searched here;
//! nothing is built.

mod args;
mod bisect;
mod check;
mod diff;

pub use args::{KernelAction, KernelArgs, KernelBisectArgs, KernelCheckArgs, KernelDiffArgs};

use std::path::{Path, PathBuf};

use super::context::Context;
use crate::error::{Error, ExitCode, Result};
use crate::machine::discover;
use crate::machine::host::kernel_config;
use crate::machine::parse::{config, gzip};
use crate::machine::store::read_file;
use crate::model::kconfig::KernelConfig;
use crate::model::path::KernelFacts;

/// No configuration is longer: one with every option there is has about half a megabyte.
const MOST: u64 = 16 << 20;
const HINT: &str = "give a .config file, as /boot/config-* or /proc/config.gz";

/// Runs the command.
pub(super) fn run(context: &Context, args: &KernelArgs) -> Result<ExitCode> {
    match &args.action {
        KernelAction::Check(args) => check::run(context, args),
        KernelAction::Diff(args) => diff::run(context, args),
        KernelAction::Bisect(args) => bisect::run(context, args),
    }
}

/// A configuration, its text, and what it is called.
struct Named {
    place: String,
    text: Vec<u8>,
    config: KernelConfig,
}

/// A file that the user named.
fn of_file(path: &Path) -> Result<Named> {
    let place = path.display().to_string();
    let bytes = read_file("kernel configuration", path, MOST, HINT)?;
    let bad =
        |why: String| Error::usage(format!("read kernel configuration {place}"), why).hint(HINT);
    let text = match gzip::is_packed(&bytes) {
        true => gzip::unpack(&bytes, MOST).map_err(bad)?,
        false => bytes,
    };
    let mut config =
        config::read(&text).ok_or_else(|| bad("it has no line with an option".into()))?;
    let name = path.file_name().map(|name| name.to_string_lossy());
    config.version = config.version.or_else(|| name.and_then(|name| config::version_in(&name)));
    Ok(Named { place, text, config })
}

/// The parts of one configuration, the most general first.
fn of_parts(paths: &[PathBuf]) -> Result<Named> {
    let mut parts = paths.iter().map(|path| of_file(path));
    let Some(whole) = parts.next() else {
        return Err(Error::usage("read a kernel configuration", "none is named").hint(HINT));
    };
    let mut whole = whole?;
    for part in parts {
        let part = part?;
        whole.place = format!("{} + {}", whole.place, part.place);
        whole.config.merge(part.config);
    }
    Ok(whole)
}

/// The running kernel's, or the captured machine's, and what else is known of that kernel.
fn running(context: &Context) -> Result<(Named, KernelFacts)> {
    let host = context.reader();
    let snapshot = discover::snapshot(host);
    let release = snapshot.machine.kernel;
    let told = kernel_config(host, &release)
        .and_then(|(place, text)| Some((config::read(&text)?, place, text)));
    let Some((config, place, text)) = told else {
        return Err(Error::not_supported(
            format!("read the configuration of the running kernel {release}").trim_end(),
            "it is in none of /proc/config.gz, /boot/config-* and /lib/modules/*/config",
        )
        .hint("modprobe configs, or give the file that it was built with"));
    };
    Ok((Named { place, text, config }, snapshot.kernel))
}
