//! The program: parse, dispatch, exit code.

fn main() -> std::process::ExitCode {
    linerate::cli::main().into()
}
