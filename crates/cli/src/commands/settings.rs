//! `--settings`: the names that `--set` takes.

use fourtuple::conntrack::Settings;

use crate::args::Format;
use crate::out::Out;
use crate::schema;
use crate::setup::{Setup, default_settings};

pub(crate) fn run(setup: &Setup, out: &mut Out) -> anyhow::Result<()> {
    let defaults = default_settings();
    for info in Settings::names() {
        let value = setup.settings.get(info.name).unwrap_or_default();
        let default = defaults.get(info.name).unwrap_or_default();
        let (setting, takes) = (info.name, info.range);
        if setup.style.format == Format::Ndjson {
            out.json(&schema::Setting { setting, value: &value, default: &default, takes })?;
            continue;
        }
        if value == default {
            out.line(format_args!("{setting} = {value} ({takes})"))?;
        } else {
            out.line(format_args!("{setting} = {value} ({takes}; default {default})"))?;
        }
    }
    Ok(())
}
