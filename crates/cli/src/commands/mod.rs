//! One file a command.

mod annotate;
mod events;
mod explain;
mod reasons;
mod settings;
mod shell;
mod track;

use fourtuple::capture::CaptureError;

use crate::args::{Command, Shared};
use crate::demux::{self, Complaints};
use crate::out::Out;
use crate::setup::Setup;

/// What was wrong with captures, once all that could be printed is.
pub(crate) type Damage = Vec<CaptureError>;

pub(crate) fn run(command: Command, out: &mut Out) -> anyhow::Result<Complaints> {
    match command {
        Command::Track(args) => {
            on_captures(args.shared, out, |setup, out| track::run(setup, args.ended, out))
        }
        Command::Explain(args) => {
            let args = *args;
            let how =
                explain::How { which: args.which, quiet: args.quiet, annotate: args.annotate };
            on_captures(args.shared, out, |setup, out| explain::run(setup, &how, out))
        }
        Command::Events(args) => on_captures(args.shared, out, events::run),
        Command::Demux(args) => demux::run(&args, out),
        Command::Reasons(args) => reasons::run(&args, out).map(|()| Complaints::new()),
        Command::Completions(args) => {
            shell::completions(args.shell, out).map(|()| Complaints::new())
        }
        Command::Man(args) => shell::man(args.dir.as_deref(), out).map(|()| Complaints::new()),
    }
}

fn on_captures(
    shared: Shared,
    out: &mut Out,
    work: impl FnOnce(&Setup, &mut Out) -> anyhow::Result<Damage>,
) -> anyhow::Result<Complaints> {
    let setup = Setup::new(shared)?;
    if setup.list_settings {
        settings::run(&setup, out)?;
        return Ok(Complaints::new());
    }
    Ok(work(&setup, out)?.iter().map(ToString::to_string).collect())
}
