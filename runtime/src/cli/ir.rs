//! `ir`: what stands between two stages.

use serde_json::json;

use super::args::{IrArgs, Stage};
use super::failure::Failure;
use super::matrix::Place;
use super::out::Out;
use super::{Source, choose_scheduled, march, source, systems};
use kernelwright_codegen::{loops_text, math_text};

pub(super) fn run(args: &IrArgs, out: &mut Out) -> Result<u8, Failure> {
    let source = source(&args.compile.program, Place::Nowhere(args.target.into()))?;
    let text = text(&source, args)?;
    out.line(text.trim_end())?;
    out.object(&json!({ "stage": format!("{:?}", args.stage).to_lowercase(), "text": text }))?;
    Ok(0)
}

fn text(source: &Source, args: &IrArgs) -> Result<String, Failure> {
    let loaded = &source.loaded;
    if args.stage == Stage::Math && systems::only(loaded) {
        return systems::equations(loaded);
    }
    if args.stage != Stage::Program
        && let Some(run) = march::chosen(loaded, args.compile.program.problem.as_deref())?
    {
        return systems::ir(loaded, run, args);
    }
    let builder = choose_scheduled(source, &args.compile);
    Ok(match args.stage {
        Stage::Program => kernelwright_syntax::print::program(&parsed(loaded)?),
        Stage::Math => {
            let (_, problem) = builder.chosen()?;
            math_text::dump(&builder.operator(&problem)?)
        }
        Stage::Graph => builder.plan()?.graph.text(),
        Stage::Schedule => {
            let planned = builder.plan()?;
            planned.plan().schedule.text(&planned.graph)
        }
        Stage::Loops => loops_text::text(&builder.plan()?.plan().program),
        Stage::Kernel => {
            let (_, problem) = builder.chosen()?;
            let planned = builder.plan()?;
            let module = builder.module(&planned.plan().program, args.target.into(), &problem)?;
            let kernels: Vec<String> = module.kernels.iter().map(|kernel| kernel.to_string()).collect();
            kernels.join("\n")
        }
    })
}

fn parsed(loaded: &crate::load::Loaded) -> Result<kernelwright_syntax::ast::Ast, Failure> {
    kernelwright_syntax::parse::parse_text(&loaded.program.file, &loaded.text).map_err(Failure::Program)
}
