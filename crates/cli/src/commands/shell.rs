//! `completions` and `man`: made from the definitions of the arguments.

use std::fs;
use std::io::Write;
use std::path::Path;

use anyhow::Context;
use clap::CommandFactory;
use clap_complete::Shell;

use crate::args::Cli;
use crate::out::Out;

pub(crate) fn completions(shell: Shell, out: &mut Out) -> anyhow::Result<()> {
    // By way of memory: the generator panics when it cannot write, which a closed pipe is no reason for.
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "fourtuple", &mut script);
    out.write_all(&script)?;
    Ok(())
}

pub(crate) fn man(dir: Option<&Path>, out: &mut Out) -> anyhow::Result<()> {
    let command = Cli::command();
    let Some(dir) = dir else {
        clap_mangen::Man::new(command).render(out)?;
        return Ok(());
    };
    let write = || -> std::io::Result<()> {
        fs::create_dir_all(dir)?;
        clap_mangen::generate_to(command, dir)
    };
    write().with_context(|| format!("writing manual pages into {}", dir.display()))
}
